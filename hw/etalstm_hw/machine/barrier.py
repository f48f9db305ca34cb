"""Counts the STOREs that every channel has completed."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import TARGET_BITS


class StoreBarrier(wiring.Component):
    """Counts how many STOREs *every* channel has completed.

    The sequencer dispatches to all channels at once. So a channel can lead another by at most ``ahead`` completions:
    what the other's queue and engine hold. The count follows the last channel's pulse by two cycles.

    Parameters
    ----------
    channels, ahead : int

    Members
    -------
    done : :py:`In(channels)`                      a pulse for each completion
    count : :py:`Out(TARGET_BITS)`                 STOREs that all have completed, modulo 2^TARGET_BITS
    """

    def __init__(self, channels: int, ahead: int):
        self._channels, self._ahead = channels, ahead
        super().__init__({"done": In(channels), "count": Out(TARGET_BITS)})

    def elaborate(self, platform):
        """A small up-down counter for each channel."""
        m = Module()
        leads = [Signal(range(self._ahead + 1), name=f"lead{n}") for n in range(self._channels)]
        all_ahead = Signal()
        m.d.comb += all_ahead.eq(1)
        for lead in leads:
            with m.If(lead == 0):
                m.d.comb += all_ahead.eq(0)
        for lead, done in zip(leads, self.done, strict=True):
            m.d.sync += lead.eq(lead + done - all_ahead)
        m.d.sync += self.count.eq(self.count + all_ahead)
        return m
