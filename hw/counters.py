"""The machine's performance counters."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.contract import Counter


class Counters(wiring.Component):
    """Adds to every counter of :class:`contract.Counter` in each cycle with ``enable``.

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
        for n in range(Counter.COUNT):
            with m.If(self.clear):
                m.d.sync += self.values[n].eq(0)
            with m.Elif(self.enable):
                m.d.sync += self.values[n].eq(self.values[n] + self.amounts[n])
        return m
