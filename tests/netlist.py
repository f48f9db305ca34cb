"""Elaborated designs as Amaranth's own netlist, for tests of their structure."""

from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import Netlist
from amaranth.lib import wiring
from amaranth.lib.wiring import In


def netlist_of(component: wiring.Component) -> Netlist:
    """Elaborate a component, its members as ports."""
    members = {
        "__".join(map(str, path)): (
            getattr(value, "as_value", lambda value=value: value)(),
            PortDirection.Input if member.flow is In else PortDirection.Output,
        )
        for path, member, value in component.signature.flatten(component)
    }
    return build_netlist(Fragment.get(component, None), members)
