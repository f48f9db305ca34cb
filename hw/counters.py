"""The machine's performance counters."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.contract import Counter


class Counters(wiring.Component):
    """Adds to every counter of :class:`contract.Counter` what a cycle with ``enable`` brings, a cycle later.

    Parameters
    ----------
    most : int
        The most that is added to one counter in a cycle, less one.

    Members
    -------
    amounts : :py:`In(data.ArrayLayout(...))`
        What to add.
    enable, clear : :py:`In(1)`
    values : :py:`Out(data.ArrayLayout(64, Counter.COUNT))`
    """

    def __init__(self, channels: int):
        super().__init__(
            {
                "amounts": In(data.ArrayLayout(range(32 * channels + 2), Counter.COUNT)),
                "enable": In(1),
                "clear": In(1),
                "values": Out(data.ArrayLayout(64, Counter.COUNT)),
            }
        )

    def elaborate(self, platform):
        """A register between the sums over channels and the counters."""
        m = Module()
        amounts, enable = Signal(self.amounts.shape(), reset_less=True), Signal()
        m.d.sync += [amounts.eq(self.amounts), enable.eq(self.enable)]
        for n in range(Counter.COUNT):
            with m.If(self.clear):
                m.d.sync += self.values[n].eq(0)
            with m.Elif(enable):
                m.d.sync += self.values[n].eq(self.values[n] + amounts[n])
        return m
