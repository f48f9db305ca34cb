"""Who touched what last: from this follow the instructions that an instruction has to wait for."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import final

from etalstm.plan.memory.operands import Section
from etalstm_hw.contract import ENGINE_OF, Engine, Memory, Opcode

# Counts by engine: of instructions that were dispatched, or that must be completed.
Counts = list[int]

# Their wait_store is always about every channel's STOREs.
EVERYONE = (Opcode.CAST, Opcode.SEND, Opcode.LOAD_ROWS)


def none() -> Counts:
    """Give a count of 0 for every engine."""
    return [0] * len(Engine)


class _Uses:
    """The last writer of a resource, and by engine the last reader since: what was dispatched up to each of them."""

    __slots__ = ("engine", "reads", "written")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.write(Engine.LOAD, 0)

    def write(self, engine: Engine, count: int) -> None:
        self.engine, self.written = engine, count
        self.reads: dict[Engine, int] = {}

    def need_written(self, needs: Counts) -> None:
        if self.written > needs[self.engine]:
            needs[self.engine] = self.written

    def need_all(self, needs: Counts) -> None:
        self.need_written(needs)
        for engine, count in self.reads.items():
            if count > needs[engine]:
                needs[engine] = count

    def shift(self, after: Counts, by: Counts) -> None:
        if self.written > after[self.engine]:
            self.written += by[self.engine]
        self.reads = {e: count + by[e] if count > after[e] else count for e, count in self.reads.items()}


@final
class VectorSet(_Uses):
    """A set of vectors of a lane memory, made by :meth:`Tracker.vectors`."""

    __slots__ = ("contained", "mask", "overlapping")

    def __init__(self, mask: int):
        super().__init__()
        self.mask = mask
        self.overlapping: list[VectorSet] = [self]  # sets that share a vector with it
        self.contained: list[VectorSet] = []  # other sets that have no further vector

    def meet(self, other: "VectorSet") -> None:
        """Note how two different sets overlap."""
        common = self.mask & other.mask
        if not common:
            return
        for one, another in ((self, other), (other, self)):
            one.overlapping.append(another)
            if common == another.mask:
                one.contained.append(another)


Resource = VectorSet | Section
Waiter = tuple[Engine, bool]  # an engine, and whether its wait_store is about every channel's STOREs


class _Array:
    """The sections of an array; and by engine, the last writer and the last reader of any section.

    `floor_writes` and `floor_reads` are the same of all that happened before the last :meth:`collapse`. They hold for
    every section, so a section that nobody has named since is still safe.
    """

    def __init__(self) -> None:
        self.sections: dict[tuple, _Uses] = defaultdict(_Uses)
        self.writes, self.reads = none(), none()
        self.floor_writes, self.floor_reads = none(), none()

    def collapse(self) -> None:
        self.sections.clear()
        self.floor_writes, self.floor_reads = self.writes.copy(), self.reads.copy()

    def shift(self, after: Counts, by: Counts) -> None:
        for counts in (self.writes, self.reads):
            for engine, count in enumerate(counts):
                if count > after[engine]:
                    counts[engine] += by[engine]


class Tracker:
    """Tells for each instruction which earlier ones must be completed before it starts.

    An instruction waits for the last writer of what it reads, and for the last writer and all later readers of what it
    writes. Engines work in order. So an instruction waits for its own engine only where the engine's pipeline does not
    interlock, VECTOR reading what VECTOR wrote, and where a STORE waits for those of every channel. And nothing waits
    for what an earlier instruction of its engine has waited for.

    `dispatched`: instructions of each engine so far, all turns of all loops counted.
    """

    def __init__(self) -> None:
        self.dispatched = none()
        self._vectors: dict[Memory, dict[int, VectorSet]] = {memory: {} for memory in Memory}
        self._arrays: dict[Hashable, _Array] = defaultdict(_Array)
        # What engines have waited for: by (engine, whether wait_store was about every channel).
        self._waited = {(engine, everyone): none() for engine in Engine for everyone in (False, True)}

    def vectors(self, memory: Memory, mask: int) -> VectorSet:
        """Give the resource of a lane memory's vectors whose bits are set in `mask`."""
        known = self._vectors[memory]
        if mask not in known:
            known[mask] = new = VectorSet(mask)
            for other in known.values():
                if other is not new:
                    new.meet(other)
        return known[mask]

    def access(
        self, opcode: Opcode, reads: Iterable[Resource], writes: Iterable[Resource], most: int, everyone: bool = False
    ) -> tuple[int, ...]:
        """Note an instruction; tell what it waits for. With `everyone` its wait_store is about every channel's STOREs.

        Returns, by engine, how many instructions back the one lies that it waits for: `most` at most, 0 for none.
        """
        engine = ENGINE_OF[opcode]
        needs = self._needs(engine, reads, writes, everyone)
        waits = self._distances((engine, everyone or opcode in EVERYONE), needs, most)
        dispatched = self.dispatched
        dispatched[engine] += 1
        reader, read = self._reader(opcode)
        for resource in reads:
            if type(resource) is VectorSet:
                resource.reads[reader] = read
            else:
                array = self._arrays[resource.array]
                array.reads[reader] = array.sections[resource.section].reads[reader] = read
        for resource in writes:
            if type(resource) is VectorSet:
                for inner in resource.contained:
                    inner.clear()
                resource.write(engine, dispatched[engine])
            else:
                array = self._arrays[resource.array]
                array.writes[engine] = dispatched[engine]
                array.sections[resource.section].write(engine, dispatched[engine])
        return waits

    def _reader(self, opcode: Opcode) -> tuple[Engine, int]:
        """Tell of which engine so many instructions must be completed until what was dispatched last has read.

        The channels see what the broadcaster reads as done when the product is done: a CAST's is the next one, SENDs
        have one each.
        """
        if opcode == Opcode.CAST:
            return Engine.MAC, self.dispatched[Engine.MAC] + 1
        if opcode == Opcode.SEND:
            return Engine.MAC, self.dispatched[Engine.CAST]
        return ENGINE_OF[opcode], self.dispatched[ENGINE_OF[opcode]]

    def _needs(self, engine: Engine, reads: Iterable[Resource], writes: Iterable[Resource], everyone: bool) -> Counts:
        """Tell how many instructions of each engine must be completed."""
        needs = none()
        for resource in writes:
            if type(resource) is VectorSet:
                for other in resource.overlapping:
                    other.need_all(needs)
            else:
                array = self._arrays[resource.array]
                array.sections[resource.section].need_all(needs)
                _raise(needs, array.floor_writes)
                _raise(needs, array.floor_reads)
        needs[engine] = 0
        for resource in reads:
            if type(resource) is VectorSet:
                for other in resource.overlapping:
                    other.need_written(needs)
            else:
                array = self._arrays[resource.array]
                array.sections[resource.section].need_written(needs)
                _raise(needs, array.floor_writes)
        if engine != Engine.VECTOR and not (everyone and engine == Engine.STORE):
            needs[engine] = 0
        return needs

    def _distances(self, waiter: Waiter, needs: Counts, most: int) -> tuple[int, ...]:
        everyones = self._waited[waiter[0], True]
        waited = self._waited[waiter]
        waits = []
        for engine, count in enumerate(needs):
            distance = 0
            if count > waited[engine] and (count > everyones[engine] or waiter[1]):
                distance = min(most, self.dispatched[engine] + 1 - count)
                if distance < 1:
                    raise RuntimeError(f"{waiter[0].name} waits for {Engine(engine).name} {count}, which comes later")
                waited[engine] = self.dispatched[engine] + 1 - distance
            waits.append(distance)
        return tuple(waits)

    def collapse(self) -> None:
        """Forget which sections of arrays were touched: what comes waits for the last that touched any of them.

        At a loop's start: turns that are never emitted may touch sections that those which are emitted do not.
        """
        for array in self._arrays.values():
            array.collapse()

    def skip(self, after: Counts, by: Counts) -> None:
        """Go on as if what was dispatched after counts `after` had been repeated, `by` instructions in all.

        Afterwards the last repetition counts as the one that was seen.
        """
        for known in self._vectors.values():
            for vectors in known.values():
                vectors.shift(after, by)
        for array in self._arrays.values():
            array.shift(after, by)
        self.collapse()
        self.dispatched = [count + more for count, more in zip(self.dispatched, by, strict=True)]

    def waited(self) -> dict[Waiter, Counts]:
        """Copy what engines have waited for."""
        return {waiter: counts.copy() for waiter, counts in self._waited.items()}

    def repeat_waits(self, before: dict[Waiter, Counts], after: dict[Waiter, Counts], by: Counts, times: int) -> None:
        """Note what engines have waited for when `by` instructions (by engine) are repeated some `times`.

        `before` and `after` are what :meth:`waited` gave before and after these instructions.
        """
        for waiter, counts in after.items():
            earlier = before[waiter]
            self._waited[waiter] = [
                count + times * by[engine] if count - earlier[engine] == by[engine] else count
                for engine, count in enumerate(counts)
            ]


def _raise(needs: Counts, floor: Counts) -> None:
    for engine, count in enumerate(floor):
        if count > needs[engine]:
            needs[engine] = count
