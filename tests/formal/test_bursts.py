"""Bursts: every transfer becomes legal bursts that follow each other without a gap."""

from amaranth.hdl import Assert, Assume, Cover, Signal

from tests.formal.harness import bench, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_ADDRESS_BITS, _BEATS_BITS, _BEATS = 6, 4, 4


def bursts(load):
    """Follow a transfer: where its next burst must begin, and how much of it is left.

    Bursts of 4 beats of 2 bytes, a boundary of 8 bytes: the unit only compares and adds, in widths that it is given.
    """
    unit = load("etalstm_hw.axi.bursts").Bursts(_ADDRESS_BITS, 16, _BEATS_BITS, tag=2)
    m = bench(unit)
    i, o, clear = unit.i, unit.o, unit.clear
    taken = stream_in(m, i, name="i")
    given = stream_out(m, o, name="o", unless=clear)
    m.d.comb += Assume(~i.valid | ((i.p.beats != 0) & ~i.p.address[0]))

    left, place, tag = Signal(_BEATS_BITS + 1), Signal(_ADDRESS_BITS), Signal(2)
    beats = o.p.length + 1
    m.d.comb += [
        Assert(o.valid == (left != 0)),
        Assert(~o.valid | ((o.p.address == place) & (o.p.tag == tag) & (beats <= left))),
        Assert(~o.valid | (o.p.last == (beats == left))),
        Assert(~o.valid | (o.p.address[1:3] + beats <= _BEATS)),  # no boundary is crossed
        Assert(~o.valid | o.p.last | (o.p.address[1:3] + beats == _BEATS)),  # nor is one missed
        Assert(~(taken & clear)),
        Assert(i.ready == (~clear & ((left == 0) | (given & o.p.last)))),
        Cover(given & o.p.last & taken),
        Cover(given & ~o.p.last & (left == 15)),
        Cover(clear & o.valid & (left == 9)),
    ]
    with m.If(taken):
        m.d.sync += [left.eq(i.p.beats), place.eq(i.p.address), tag.eq(i.p.tag)]
    with m.Elif(given):
        m.d.sync += [left.eq(left - beats), place.eq(place + (beats << 1))]
    with m.If(clear):
        m.d.sync += left.eq(0)
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.axi.bursts", old, new, survives)


PROOFS = [
    Proof(
        name="Bursts",
        build=bursts,
        claim="each transfer becomes bursts that join without a gap, end at its end, and cross no boundary",
        method=pdr(),
        quick=True,
        small=(
            Change("etalstm_hw.axi.axi", "BURST_BEATS = 16", "BURST_BEATS = 4"),
            Change("etalstm_hw.axi.axi", "BOUNDARY_BYTES = 4096", "BOUNDARY_BYTES = 8"),
        ),
        mutants=(
            _mutant("last.eq(final_beat[bits:] == 0)", "last.eq(final_beat[bits:] == 1)"),
            _mutant("last.eq(following == 1)", "last.eq(following == 0)"),
            _mutant("following.eq(following - 1)", "following.eq(following)"),
            _mutant("following.eq(final_beat[bits:])", "following.eq(final_beat)"),
            _mutant("Mux(last, single, ~first)", "single"),
            _mutant("Mux(last, single, ~first)", "~first"),
            _mutant("single.eq(final)]", "single.eq(single)]"),
            _mutant("single.eq(self.i.p.beats - 1)", "single.eq(self.i.p.beats)"),
            _mutant("+ self.i.p.beats - 1)", "+ self.i.p.beats)"),
            _mutant("page.eq(page + 1)", "page.eq(page + 2)"),
            _mutant("first.eq(0)", "first.eq(first)"),
            _mutant("active.eq(~last)", "active.eq(0)"),
            _mutant("with m.If(self.clear):\n            m.d.sync += active.eq(0)", "with m.If(0):\n            pass"),
            _mutant("~self.clear & (~active | ", "(~active | "),
            _mutant("(self.o.ready & last)", "last"),
            _mutant("m.d.sync += self.o.p.tag.eq(self.i.p.tag)", "m.d.comb += self.o.p.tag.eq(self.i.p.tag)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
