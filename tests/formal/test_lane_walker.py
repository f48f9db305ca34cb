"""LaneWalker: every address of two nested loops, once and in order."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import bench
from tests.formal.prove import Change, Mutant, Proof, pdr

_BITS = 3


def lane_loop(load):
    """Multiply where the unit adds: two counters, and the address that they name.

    Counts and addresses of 3 bits, modulo 8: sums of any width wrap like these, and counts run to their end.
    """
    unit = load("etalstm_hw.dma.walker").LaneWalker()
    m = bench(unit)
    pattern = Signal(unit.pattern.shape(), reset_less=True)
    outer, inner, active = Signal(_BITS + 1), Signal(_BITS + 1), Signal()
    address = (pattern.lane_address + outer * pattern.outer_stride + inner * pattern.inner_stride)[:_BITS]
    ends_inner, ends = inner + 1 == pattern.inner, Signal()
    m.d.comb += [
        Assume(~unit.start | ((unit.pattern.outer != 0) & (unit.pattern.inner != 0))),
        Assume(~unit.step | active),
        ends.eq(ends_inner & (outer + 1 == pattern.outer)),
        Assert(~active | (unit.address == address)),
        Assert(~active | (unit.ends_inner == ends_inner)),
        Assert(~active | (unit.ends == ends)),
        Cover(unit.ends & active & (pattern.outer == 3) & (pattern.inner == 2)),
        Cover(unit.ends & active & unit.step & unit.start),
    ]
    with m.If(unit.step):
        m.d.sync += [inner.eq(inner + 1), active.eq(~ends)]
        with m.If(ends_inner):
            m.d.sync += [inner.eq(0), outer.eq(outer + 1)]
    with m.If(unit.start):
        m.d.sync += [pattern.eq(unit.pattern), inner.eq(0), outer.eq(0), active.eq(1)]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.dma.walker", old, new, survives)


PROOFS = [
    Proof(
        name="LaneWalker",
        build=lane_loop,
        claim="address, end of the inner pattern and end are those of two nested loops, step by step",
        method=pdr(),
        reach=14,
        small=(
            Change(
                "etalstm_hw.dma.walker",
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
            _mutant("turn.eq(self.pattern.lane_address),", "turn.eq(0),"),
            _mutant("inner_left.eq(self.pattern.inner)", "inner_left.eq(self.pattern.outer)"),
            _mutant("with m.If(self.start):", "with m.If(self.start & ~self.step):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
