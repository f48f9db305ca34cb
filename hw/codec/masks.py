"""The masks of the block at hand and of the one after it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.contract import STREAM_BLOCK


class Masks(wiring.Component):
    """Goes through masks bit by bit, from the lowest; one bit a cycle, also from one mask to the next.

    A mask is at hand 1 cycle after it was taken. Another one can wait behind it.

    Members
    -------
    i : :py:`In(stream.Signature(32))`
    step, last : :py:`In(1)`
        Go on to the next bit; or to the next mask, if this bit is the last that counts.
    valid, kept : :py:`Out(1)`
        There is a bit at hand, and its value.
    any, several : :py:`Out(1)`
        At least one, two of the bits that are left in the mask at hand are set.
    next_any : :py:`Out(1)`
        A bit of the mask that waits is set.
    ends : :py:`Out(1)`
        This step is the mask's last.
    """

    i: In(stream.Signature(STREAM_BLOCK))
    step: In(1)
    last: In(1)
    valid: Out(1)
    kept: Out(1)
    any: Out(1)
    several: Out(1)
    next_any: Out(1)
    ends: Out(1)

    def elaborate(self, platform):
        """The mask at hand is shifted; zeros follow it, so that `any` is low when there is none."""
        m = Module()
        mask, waiting = Signal(STREAM_BLOCK), Signal(STREAM_BLOCK, reset_less=True)
        place = Signal(range(STREAM_BLOCK))
        waits, fetch = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~waits),
            fetch.eq(self.i.valid & self.i.ready),
            self.kept.eq(mask[0]),
            self.any.eq(mask.any()),
            self.several.eq((mask & (mask - 1)).any()),
            self.next_any.eq(waits & waiting.any()),
            self.ends.eq(self.step & (self.last | (place == STREAM_BLOCK - 1))),
        ]
        with m.If(self.ends):
            m.d.sync += [place.eq(0), waits.eq(0), self.valid.eq(waits | fetch)]
            m.d.sync += mask.eq(Mux(waits, waiting, Mux(fetch, self.i.p, 0)))
        with m.Else():
            with m.If(self.step):
                m.d.sync += [mask.eq(mask >> 1), place.eq(place + 1)]
            with m.If(fetch & self.valid):
                m.d.sync += [waits.eq(1), waiting.eq(self.i.p)]
            with m.Elif(fetch):
                m.d.sync += [self.valid.eq(1), mask.eq(self.i.p)]
        return m
