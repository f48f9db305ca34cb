"""LaneLoop: every address of two nested loops, once and in order."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import bench
from tests.formal.prove import Change, Mutant, Proof, pdr

_BITS = 3


def lane_loop(load):
    """Multiply where the unit adds: two counters, and the address that they name.

    Counts and addresses of 3 bits, modulo 8: sums of any width wrap like these, and counts run to their end.
    """
    unit = load("etalstm_hw.dma.loop").LaneLoop()
    m = bench(unit)
    loop = Signal(unit.loop.shape(), reset_less=True)
    outer, inner, active = Signal(_BITS + 1), Signal(_BITS + 1), Signal()
    address = (loop.lane_address + outer * loop.outer_stride + inner * loop.inner_stride)[:_BITS]
    ends_inner, ends = inner + 1 == loop.inner, Signal()
    m.d.comb += [
        Assume(~unit.start | ((unit.loop.outer != 0) & (unit.loop.inner != 0))),
        Assume(~unit.step | active),
        ends.eq(ends_inner & (outer + 1 == loop.outer)),
        Assert(~active | (unit.address == address)),
        Assert(~active | (unit.ends_inner == ends_inner)),
        Assert(~active | (unit.ends == ends)),
        Cover(unit.ends & active & (loop.outer == 3) & (loop.inner == 2)),
        Cover(unit.ends & active & unit.step & unit.start),
    ]
    with m.If(unit.step):
        m.d.sync += [inner.eq(inner + 1), active.eq(~ends)]
        with m.If(ends_inner):
            m.d.sync += [inner.eq(0), outer.eq(outer + 1)]
    with m.If(unit.start):
        m.d.sync += [loop.eq(unit.loop), inner.eq(0), outer.eq(0), active.eq(1)]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.dma.loop", old, new, survives)


PROOFS = [
    Proof(
        name="LaneLoop",
        build=lane_loop,
        claim="address, end of the inner loop and end are those of two nested loops, step by step",
        method=pdr(),
        reach=14,
        small=(
            Change(
                "etalstm_hw.dma.loop",
                "from etalstm_hw.contract import COUNT_BITS, LANE_ADDRESS_BITS",
                "COUNT_BITS = LANE_ADDRESS_BITS = 3",
            ),
        ),
        mutants=(
            _mutant("next_turn.eq(turn + outer_stride)", "next_turn.eq(address + outer_stride)"),
            _mutant("self.ends_inner.eq(inner_left == 1)", "self.ends_inner.eq(inner_left == 0)"),
            _mutant("self.ends_inner & (outer_left == 1)", "outer_left == 1"),
            _mutant("inner_left.eq(inner_size),", ""),
            _mutant("outer_left.eq(outer_left - 1),", "outer_left.eq(outer_left),"),
            _mutant("address.eq(address + inner_stride)", "address.eq(turn + inner_stride)"),
            _mutant("turn.eq(next_turn),", ""),
            _mutant("turn.eq(self.loop.lane_address),", "turn.eq(0),"),
            _mutant("inner_left.eq(self.loop.inner)", "inner_left.eq(self.loop.outer)"),
            _mutant("with m.If(self.start):", "with m.If(self.start & ~self.step):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
