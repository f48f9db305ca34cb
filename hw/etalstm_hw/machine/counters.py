"""The machine's performance counters, and what channels tell them."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import Counter, Cycle, Traffic


class Activity(data.StructLayout):
    """What channels did in a cycle, summed.

    Members
    -------
    cycles : channels whose PEs did each :class:`Cycle`
    mac_phase : channels with MACs to issue
    activations : values that entered activation units
    reads, writes : beats of each :class:`Traffic`
    """

    def __init__(self, channels: int, activation_units: int):
        some = range(channels + 1)
        super().__init__(
            {
                "cycles": data.ArrayLayout(some, len(Cycle)),
                "mac_phase": some,
                "activations": range(channels * activation_units + 1),
                "reads": data.ArrayLayout(some, len(Traffic)),
                "writes": data.ArrayLayout(some, len(Traffic)),
            }
        )


def activity_of(m: Module, channels: list, activation_units: int):
    """Give the sum of what channels did two cycles before; their resets do not clear it, so their last cycle counts.

    The kind of a cycle comes a cycle after it, from a register that the reset clears: as idle as the last cycle was.
    """
    activity = Signal(Activity(len(channels), activation_units), name="summed", reset_less=True)

    def total(values):
        """Sum what each channel shows in a cycle, a cycle later."""
        registers = [Signal.like(Value.cast(value), name="counted", reset_less=True) for value in values]
        m.d.sync += [register.eq(value) for register, value in zip(registers, values, strict=True)]
        return sum(registers, start=0)

    def totals(beats, kind):
        return [total([getattr(c, beats) & (getattr(c, kind) == traffic) for c in channels]) for traffic in Traffic]

    m.d.sync += [
        *(activity.cycles[kind].eq(sum([channel.cycle == kind for channel in channels], start=0)) for kind in Cycle),
        activity.mac_phase.eq(total([channel.mac_phase for channel in channels])),
        activity.activations.eq(total([channel.activations for channel in channels])),
        *(
            activity.reads[kind].eq(beats)
            for kind, beats in zip(Traffic, totals("load_beats", "load_kind"), strict=True)
        ),
        *(
            activity.writes[kind].eq(beats)
            for kind, beats in zip(Traffic, totals("store_beats", "store_kind"), strict=True)
        ),
    ]
    return activity


class Counters(wiring.Component):
    """Adds to every counter of :class:`contract.Counter` what a cycle with ``enable`` brings, a cycle later.

    Parameters
    ----------
    channels : int
        Channels whose activity is added up: up to 32 for each of them in a cycle, and one more.

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
