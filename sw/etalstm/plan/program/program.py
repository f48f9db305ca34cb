"""A program under construction: instructions that say what they touch, waits that follow from it, and loops."""

from collections.abc import Callable, Hashable, Iterable

from etalstm.plan.memory.operands import Location, Log, Section
from etalstm.plan.program.fold import (
    FEWEST_TURNS,
    MOST_WRITTEN,
    FoldError,
    Instruction,
    Repeat,
    Steady,
    Turn,
    check,
    folded,
    lowered,
    steady,
)
from etalstm.plan.program.tracker import Counts, Resource, Tracker, VectorSet, Waiter
from etalstm.plan.program.volume import Volume
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import Opcode
from etalstm_hw.contract.image import INSTRUCTION_BYTES, image_of

_MOST_BACK = (1 << contract.WAIT_BITS) - 1
_Mark = tuple[Counts, dict[Waiter, Counts]]  # of each engine what was dispatched; what each has waited for


class Program:
    """Instructions in program order, with waits derived from what each of them reads and writes.

    What instructions wait for is found by :class:`etalstm.plan.program.tracker.Tracker`. Every wait refers to an
    earlier instruction. So a program never waits for itself, whatever the depth of the queues.

    Parameters
    ----------
    density : float    share of elements that compressed streams are taken to keep, where bytes are counted
    groups : int       groups of channels that execute it

    Members
    -------
    words : list of int, one 256-bit instruction each
    volume : Volume       bytes that the instructions move
    ends : dict from a log to the location of its last stream's index
    vectors : function    from a lane memory, and an integer with a bit for each of some of its vectors, to a resource
    """

    def __init__(self, config: Config, density: float = 1.0, groups: int = 1):
        self.volume = Volume(config, density, groups)
        self._tracker = Tracker()
        self._open: list[Turn] = []  # turns that are being written, the innermost loop's last
        self.words: list[int] = []
        self.ends: dict[Log, Location] = {}
        self.vectors = self._tracker.vectors

    def emit(
        self, opcode: Opcode, *, reads: Iterable[Hashable] = (), writes: Iterable[Hashable] = (), **fields: int
    ) -> None:
        """Append an instruction with the given fields; the header is filled in here.

        What it reads and writes are vectors of lane memories, as the member `vectors` gives them, parts of arrays, or
        any other names. Raises ``PlanError`` if a field does not fit.
        """
        read, written = _resources(reads), _resources(writes)
        waits = self._tracker.access(opcode, read, written, _MOST_BACK, bool(fields.get("everyone")))
        touched = tuple([name if type(name) is VectorSet else name.array for name in read + written])
        instruction = Instruction(opcode, waits, fields.pop("address", 0), fields, touched)
        if self._open:
            self._open[-1].outline.append(instruction)
        self._append(instruction)

    def loop(self, turns: int, emit_turn: Callable[[int], None], period: int = 1) -> None:
        """Append the turns of a loop, written once if they repeat.

        `emit_turn`, from a turn's number, is called for the first turns, in order, until they repeat what came before,
        and then for the last ones. Its instructions must then be the same for all turns but for their addresses, which
        advance by constants; what alternates between turns repeats after several. A turn may read what the turn before
        has written, but not what only an earlier turn has: only turns that are written are seen. Loops may contain
        loops.

        Turns repeat after a multiple of `period`. Raises ``FoldError`` if they do not.
        """
        if turns >= FEWEST_TURNS:
            self._tracker.collapse()
        written: list[Turn] = []
        marks = [self._mark()]
        while len(written) < turns:
            written.append(self._turn(emit_turn, len(written)))
            marks.append(self._mark())
            found = steady(written, period)
            if found and turns - len(written) > found.period:
                self._fold(turns, emit_turn, written, marks, found)
                return
            if len(written) == MOST_WRITTEN < turns:
                raise FoldError(f"the first {MOST_WRITTEN} of {turns} turns of a loop do not repeat")
        self._close(written, turns, written[-1:])

    def join_parts(self) -> None:
        """Have what follows wait for whatever has touched any part of its arrays: the parts may be named anew."""
        self._tracker.collapse()

    def _mark(self) -> _Mark:
        return self._tracker.dispatched.copy(), self._tracker.waited()

    def _turn(self, emit_turn: Callable[[int], None], number: int) -> Turn:
        self._open.append(Turn())
        emit_turn(number)
        return self._open.pop()

    def _fold(
        self, turns: int, emit_turn: Callable[[int], None], written: list[Turn], marks: list[_Mark], found: Steady
    ) -> None:
        """Skip what repeats; write the last turns, check them, and keep those beyond a whole number of periods."""
        period, seen = found.period, len(written)
        count = (turns - found.first) // period
        behind = found.first + count * period
        skipped = (turns - seen - 1) // period * period
        (before, waited_before), (after, waited_after) = marks[-1 - period], marks[-1]
        each = [b - a for a, b in zip(before, after, strict=True)]
        self._tracker.skip(before, [skipped // period * moved for moved in each])
        live = []
        for number in range(seen + skipped, turns + 1):
            if number == behind:
                # The loop's instructions wait as written, not as those of a turn after the skipped ones.
                self._tracker.repeat_waits(waited_before, waited_after, each, (behind - seen) // period)
            if number < turns:
                live.append(self._turn(emit_turn, number))
                check(number, live[-1], written, found)
        tail = live[len(live) - (turns - behind) :]
        kept = [*written[: found.first], Turn([folded(written, found, count)]), *tail]
        self._close(kept, turns, [written[0], live[-1]])

    def _close(self, kept: list[Turn], turns: int, ends: list[Turn]) -> None:
        """Append what is kept of a loop's turns; `ends` are its first and its last one."""
        if self._open:
            outline = [node for turn in ends for node in turn.outline]
            self._open[-1].outline.append(Repeat(turns, outline))
        for turn in kept:
            for node in turn.block:
                self._append(node)

    def _append(self, node: Instruction | Repeat) -> None:
        if self._open:
            self._open[-1].block.append(node)
            return
        self.words += lowered(node)
        self.volume.count(node)

    def halt(self) -> None:
        """Append the HALT that every program ends with."""
        self.words.append(contract.encode(Opcode.HALT))

    def image(self) -> bytes:
        """Bytes of the program as they lie in memory, with the instructions' checks."""
        return image_of(self.words)

    @property
    def bytes(self) -> int:
        """Bytes of the program."""
        return len(self.words) * INSTRUCTION_BYTES


def _resources(names: Iterable[Hashable]) -> list[Resource]:
    return [name if type(name) is VectorSet or type(name) is Section else Section(name) for name in names]
