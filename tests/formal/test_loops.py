"""Loops: the instructions of a program, each as often as the loops around it say, in order."""

from amaranth.asserts import AnyConst
from amaranth.hdl import Array, Assert, Assume, Cover, Module, Mux, Signal

from tests.formal.harness import after_reset, constant, free, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_INDEX, _TURN, _LENGTH = 3, 2, 3  # bits
_LINES = 4  # of the program
_DEPTH = 2
_STILL = _DEPTH + 2  # cycles without movement
_GIVEN = ("word", "error", "damaged")  # by the buffer


class _Line:
    """A line of the program, which the solver chooses; and if it is a LOOP, the turns that are left.

    Members
    -------
    word, error, damaged : as the buffer gives them
    turns, length, end : of a LOOP: its fields, and the line after its body
    left, active : turns to go; the loop is being executed
    """

    def __init__(self, m, load, number):
        contract, layout = load("etalstm_hw.contract"), load("etalstm_hw.stream").instruction_layout
        self.number, self._opcodes = number, contract.Opcode
        fields = Signal(layout(contract.Opcode.LOOP), name=f"line{number}")
        self.word, self.error = fields.as_value(), Signal(name=f"error{number}")
        self.damaged = Signal(name=f"damaged{number}")
        m.d.comb += [fields.eq(AnyConst(len(self.word))), self.error.eq(AnyConst(1))]
        m.d.comb += self.damaged.eq(AnyConst(1))
        m.d.comb += Assume(self.word[contract.OPCODE_BITS : contract.HEADER_BITS] == 0)
        self.turns, self.length, self.end = fields.turns, fields.length, number + 1 + fields.length
        self.loops, self.halts = (fields.opcode == contract.Opcode[name] for name in ("LOOP", "HALT"))
        self.left, self.active = Signal(_TURN, name=f"left{number}"), Signal(name=f"active{number}")


class _Walk:
    """Where the program is: the line that is next, and the loops around it after those that end here for good.

    Members
    -------
    active : for each line, whether it is a loop that goes on
    inner, end : the innermost of them and the end of its body; without one the end of the program
    repeats : its body has ended, and is executed again
    """

    def __init__(self, m, lines, length):
        self.next, self.active = Signal(_INDEX), Signal(_LINES)
        self.any, self.inner, self.end, self.repeats = Signal(), Signal(_INDEX), Signal(_INDEX + 1), Signal()
        blocked = 0
        for line in reversed(lines):
            ends = line.active & (line.end == self.next) & (line.left == 1) & ~blocked
            m.d.comb += self.active[line.number].eq(line.active & ~ends)
            blocked = blocked | (line.active & ~ends)
        m.d.comb += [
            self.any.eq(self.active.any()),
            self.end.eq(length),
            self.repeats.eq(self.any & (self.end == self.next)),
        ]
        for line in lines:
            with m.If(self.active[line.number]):
                m.d.comb += [self.inner.eq(line.number), self.end.eq(line.end)]


def _execute(m, unit, walk, lines):
    """Follow a step or a step back."""
    for line in lines:
        here = walk.next == line.number
        with m.If(unit.step | unit.back):
            m.d.sync += line.active.eq(walk.active[line.number])
        with m.If(unit.back & (walk.inner == line.number)):
            m.d.sync += [line.left.eq(line.left - 1), walk.next.eq(line.number + 1)]
        with m.If(unit.step & here):
            m.d.sync += [
                line.active.eq(line.loops & ~line.error & ~line.damaged),
                line.left.eq(line.turns),
                walk.next.eq(line.number + 1),
            ]


def loops(load):
    """Count the turns that are left beside each LOOP of the program, in place of a stack of loops.

    Any program of up to 4 lines, loops inside each other by two, up to 3 turns: a third level would be refused, as a
    fifth is by the machine. Indices and lengths of 3 bits are compared as those of 32 and 24 are.
    """
    status = load("etalstm_hw.contract").Status
    unit = load("etalstm_hw.program.loops").Loops()
    m = Module()
    m.submodules.unit = unit
    free(m, unit)
    constant(m, unit.length)
    lines = [_Line(m, load, number) for number in range(_LINES)]
    walk, position = _Walk(m, lines, unit.length), Signal(_INDEX)
    word, error, damaged = (Array(getattr(line, name) for line in lines)[position] for name in _GIVEN)
    o, ended = unit.o, Signal()
    given = stream_out(m, o, name="o")

    is_loop = Array(line.loops for line in lines)[position] & ~error & ~damaged
    halts = Array(line.halts for line in lines)[position]
    turns, length = Array(line.turns for line in lines)[position], Array(line.length for line in lines)[position]
    depth = sum(walk.active)
    malformed = (turns == 0) | (length == 0) | (position + 1 + length > walk.end) | (depth == _DEPTH)
    bad = Mux(is_loop, malformed, halts & walk.any)
    malformed_or_none = Mux(bad, status.BAD_FIELD, status.IDLE)
    verdict = Mux(error, status.READ_ERROR, Mux(damaged, status.BAD_CHECK, malformed_or_none))
    there, entering, expected, number = Signal(), Signal(), Signal(status), Signal(_INDEX)
    truncated = o.valid & ~there
    still = Signal(range(_STILL + 2))
    moves = unit.step | unit.back | o.valid | ended
    m.d.sync += still.eq(Mux(moves | ~unit.valid, 0, still + 1))
    m.d.comb += [
        Assume(unit.length <= _LINES),
        Assume(after_reset(m) | ~unit.valid),  # the buffer is empty
        Assume(unit.word[: len(word)] == word),
        Assume(unit.error == error),
        Assume(unit.damaged == damaged),
        Assert(unit.number == position),
        Assert(ended | (walk.next == position)),
        Assert(~(unit.step & ~unit.valid)),
        Assert(~(unit.step & unit.back)),
        Assert(~unit.step | ~(walk.repeats | ended | entering)),
        Assert(~unit.step | (position < unit.length)),
        Assert(~unit.back | ended | (walk.repeats & (unit.target == walk.inner + 1))),
        Assert(~unit.back | ended | (unit.distance == walk.end - walk.inner - 1)),
        Assert(~there | entering | o.valid),
        Assert(~(o.valid & entering)),
        Assert(~(o.valid & there) | ((o.p.number == number) & (o.p.verdict == expected))),
        Assert(~truncated | ((o.p.verdict == status.TRUNCATED) & (o.p.number == unit.length))),
        Assert(~truncated | ((position == unit.length) & ~walk.any)),
        Assert(~(given & ended) | (expected != status.IDLE) | truncated),
        Assert(still <= _STILL),
        Cover(unit.back & (walk.inner == 1) & walk.active[0] & (lines[0].left == 1)),
        Cover(truncated & (lines[0].loops & lines[1].loops)),
        Cover(o.valid & there & (expected == status.BAD_FIELD) & (number == 2)),
    ]
    m.d.sync += entering.eq(unit.step & is_loop)
    with m.If(unit.back):
        m.d.sync += position.eq(position - unit.distance)
    with m.If(given):
        m.d.sync += there.eq(0)
    with m.If(unit.step):
        m.d.sync += [position.eq(position + 1), there.eq(~is_loop | bad), number.eq(position), expected.eq(verdict)]
        m.d.sync += ended.eq(verdict != status.IDLE)
    with m.If(truncated):
        m.d.sync += ended.eq(1)
    _execute(m, unit, walk, lines)
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.program.loops", old, new, survives)


PROOFS = [
    Proof(
        name="Loops",
        build=loops,
        claim="any program's instructions in order, each as often as the loops around it say; bad loops are refused",
        method=pdr(),
        reach=24,
        small=(
            Change("etalstm_hw.contract.fields", "LOOP_DEPTH = 4", f"LOOP_DEPTH = {_DEPTH}"),
            Change("etalstm_hw.contract.fields", "LOOP_BITS = 24", f"LOOP_BITS = {_LENGTH}"),
            Change("etalstm_hw.contract.fields", "TURN_BITS = 32", f"TURN_BITS = {_TURN}"),
            Change("etalstm_hw.program.buffer", "NUMBER_BITS = 32", f"NUMBER_BITS = {_INDEX}"),
        ),
        mutants=(
            _mutant("self.number + 1 == inner.end", "self.number == inner.end"),
            _mutant("at_end.eq(self.number == stack[1].end)", "at_end.eq(0)"),
            _mutant("[at_end.eq(0), past_all.eq(0)]", "past_all.eq(0)"),
            _mutant("[at_end.eq(0), past_all.eq(0)]", "at_end.eq(0)"),
            _mutant("past_all.eq(self.number + 1 == self.length)", "past_all.eq(0)"),
            _mutant("~ended & (~stored | self.o.ready)", "~stored | self.o.ready"),
            _mutant("~ended & (~stored | self.o.ready)", "~ended"),
            _mutant("stored & ~is_loop", "stored"),
            _mutant("self.distance.eq(inner.length)", "self.distance.eq(inner.end)"),
            _mutant("self.target.eq(inner.start)", "self.target.eq(inner.end)"),
            _mutant("with m.If(inner.turns == 1):", "with m.If(inner.turns == 0):"),
            _mutant("inner.turns.eq(inner.turns - 1), ", ""),
            _mutant("self.number.eq(inner.start)]", "self.number.eq(inner.start + 1)]"),
            _mutant("Mux(stack[0].active, stack[0].end, self.length)", "self.length"),
            _mutant("(loop.turns == 0) | ", ""),
            _mutant("(loop.length == 0) | ", ""),
            _mutant("(end > limit)", "(end >= limit)"),
            _mutant(" | stack[-1].active", ""),
            _mutant(
                "inner.active & (self.word[:OPCODE_BITS] == Opcode.HALT)", "self.word[:OPCODE_BITS] == Opcode.HALT"
            ),
            _mutant("ended.eq(verdict != Status.IDLE)", "ended.eq(self.error | self.damaged)"),
            _mutant("verdict.eq(Status.BAD_CHECK)", "verdict.eq(Status.IDLE)"),
            _mutant("with m.Elif(self.damaged):", "with m.If(self.damaged):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
