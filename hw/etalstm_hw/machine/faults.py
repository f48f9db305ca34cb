"""Finds the channel whose fault ends a program."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import COMPLETED_BITS, Engine, Status
from etalstm_hw.stream import Completed

_CHUNK = 8  # channels whose faults are looked through in a cycle


class ChannelState(data.StructLayout):
    """How a channel fares: its status, the engine that made it, and what its engines have completed."""

    def __init__(self):
        super().__init__({"status": Status, "engine": Engine, "completed": Completed()})


class Fault(data.StructLayout):
    """An error: what, in which engine, and how many instructions that has completed; IDLE if there is none."""

    def __init__(self):
        super().__init__({"status": Status, "engine": Engine, "instruction": COMPLETED_BITS})


class Faults(wiring.Component):
    """Gives the fault of the first channel that has one, 2 cycles after its status; it stays, as the status does.

    Counts are looked at a cycle after the status: the instruction before the one at fault may be counted in its cycle.

    Parameters
    ----------
    channels : int

    Members
    -------
    channels : :py:`In(data.ArrayLayout(ChannelState(), channels))`
    fault : :py:`Out(Fault())`
    """

    def __init__(self, channels: int):
        self._channels = channels
        super().__init__({"channels": In(data.ArrayLayout(ChannelState(), channels)), "fault": Out(Fault())})

    def elaborate(self, platform):
        """The first fault of each chunk goes into a register, then the first of these is given."""
        m = Module()
        firsts = []
        for start in range(0, self._channels, _CHUNK):
            first = {name: Signal(shape, name=f"{name}{start}") for name, shape in Fault().members.items()}
            m.d.sync += first["status"].eq(Status.IDLE)
            for number in reversed(range(start, min(start + _CHUNK, self._channels))):
                self._prefer(m, number, first)
            firsts.append(first)
        for first in reversed(firsts):
            with m.If(first["status"] != Status.IDLE):
                m.d.comb += [self.fault[name].eq(value) for name, value in first.items()]
        return m

    def _prefer(self, m, number, first):
        """Put a channel's fault instead of those of later channels."""
        channel = self.channels[number]
        status, engine = Signal(Status, name=f"channel_status{number}"), Signal(Engine, name=f"channel_engine{number}")
        m.d.sync += [status.eq(channel.status), engine.eq(channel.engine)]
        with m.If(status != Status.IDLE):
            m.d.sync += [first["status"].eq(status), first["engine"].eq(engine)]
            with m.Switch(engine):
                for kind in (Engine.LOAD, Engine.MAC, Engine.VECTOR, Engine.STORE):
                    with m.Case(kind):
                        m.d.sync += first["instruction"].eq(channel.completed[kind.name.lower()])
