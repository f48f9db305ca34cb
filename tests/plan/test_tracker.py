"""Random programs with loops: whatever touches the same resource is ordered by waits, in every turn."""

import random

import pytest

from etalstm.plan.memory.operands import Section
from etalstm.plan.program.program import Program
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import ENGINE_OF, Engine, Memory, Opcode

OPCODES = (Opcode.LOAD, Opcode.VECTOR, Opcode.STORE)
TURNS = 40
FIELDS = {"outer": 1, "inner": 1}


class Recorded:
    """A program, and what each executed instruction touches, if all turns are executed."""

    def __init__(self):
        self.program, self.touched = Program(preset("test")), []

    def run(self, emit):
        """Emit with the program's loops, then note what is touched without them."""
        emit(self._emit, self.program.loop)
        emit(self._note, self._all_turns)
        self.program.halt()
        return self

    def _emit(self, opcode, reads, writes):
        reads, writes = ([self._tracked(name) for name in names] for names in (reads, writes))
        self.program.emit(opcode, reads=reads, writes=writes, **FIELDS)

    def _tracked(self, name):
        return self.program.vectors(Memory.SCRATCH, name) if isinstance(name, int) else name

    def _note(self, opcode, reads, writes):
        reads, writes = ([one for name in names for one in self._ones(name)] for names in (reads, writes))
        self.touched.append((ENGINE_OF[opcode], reads, writes))

    @staticmethod
    def _ones(name):
        """Vectors one by one, of those that an integer has bits for."""
        return [n for n in range(name.bit_length()) if name >> n & 1] if isinstance(name, int) else [name]

    @staticmethod
    def _all_turns(turns, emit_turn):
        for turn in range(turns):
            emit_turn(turn)

    def unordered(self):
        """The first instruction that may start before one that it needs; None if there is none."""
        known, history = {e: [0] * len(Engine) for e in Engine}, {e: [None] for e in Engine}
        written, read = {}, {}
        steps = list(walk(self.program.words))[:-1]
        assert len(steps) == len(self.touched)
        for number, (step, (engine, reads, writes)) in enumerate(zip(steps, self.touched, strict=True)):
            knows = known[engine]
            for other, target in enumerate(step.waits):
                if target:
                    knows = [max(pair) for pair in zip(knows, history[other][target], strict=True)]
            needs = [written[resource] for resource in [*reads, *writes] if resource in written]
            needs += [reader for resource in writes for reader in read.get(resource, {}).items()]
            raw = [written[resource] for resource in reads if resource in written]
            for other, count in needs:
                own = other == engine and (engine != Engine.VECTOR or (other, count) not in raw)
                if not own and knows[other] < count:
                    return f"instruction {number}, {step}: {Engine(other).name} {count}, it knows of {knows}"
            known[engine] = knows
            count = len(history[engine])
            history[engine].append([count if other == engine else seen for other, seen in enumerate(knows)])
            for resource in reads:
                read.setdefault(resource, {})[engine] = count
            for resource in writes:
                written[resource], read[resource] = (engine, count), {}
        return None


def resource(generator):
    """A function from the numbers of turns to a resource: fixed, alternating, or a part of this turn or the last."""
    kind, name = generator.randrange(7), generator.randrange(3)
    return {
        0: lambda turn, *_: ("fixed", name),
        1: lambda turn, *_: ("half", name, turn % 2),
        5: lambda turn, *_: 0b101 << name,
        6: lambda turn, *_: 0b11 << 8 + name + 4 * (turn % 2),
        2: lambda turn, *_: Section(("array", name), (turn,)),
        3: lambda turn, *_: Section(("array", name), (turn - 1,)),
        4: lambda turn, *inner: Section(("inner", name), (turn, *inner)),
    }[kind]


def operations(generator, count):
    """Opcodes, with functions from turns to what each reads and writes."""
    return [
        (generator.choice(OPCODES), [resource(generator)], [resource(generator)]) for _ in range(count)
    ]  # fmt: skip


def random_program(seed):
    generator = random.Random(seed)
    parts = [operations(generator, generator.randint(1, 4)) for _ in range(4)]
    inner, before, after = generator.choice([0, 3, 30]), *(
        [(generator.choice(OPCODES), Section(("array", generator.randrange(3)), (generator.randrange(TURNS),)),
          generator.random() < 0.5) for _ in range(6)] for _ in range(2)
    )  # fmt: skip

    def emit(one, loop):
        def all_of(part, *turns):
            for opcode, reads, writes in part:
                one(opcode, [read(*turns) for read in reads], [write(*turns) for write in writes])

        def turn(number):
            all_of(parts[0], number)
            if inner:
                loop(inner, lambda within: all_of(parts[1], number, within))
            all_of(parts[2], number)

        def alone(some):
            for opcode, part, reads in some:
                one(opcode, [part] if reads else [], [] if reads else [part])

        alone(before)
        loop(TURNS + seed % 2, turn)
        alone(after)
        all_of(parts[3], 1)

    return Recorded().run(emit)


@pytest.mark.parametrize("seed", range(150))
def test_waits_order_all_turns(seed):
    recorded = random_program(seed)
    found = recorded.unordered()
    assert found is None, f"seed {seed}: {found}"
    assert len(recorded.program.words) < len(recorded.touched)


def test_what_is_overwritten_is_waited_for_no_more():
    """A LOAD overwrites all that a VECTOR wrote a part of; who reads the part waits for the LOAD alone."""
    program = Program(preset("test"))
    whole, part = program.vectors(1, 0b1111), program.vectors(1, 0b0110)
    program.emit(Opcode.VECTOR, writes=[part], **FIELDS)
    program.emit(Opcode.LOAD, writes=[whole], **FIELDS)
    program.emit(Opcode.STORE, reads=[part], **FIELDS)
    assert [step.waits for step in walk(program.words)] == [(0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 0, 0)]


def test_only_vectors_that_overlap_are_waited_for():
    program = Program(preset("test"))
    even, odd, low = (program.vectors(1, mask) for mask in (0b0101, 0b1010, 0b0011))
    program.emit(Opcode.LOAD, writes=[even], **FIELDS)
    program.emit(Opcode.STORE, reads=[odd], **FIELDS)
    program.emit(Opcode.VECTOR, reads=[low], **FIELDS)
    assert [step.waits for step in walk(program.words)] == [(0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0)]


def test_a_store_waits_for_stores_of_every_channel_once():
    """Of its own channel it need not: the engine works in order."""
    program = Program(preset("test"))
    program.emit(Opcode.STORE, writes=["used"], **FIELDS)
    for everyone in (0, 1, 1):
        program.emit(Opcode.STORE, reads=["used"], everyone=everyone, **FIELDS)
    program.halt()
    assert [step.fields["wait_store"] for step in list(walk(program.words))[:-1]] == [0, 0, 2, 0]


def test_joined_parts_are_waited_for_whatever_their_names():
    for joined, wait in ((False, 0), (True, 1)):
        program = Program(preset("test"))
        program.emit(Opcode.STORE, writes=[Section("array", (1,))], **FIELDS)
        if joined:
            program.join_parts()
        program.emit(Opcode.LOAD, reads=[Section("array", (2,))], **FIELDS)
        program.halt()
        assert list(walk(program.words))[1].fields["wait_store"] == wait
