"""Adds ID signals to the memory ports of a design, because memory models need them."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from etalstm_hw import generate
from etalstm_hw.axi.axi import AXI4, AXI4Read, AXI4Write, join
from etalstm_hw.config import Config
from etalstm_hw.machine.top import top_signature

_MANAGERS = (AXI4, AXI4Read, AXI4Write)


class Identified(wiring.Component):
    """A component whose AXI4 ports have IDs of at least one bit; nothing else is different.

    Parameters
    ----------
    component : Component
        With members that are AXI4 managers (:class:`AXI4`, :class:`AXI4Read`, :class:`AXI4Write`), lists of these, or
        anything else.

    Members
    -------
    Those of the component. IDs that it does not have are 0.
    """

    def __init__(self, component: wiring.Component):
        self._component = component
        super().__init__({name: self._with_id(member) for name, member in component.signature.members.items()})

    @staticmethod
    def _lacks_id(member) -> bool:
        return member.is_signature and isinstance(member.signature, _MANAGERS) and not member.signature.id_bits

    @classmethod
    def _with_id(cls, member):
        if not cls._lacks_id(member):
            return member
        bus = member.signature
        return Out(type(bus)(bus.address_bits, bus.data_bits, id_bits=1)).array(*member.dimensions)

    def elaborate(self, platform):
        """Connect every member to the component's member of that name."""
        m = Module()
        m.submodules.component = component = self._component
        for name, member in component.signature.members.items():
            outer, inner = getattr(self, name), getattr(component, name)
            if self._lacks_id(member):
                for port, manager in zip(outer, inner, strict=True) if member.dimensions else [(outer, inner)]:
                    join(m, port, manager)
            elif member.is_signature:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        return m


def identified_machine(config: Config, name: str) -> str:
    """Give the Verilog of the whole accelerator, its memory ports with IDs, in a module of a name.

    As in :func:`etalstm_hw.generate.verilog`, a repeated module is written, and so compiled, once.
    """
    inner = f"{name}_inside"
    outer = Identified(generate.Instanced(inner, top_signature(config)))
    return "\n".join([generate.component_verilog(outer, name), generate.verilog(config, inner)])


def identified_channel(config: Config, name: str) -> str:
    """Give the Verilog of a channel likewise, its PEs and arithmetic units written once."""
    modules = generate.channel_modules(config)
    outer = Identified(generate.Instanced.of("channel", modules["channel"]))
    return "\n".join([generate.component_verilog(outer, name), generate.modules_verilog(modules)])
