"""The machine without its channels, so that a simulator can compile one channel and evaluate it for all."""

import re

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.config import Config
from etalstm_hw.machine.top import Top, top_signature

RESET = "channels_reset"
"""The core's output that resets every channel."""


def socket(number: int) -> str:
    """Name the core's port for a channel; its Verilog ports begin with that and two underscores."""
    return f"channel{number}"


def is_of_channel(name: str) -> bool:
    """Tell whether a Verilog port of a machine leads to its channels: only those of a :class:`Core` do."""
    return name == RESET or re.match(r"channel\d+__", name) is not None


class Core(wiring.Component):
    """An accelerator with ports instead of channels: one for each channel.

    Together with its channels it behaves like :class:`etalstm_hw.machine.top.Top`, cycle by cycle.

    Parameters
    ----------
    config : Config
    channel : wiring.Signature
        Members of a channel of that configuration.
    broadcaster : callable
        As of :class:`etalstm_hw.machine.top.Top`.

    Members
    -------
    control, port0 …, interrupt, running, failed :
        Those of :class:`etalstm_hw.machine.top.Top`.
    channel0 … : :py:`In(channel)`
        One for each channel.
    channels_reset : :py:`Out(1)`
        Reset of every channel.
    """

    def __init__(self, config: Config, channel: wiring.Signature, broadcaster):
        self._config, self._broadcaster = config, broadcaster
        self._machine = top_signature(config).members
        self._sockets = [_Socket(channel) for _ in range(config.channels)]
        ports = {socket(n): In(channel) for n in range(config.channels)}
        super().__init__({**self._machine, **ports, RESET: Out(1)})

    def elaborate(self, _platform):
        """Put sockets into the machine, and bring their signals out as ports."""
        m = Module()
        sockets = iter(self._sockets)
        m.submodules.machine = machine = Top(
            self._config, channel=lambda _: next(sockets), broadcaster=self._broadcaster
        )
        for name, member in self._machine.items():
            if member.is_signature:
                connect(m, flipped(getattr(self, name)), getattr(machine, name))
            else:
                m.d.comb += getattr(self, name).eq(getattr(machine, name))
        for n, each in enumerate(self._sockets):
            connect(m, flipped(getattr(self, socket(n))), flipped(each))
        m.d.comb += getattr(self, RESET).eq(self._sockets[0].reset)
        return m


class _Socket(wiring.Component):
    """Has the members of a channel and no logic; `reset` is the reset of a channel there."""

    def __init__(self, channel):
        self.reset = Signal()
        super().__init__(channel)

    def elaborate(self, _platform):
        m = Module()
        m.d.comb += self.reset.eq(ResetSignal())
        return m
