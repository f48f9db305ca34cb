"""The integer lanes of a channel under one control."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.config import INTEGER_PES
from etalstm_hw.fp.pipeline import register
from etalstm_hw.integer.lane import Control, IntegerLane, lane_weights
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.widths import CHUNK, SCALAR_BITS, WIDE


class Term(data.StructLayout):
    """A scalar, or one digit of it, that all weights of an address are multiplied by.

    Members
    -------
    value : the digit
    lower : it is a lower digit, or the only one
    ends : the last term of its digit in the sum
    last : the last of its sum
    tag : what belongs to the sum: at its first terms, where it is not ``alone``, and at its last
    alone : the sum begins with its first term, else with an old one
    """

    def __init__(self, tag):
        super().__init__({"value": signed(SCALAR_BITS), "lower": 1, "ends": 1, "last": 1, "tag": tag, "alone": 1})


class Chunk(data.StructLayout):
    """What follows the terms through the PEs: where their short sums begin and end, and what these are added to.

    Members
    -------
    begins, captured : the term is the first of a chunk, and the last
    fresh : the chunk is the first of its sum
    upper : it is of upper digits
    last : the last of its sum
    tag, alone : as in :class:`Term`
    """

    def __init__(self, tag):
        flags = ("begins", "captured", "fresh", "upper", "last", "alone")
        super().__init__(dict.fromkeys(flags, 1) | {"tag": tag})


class Sums(data.StructLayout):
    """Whose sums they are.

    Members
    -------
    valid : there are any
    high, pe : of the high weights, else of the low ones; of this PE of every lane
    tag : as in :class:`Term`
    """

    def __init__(self, tag, pes):
        super().__init__({"valid": 1, "high": 1, "pe": range(pes), "tag": tag})


class IntegerArray(wiring.Component):
    """Takes terms, one a cycle, and gives the sums of all PEs of all lanes, of each lane one a cycle.

    The PEs' sums are captured after CHUNK terms, and where a digit ``ends``. Two captures are at least as many cycles
    apart as a lane's PEs have sums, two each: a term that would be captured earlier waits. Each digit of a sum takes
    that long at least.

    Parameters
    ----------
    lanes : int
    pes : int
        PEs of a lane, one of INTEGER_PES, so that no chunk waits. ``ValueError`` if it is another number.
    tag : ShapeCastable
        Of what belongs to a sum.
    pe : callable
        Makes a PE with the ports and the times of :class:`IntegerPE`.

    Members
    -------
    terms : :py:`In(stream.Signature(Term(tag)))`
    weights : :py:`In(data.ArrayLayout(lane_weights(pes), lanes))`
        One cycle after their term was taken.
    old : :py:`Out(Sums(tag, pes))`
        Whose old sums are wanted.
    old_sums : :py:`In(data.ArrayLayout(WIDE, lanes))`
        These, a cycle later.
    complete : :py:`Out(Sums(tag, pes))`
        Whose ``sums`` are complete. A PE's old sums are asked for ``2 * pes - 3`` cycles or more after those of the sum
        before were complete.
    sums : :py:`Out(data.ArrayLayout(WIDE, lanes))`
    busy : :py:`Out(1)`
        Terms that were taken have yet to come to an end.
    """

    def __init__(self, lanes, pes, tag, *, pe=IntegerPE):
        if pes not in INTEGER_PES:
            raise ValueError(f"a lane must have {' or '.join(map(str, INTEGER_PES))} PEs, got {pes}")
        self._lanes, self._pes, self._tag, self._pe = lanes, pes, tag, pe
        wide = data.ArrayLayout(WIDE, lanes)
        super().__init__(
            {
                "terms": In(stream.Signature(Term(tag))),
                "weights": In(data.ArrayLayout(lane_weights(pes), lanes)),
                "old": Out(Sums(tag, pes)),
                "old_sums": In(wide),
                "complete": Out(Sums(tag, pes)),
                "sums": Out(wide),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Pace the terms; follow them through the PEs; number the PEs while their sums are collected."""
        m = Module()
        control = Signal(Control(self._pes))
        begun, has_open = self._pace(m)
        self._place_lanes(m, control)
        coming, chunk, flying = self._follow(m, control, begun)
        collecting = self._collect(m, control, coming, chunk)
        m.d.comb += self.busy.eq(has_open | flying | collecting)
        return m

    def _pace(self, m):
        """Take a term unless its capture would come too early; give what follows it, and whether a sum is open."""
        term, chunk = self.terms.p, Signal(Chunk(self._tag))
        count, wait = Signal(range(CHUNK)), Signal(range(2 * self._pes))
        fresh = Signal(init=1)
        captured, taken, has_open = Signal(), Signal(), Signal()
        m.d.comb += [
            captured.eq((count == CHUNK - 1) | term.ends | term.last),
            self.terms.ready.eq(~captured | (wait == 0)),
            taken.eq(self.terms.valid & self.terms.ready),
            chunk.begins.eq(taken & (count == 0)),
            chunk.captured.eq(taken & captured),
            chunk.fresh.eq(fresh),
            chunk.upper.eq(~term.lower),
            *(chunk[name].eq(term[name]) for name in ("last", "alone", "tag")),
        ]
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(taken):
            m.d.sync += [count.eq(Mux(captured, 0, count + 1)), has_open.eq(~term.last)]
        with m.If(chunk.captured):
            m.d.sync += [wait.eq(2 * self._pes - 1), fresh.eq(term.last)]
        return chunk, has_open

    def _place_lanes(self, m, control):
        """Give all lanes the scalar of the term that was taken, or 0, with the weights."""
        scalar = register(m, "scalar", Mux(self.terms.valid & self.terms.ready, self.terms.p.value, 0))
        for n in range(self._lanes):
            m.submodules[f"lane_{n}"] = lane = IntegerLane(self._pes, pe=self._pe)
            m.d.comb += [
                lane.weights.eq(self.weights[n]),
                lane.scalar.eq(scalar),
                lane.control.eq(control),
                lane.old.eq(self.old_sums[n]),
                self.sums[n].eq(lane.sum),
            ]

    def _follow(self, m, control, begun):
        """Delay what is known of a term as its products are.

        Give what comes with its sums in the next cycle, and in this one, and whether any is on its way.
        """
        stages = [begun]
        for n in range(1 + IntegerPE.LATENCY):
            stage = Signal(Chunk(self._tag), name=f"chunk_{n + 1}")
            m.d.sync += stage.eq(stages[-1])
            stages.append(stage)
        m.d.comb += [control.begins.eq(stages[1 + IntegerPE.BEGINS].begins), control.capture.eq(stages[-1].captured)]
        return stages[-2], stages[-1], Cat(stage.captured for stage in stages[1:]).any()

    def _collect(self, m, control, coming, chunk):
        """Go through the PEs' sums after a capture; give whether any are being collected.

        Whether old sums are read decides on much else, so it is found out a cycle ahead.
        """
        collecting, number, following_number = Signal(), Signal(range(2 * self._pes)), Signal(range(2 * self._pes))
        present, now = Signal(Chunk(self._tag), reset_less=True), Signal(Chunk(self._tag))
        last_number = 2 * self._pes - 1
        continues, goes_on = collecting & (number != last_number), Signal()
        m.d.comb += [
            goes_on.eq((chunk.captured | continues) & (following_number != last_number)),
            now.eq(Mux(chunk.captured, chunk, present)),
            following_number.eq(Mux(chunk.captured, 0, number + 1)),
            Cat(self.old.high, self.old.pe).eq(following_number),
            self.old.tag.eq(now.tag),
        ]
        m.d.sync += [collecting.eq(chunk.captured | continues), number.eq(following_number), present.eq(now)]
        reads, following_reads = (chunk.fresh & ~chunk.alone for chunk in (coming, now))
        m.d.sync += self.old.valid.eq(Mux(coming.captured, reads, goes_on & following_reads))
        # Two cycles to the sums.
        adding, added = (Signal(Sums(self._tag, self._pes), name=name) for name in ("adding", "added"))
        following = Signal(2)
        m.d.sync += [
            following.eq(Cat(collecting, following)),
            adding.valid.eq(collecting & present.last),
            Cat(adding.high, adding.pe).eq(number),
            adding.tag.eq(present.tag),
            added.eq(adding),
        ]
        m.d.comb += [
            Cat(control.high, control.pe).eq(number),
            control.fresh.eq(present.fresh),
            control.alone.eq(present.fresh & present.alone),
            control.upper.eq(present.upper),
            control.write.eq(following[1]),
            control.written.eq(Cat(added.high, added.pe)),
            self.complete.eq(added),
        ]
        return collecting | following.any()
