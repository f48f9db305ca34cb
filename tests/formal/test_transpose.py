"""Transposer: every word of a square comes out where it belongs, and the fill is 0."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import bench, stream_in, stream_out
from tests.formal.prove import Mutant, Proof, bounded

_WORDS, _VECTOR_BEATS = 2, 2
_SIZE = _WORDS * _VECTOR_BEATS


def transposer(load):
    """Follow one word: any row and lane of any square. Words of 1 bit, two to a beat, squares of up to 4 by 4.

    Words are copied. With two words and two beats all that is counted is counted: rows, beats of a vector, beats of a
    lane, pages. The squares before the followed one are of any size.
    """
    unit = load("hw.dma.transpose").Transposer(1, _WORDS, _VECTOR_BEATS)
    m = bench(unit)
    i, o = unit.i, unit.o
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")

    # What goes in: vectors of as many beats as their lanes need, up to 4 of them.
    row, beat, lanes = Signal(range(_SIZE)), Signal(range(_VECTOR_BEATS)), Signal(range(_SIZE + 1))
    ends_row = beat == (i.p.lanes - 1) >> 1
    m.d.comb += [
        Assume((i.p.lanes != 0) & (i.p.lanes <= _SIZE)),
        Assume(((row == 0) & (beat == 0)) | (i.p.lanes == lanes)),
        Assume(~i.p.last | ends_row),
        Assume(~ends_row | (row != _SIZE - 1) | i.p.last),
    ]
    with m.If(taken):
        m.d.sync += [lanes.eq(i.p.lanes), beat.eq(Mux(ends_row, 0, beat + 1)), row.eq(row + ends_row)]
        with m.If(i.p.last):
            m.d.sync += row.eq(0)

    # Two squares may be inside; the oldest is what comes out.
    rows, widths = ([Signal(range(_SIZE + 1), name=f"{name}{n}") for n in range(2)] for name in ("rows", "width"))
    squares, complete, ends = Signal(2), taken & i.p.last, Signal()
    lane, block = Signal(range(_SIZE)), Signal(range(_VECTOR_BEATS))
    ends_lane = block == (rows[0] - 1) >> 1
    m.d.comb += ends.eq(given & ends_lane & (lane == widths[0] - 1))
    m.d.sync += squares.eq(squares + complete - ends)
    with m.If(given):
        m.d.sync += [block.eq(Mux(ends_lane, 0, block + 1)), lane.eq(lane + ends_lane)]
    with m.If(ends):
        m.d.sync += [lane.eq(0), rows[0].eq(rows[1]), widths[0].eq(widths[1])]
    for n in range(2):
        with m.If(complete & (squares - ends == n)):
            m.d.sync += [rows[n].eq(row + 1), widths[n].eq(i.p.lanes)]

    # The followed word: when it goes in, and how many squares are before its own.
    its_row, its_lane = AnyConst(2), AnyConst(2)
    pick, chosen, word, before = Signal(), Signal(), Signal(), Signal(2)
    m.d.comb += pick.eq(AnySeq(1))
    goes_in = taken & (row == its_row) & (beat == its_lane >> 1) & (its_lane < i.p.lanes)
    with m.If(ends):
        m.d.sync += [before.eq(before - 1), chosen.eq(chosen & (before != 0))]
    with m.If(goes_in & pick & ~chosen):
        m.d.sync += [chosen.eq(1), word.eq(Mux(its_lane[0], i.p.data[1], i.p.data[0])), before.eq(squares - ends)]
    comes_out = chosen & (before == 0) & (squares != 0) & (lane == its_lane) & (block == its_row >> 1)
    m.d.comb += [
        Assert(o.valid == (squares != 0)),
        Assert(i.ready | (squares == 2)),
        Assert(~(comes_out & o.valid) | (Mux(its_row[0], o.p[1], o.p[0]) == word)),
        Assert(~(o.valid & ends_lane & rows[0][0]) | (o.p[1] == 0)),
        Cover(ends & (rows[0] == 4) & (widths[0] == 4)),
        Cover(comes_out & given & (before == 0) & word & (squares == 2)),
        Cover(ends & complete),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("hw.dma.transpose", old, new, survives)


PROOFS = [
    Proof(
        name="Transposer",
        build=transposer,
        claim="each word of a square comes out in its lane at its row's place, zeros behind the last row",
        method=bounded(11),
        reach=20,
        mutants=(
            _mutant("self.i.ready.eq(~full[page])", "self.i.ready.eq(1)"),
            _mutant("column.eq(n - row)", "column.eq(n)"),
            _mutant("group == last_lane >> shift", "group == self._vector_beats - 1"),
            _mutant("page.eq(~page), full[page].eq(1)", "full[page].eq(1)"),
            _mutant("last_rows[page].eq(row)", "last_rows[page].eq(0)"),
            _mutant("last_lanes[page].eq(last_lane)", "last_lanes[page].eq(3)"),
            _mutant("(n <= last_row[:shift])", "(n < last_row[:shift])"),
            _mutant("Mux(exists, out[place], 0)", "out[place]"),
            _mutant("place.eq(n + lane[:shift])", "place.eq(n)"),
            _mutant("block == last_row >> shift", "block == self._vector_beats - 1"),
            _mutant("block.eq(0), lane.eq(lane + 1)", "lane.eq(lane + 1)"),
            _mutant("full[page].eq(0)", "full[page].eq(full[~page])"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
