"""The machine of preset ``test`` with faults that a test switches on."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from etalstm_hw.compute.pe import OmniPE
from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.activation import Activation
from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_hw.generate import Instanced
from etalstm_hw.machine.channel import Channel
from etalstm_hw.machine.top import Top, top_signature

SWITCHES = 0x3FC  # a register that the machine does not have
STUCK_BIT, SWAPPED_PORTS, WRONG_MULTIPLIER = 1, 2, 4
STUCK, FAULTY_CHANNEL = 37, 1
HALF_OF_MEMORY = 1 << 29  # of a simulation's 1 GiB: what two channels' windows differ in


class _WrongMultiplier(wiring.Component):
    """A multiplier whose last bit is wrong while `fault` is set."""

    def __init__(self, multiplier, fault):
        self._multiplier, self._fault, self.LATENCY = multiplier, fault, multiplier.LATENCY
        super().__init__(multiplier.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiplier = multiplier = self._multiplier
        m.d.comb += [multiplier.a.eq(self.a), multiplier.b.eq(self.b), self.z.eq(multiplier.z ^ self._fault)]
        return m


class Sabotaged(wiring.Component):
    """The accelerator, with a register that switches faults on.

    ``STUCK_BIT``: bit 37 of what port 0 reads is 1. ``SWAPPED_PORTS``: what port 0 accesses is port 1's half of the
    memory, and the reverse. ``WRONG_MULTIPLIER``: the multipliers of channel 1 are wrong in their last bit.

    Its arithmetic units are Verilog modules of their own, written once, which `units` gives by name.
    """

    def __init__(self, config):
        self._config = config
        self.units = {"multiplier": Multiplier(BINARY32), "adder": Adder(BINARY32)}
        self.units["activation"] = Activation.sharing(BINARY32)
        super().__init__(top_signature(config))

    def _unit(self, name):
        """Make an instance of an arithmetic unit."""
        return Instanced.of(name, self.units[name])

    def elaborate(self, platform):
        m = Module()
        faults = Signal(3)
        made = iter(range(self._config.channels))

        def channel(config):
            fault = faults[2] if next(made) == FAULTY_CHANNEL else Const(0)

            def pe(format):
                return OmniPE(format, _WrongMultiplier(self._unit("multiplier"), fault), self._unit("adder"))

            return Channel(config, pe=pe, activation=lambda _: self._unit("activation"))

        m.submodules.top = top = Top(self._config, channel=channel)
        for name, member in self.signature.members.items():
            inner, outer = getattr(top, name), getattr(self, name)
            if name in ("port0", "port1"):
                self._pass_port(m, member.signature, inner, outer, name, faults)
            elif member.is_signature:
                wiring.connect(m, inner, wiring.flipped(outer))
            else:
                m.d.comb += outer.eq(inner)
        bus = self.control
        with m.If(bus.awvalid & bus.awready & (bus.awaddr == SWITCHES)):
            m.d.sync += faults.eq(bus.wdata)
        return m

    @staticmethod
    def _pass_port(m, signature, inner, outer, name, faults):
        for path, member, _ in signature.flatten(inner):
            (signal,) = path
            source, target = (inner, outer) if member.flow is Out else (outer, inner)
            value = getattr(source, signal)
            if signal in ("araddr", "awaddr"):
                value = value ^ (faults[1] * HALF_OF_MEMORY)
            if signal == "rdata" and name == "port0":
                value = value | (faults[0] << STUCK)
            m.d.comb += getattr(target, signal).eq(value)
