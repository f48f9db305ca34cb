"""InstructionQueue: instructions in order, none before its waits are met, none kept after."""

from amaranth.hdl import Assert, Cat, Cover, Mux, Signal
from amaranth.lib import data

from tests.formal.harness import Scoreboard, bench, payload, stream_in
from tests.formal.prove import Change, Mutant, Proof, pdr

_DEPTH, _RESERVE, _TARGET_BITS = 2, 1, 3
_RELEASE_CYCLES = 3  # from the moment that nothing stands in an instruction's way until it is offered


def instruction_queue(load):
    """Follow one instruction. Counts are free: they may even run backwards.

    Two wait and one more is taken: the queue beneath has depth 3, whose pointers wrap as those of any depth do. Targets
    have 3 bits and instructions 2 bits of fields; the unit compares the former by their sign and copies the latter.
    """
    stream = load("etalstm_hw.stream")
    header = load("etalstm_hw.contract").HEADER_BITS
    unit = load("etalstm_hw.program.queue").InstructionQueue(
        data.StructLayout({"header": header, "fields": 2}), _DEPTH, _RESERVE
    )
    m = bench(unit)
    i, o = unit.i, unit.o
    enters, leaves = stream_in(m, i, name="i"), o.valid & o.ready
    opcode, waits = i.p.word[:4], i.p.waits
    drained, ended = Signal(), Signal()
    m.d.comb += ended.eq(unit.drain | drained)
    m.d.sync += drained.eq(ended)
    board = Scoreboard(
        m,
        enters=enters,
        expected=payload(opcode, i.p.word[4:header] & 0, i.p.word[header:][:2]),
        leaves=leaves,
        actual=o.p,
        capacity=_DEPTH + _RESERVE + 1,
        clear=ended,
    )

    own = Signal(stream.Waits(), reset_less=True)  # the followed instruction's
    with m.If(enters & ~board.chosen):
        m.d.sync += own.eq(waits)
    counts = [unit.completed[name] for name in ("load", "mac", "vector")]
    stored = Mux(own.everyone, unit.stored_by_all, unit.completed.store[:_TARGET_BITS])
    unmet = [
        wait.wanted & ((count[:_TARGET_BITS] - wait.target)[:_TARGET_BITS] >= 1 << (_TARGET_BITS - 1))
        for wait, count in zip((own.load, own.mac, own.vector, own.store), (*counts, stored), strict=True)
    ]
    met, was_met, first = Signal(), Signal(), board.chosen & (board.ahead == 0)
    since = Signal(range(_RELEASE_CYCLES + 2))
    m.d.comb += met.eq(~Cat(unmet).any())
    m.d.sync += [was_met.eq(board.chosen & ~(leaves & first) & (was_met | met)), since.eq(0)]
    with m.If(first & met & ~unit.drain & ~o.valid):
        m.d.sync += since.eq(since + 1)
    waited = Signal()
    m.d.sync += waited.eq(o.valid & ~o.ready & ~unit.drain)
    m.d.comb += [
        Assert(~(o.valid & first) | was_met),
        Assert(since <= _RELEASE_CYCLES - 1),
        Assert(~waited | o.valid | unit.drain),
        Assert(~(o.valid & unit.drain)),
        Assert(ended | (unit.busy == (board.inside != 0))),
        Assert(~unit.room | i.ready),
        Assert(ended | unit.room | (board.inside >= _DEPTH)),
        Assert(~unit.room | (board.inside <= _DEPTH)),
        Assert(~unit.waits.any() | (~o.valid & unit.busy)),
        Assert(~(first & unit.waits.any() & (board.inside == 1)) | ~met),
        Cover(leaves & first & (board.inside == _DEPTH + _RESERVE + 1)),
        Cover(first & unit.waits.all()),
        Cover(~i.ready),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.program.queue", old, new, survives)


PROOFS = [
    Proof(
        name="InstructionQueue",
        build=instruction_queue,
        claim="order, nothing lost or doubled; offered only after its waits were met, and 3 cycles later at most",
        method=pdr(),
        reach=16,
        small=(Change("etalstm_hw.contract.fields", "TARGET_BITS = 20", "TARGET_BITS = 3"),),
        mutants=(
            _mutant("may_leave, empty = there & ~blocked.any(),", "may_leave, empty = there,"),
            _mutant("may_leave, empty = there & ~blocked.any(),", "may_leave, empty = ~blocked.any(),"),
            _mutant("fifo.r_en.eq(~there)", "fifo.r_en.eq(1)"),
            _mutant("with m.If(~there):", "with m.If(fifo.r_rdy):"),
            _mutant("self.o.valid.eq(valid & ~self.drain)", "self.o.valid.eq(valid)"),
            _mutant("level < self.depth", "level <= self.depth"),
            _mutant("level = fifo.level + there", "level = fifo.level"),
            _mutant("depth=self.depth + self.reserve - 1", "depth=self.depth - 1"),
            _mutant("Mux(head.waits.everyone, self.stored_by_all", "Mux(0, self.stored_by_all"),
            _mutant("valid | there | fifo.r_rdy", "there | fifo.r_rdy"),
            _mutant("with m.If(~valid & there):", "with m.If(there):"),
            _mutant("kept.eq(there & ~(empty | self.o.ready))", "kept.eq(0)"),
            _mutant("kept.eq(there & ~(empty | self.o.ready))", "kept.eq(~(empty | self.o.ready))"),
            _mutant("Mux(there, blocked.any(), fifo.r_rdy)", "Mux(there, 0, fifo.r_rdy)"),
            _mutant("Mux(there, blocked.any(), fifo.r_rdy)", "fifo.r_rdy"),
            _mutant("with m.If(~valid | self.o.ready):", "with m.If(self.o.ready):"),
            _mutant("with m.If(~valid | self.o.ready):", "with m.If(~valid):"),
            _mutant("valid.eq(may_leave)", "valid.eq(there)"),
            _mutant("empty.eq(~may_leave)", "empty.eq(0)"),
            Mutant("etalstm_hw.stream", "return wait.wanted & (completed", "return (completed"),
            Mutant(
                "etalstm_hw.stream",
                "- wait.target)[contract.TARGET_BITS - 1]",
                "- wait.target)[contract.TARGET_BITS - 2]",
            ),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
