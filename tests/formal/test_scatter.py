"""Scatter: the transfers of a pattern, in order, and none outside of the window."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import bench, constant, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_BITS = 4


def scatter(load):
    """Keep where the outer step began and multiply; the window's size is constant, as it is while a program runs.

    Offsets of 4 bits, counts and strides of 2: sums of any width wrap like these. The transfer that ends beyond the
    window is looked for at every place.
    """
    unit = load("etalstm_hw.dma.scatter").Scatter(5, 8, 2)
    m = bench(unit)
    i, o = unit.i, unit.o
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    constant(m, unit.size)
    now = Signal(i.p.shape(), reset_less=True)
    outer, lane, active = Signal(2), Signal(2), Signal()
    offset = (now.offset + outer * now.outer_beats + lane * now.lane_beats)[:_BITS]
    ends_lanes, ends, inside = lane + 1 == now.lanes, Signal(), Signal()
    m.d.comb += [
        Assume(~i.valid | ((i.p.outer != 0) & (i.p.lanes != 0))),
        ends.eq(ends_lanes & (outer + 1 == now.outer)),
        inside.eq(offset + now.beats <= unit.size),
        Assert(o.valid == (active & inside)),
        Assert(unit.violation == (active & ~inside)),
        Assert(unit.busy == active),
        Assert(~o.valid | (o.p.address == (now.window + offset)[:5])),
        Assert(~o.valid | ((o.p.beats == now.beats) & (o.p.tag.kind == now.kind) & (o.p.tag.final == ends))),
        Assert(i.ready == (~active | (given & ends))),
        Cover(given & ends & (now.outer == 2) & (now.lanes == 3)),
        Cover(unit.violation & (outer == 1)),
        Cover(given & ends & taken),
    ]
    with m.If(given):
        m.d.sync += [lane.eq(Mux(ends_lanes, 0, lane + 1)), outer.eq(outer + ends_lanes), active.eq(~ends)]
    with m.If(taken):
        m.d.sync += [now.eq(i.p), lane.eq(0), outer.eq(0), active.eq(1)]
    return m


def _mutant(old, new):
    return Mutant("etalstm_hw.dma.scatter", old, new)


PROOFS = [
    Proof(
        name="Scatter",
        build=scatter,
        claim="the transfers of two nested loops in order; what ends beyond the window is never offered",
        method=pdr(),
        reach=10,
        small=(
            Change("etalstm_hw.dma.scatter", "OFFSET_BITS = 34", f"OFFSET_BITS = {_BITS}"),
            Change("etalstm_hw.dma.scatter", "**{name: transpose[name] for name in", "**{name: 2 for name in"),
        ),
        mutants=(
            _mutant("next_turn.eq(turn + now.outer_beats)", "next_turn.eq(now.offset + now.outer_beats)"),
            _mutant("ends.eq(ends_lanes & (now.outer == 1))", "ends.eq(ends_lanes)"),
            _mutant("now.offset + now.beats <= self.size", "now.offset + now.beats < self.size"),
            _mutant("now.offset + now.beats <= self.size", "now.offset <= self.size"),
            _mutant("self.o.valid.eq(active & inside)", "self.o.valid.eq(active)"),
            _mutant("self.o.p.tag.final.eq(ends)", "self.o.p.tag.final.eq(ends_lanes)"),
            _mutant("(taken & ends)", "(self.o.ready & ends)"),
            _mutant("turn.eq(next_turn),", ""),
            _mutant("lanes_left.eq(now.lanes),", ""),
            _mutant("now.offset + now.lane_beats)", "turn + now.lane_beats)"),
            _mutant("with m.If(ends):", "with m.If(0):"),
            _mutant("turn.eq(self.i.p.offset)", "turn.eq(0)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
