"""Computes where STORE and TRANSPOSE write, and refuses what lies outside the window."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.axi.bursts import Transfer, WriteTag

OFFSET_BITS = 34  # of the largest offset that a TRANSPOSE can name, in beats, and one bit more


class Pattern(data.StructLayout):
    """A doubly nested pattern of transfers.

    Members
    -------
    window : byte address of the window
    offset : where in it the first transfer begins, in beats
    beats : of each transfer
    kind : what they count as
    outer, lanes : how many transfers, at least 1; `lanes` runs fastest
    outer_beats, lane_beats : from one to the next, in beats
    """

    def __init__(self, address_bits: int, beats_bits: int):
        transpose = contract.FIELDS[contract.Opcode.TRANSPOSE]
        super().__init__(
            {
                "window": address_bits,
                "offset": OFFSET_BITS,
                "beats": beats_bits,
                "kind": contract.KIND_BITS,
                **{name: transpose[name] for name in ("outer", "lanes", "outer_beats", "lane_beats")},
            }
        )


class Scatter(wiring.Component):
    """Gives the transfers of a pattern, one a cycle; the first 1 cycle after the pattern is taken.

    The next pattern can be taken in the cycle in which the last transfer is. A transfer that ends beyond the window is
    never offered: ``violation`` rises instead and stays until reset.

    Parameters
    ----------
    address_bits, data_bits : int
        Sizes of the memory port.
    beats_bits : int
        Bits of a transfer's number of beats.

    Members
    -------
    i : :py:`In(stream.Signature(Pattern(address_bits, beats_bits)))`
    o : :py:`Out(stream.Signature(Transfer(address_bits, beats_bits, WriteTag())))`
    size : :py:`In(address_bits)`
        Of a window, in beats.
    violation : :py:`Out(1)`
    busy : :py:`Out(1)`
    """

    def __init__(self, address_bits: int, data_bits: int, beats_bits: int):
        self._shift = (data_bits // 8).bit_length() - 1
        self._pattern = Pattern(address_bits, beats_bits)
        super().__init__(
            {
                "i": In(stream.Signature(self._pattern)),
                "o": Out(stream.Signature(Transfer(address_bits, beats_bits, WriteTag()))),
                "size": In(address_bits),
                "violation": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Additions only: `turn` is the offset at which this turn of the outer loop began."""
        m = Module()
        now = Signal(self._pattern, reset_less=True)  # offset and counts are stepped where they are
        lanes_left = Signal.like(now.lanes, reset_less=True)
        turn = Signal(OFFSET_BITS, reset_less=True)
        next_turn = Signal(OFFSET_BITS)
        active, taken, ends_lanes, ends, inside = (Signal() for _ in range(5))
        m.d.comb += [
            next_turn.eq(turn + now.outer_beats),
            ends_lanes.eq(lanes_left == 1),
            ends.eq(ends_lanes & (now.outer == 1)),
            inside.eq(now.offset + now.beats <= self.size),
            self.o.valid.eq(active & inside),
            self.o.p.address.eq(now.window + (now.offset << self._shift)),
            self.o.p.beats.eq(now.beats),
            self.o.p.tag.kind.eq(now.kind),
            self.o.p.tag.final.eq(ends),
            taken.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~active | (taken & ends)),
            self.violation.eq(active & ~inside),
            self.busy.eq(active),
        ]
        with m.If(taken):
            with m.If(ends_lanes):
                m.d.sync += [
                    now.offset.eq(next_turn),
                    turn.eq(next_turn),
                    lanes_left.eq(now.lanes),
                    now.outer.eq(now.outer - 1),
                ]
            with m.Else():
                m.d.sync += [now.offset.eq(now.offset + now.lane_beats), lanes_left.eq(lanes_left - 1)]
            with m.If(ends):
                m.d.sync += active.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [active.eq(1), now.eq(self.i.p), lanes_left.eq(self.i.p.lanes), turn.eq(self.i.p.offset)]
        return m
