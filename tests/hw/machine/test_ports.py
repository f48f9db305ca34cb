"""No output of the machine follows an input within a cycle: between its ports there is always a register."""

from functools import partial

import pytest
from amaranth.hdl import Fragment
from amaranth.hdl._nir import Netlist

from etalstm_hw.compute.pe import OmniPE
from etalstm_hw.config import PRESETS, Config
from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.activation import Activation
from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_hw.generate import Instanced
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.machine.channel import Channel, make_products
from etalstm_hw.machine.top import Top
from tests.netlist import netlist_of
from tests.smallest import smallest

CLOCK = "clk"
UNITS = {"multiplier": Multiplier, "adder": Adder, "activation": Activation}


def combinational_paths(netlist: Netlist) -> set[tuple[str, str]]:
    """Give the pairs of input and output, reset included, with nothing but logic between them.

    A register's only edge is from its clock. An instance has none: the machine's only ones are the arithmetic units,
    whose results come from registers.
    """
    top = netlist.top
    inputs = {bit: name for name, (start, width) in top.ports_i.items() for bit in range(start, start + width)}
    paths = set()
    for output, value in top.ports_o.items():
        seen, open_nets = set(), list(value)
        while open_nets:
            net = open_nets.pop()
            if net.is_const or net in seen:
                continue
            seen.add(net)
            if net.cell == 0:
                paths.add((inputs[net.bit], output))
            else:
                open_nets += [source for source, _ in netlist.cells[net.cell].comb_edges_to(net.bit)]
    return {(source, output) for source, output in paths if source != CLOCK}


def machine(config: Config) -> Top:
    """A machine whose arithmetic units, most of its logic, are instances."""
    units = {name: unit(BINARY32) for name, unit in UNITS.items()} | {"integer_pe": IntegerPE()}
    for unit in units.values():
        Fragment.get(unit, None)  # one of each is: Amaranth warns of those that never are

    def instance(name):
        return Instanced.of(name, units[name])

    def pe(format):
        return OmniPE(format, instance("multiplier"), instance("adder"))

    products = partial(make_products, pe=lambda: instance("integer_pe"))
    made = {"activation": lambda _: instance("activation"), "products": products}
    return Top(config, channel=partial(Channel, pe=pe, **made))


KINDS = {smallest(config): name for name, config in PRESETS.items()}


@pytest.mark.parametrize("config", KINDS, ids=KINDS.values())
def test_registers_stand_between_the_machines_ports(config):
    netlist = netlist_of(machine(config))
    assert {"control__awvalid", "port0__rvalid"} <= netlist.top.ports_i.keys()
    assert {"control__awready", "port0__rready"} <= netlist.top.ports_o.keys()
    paths = sorted(combinational_paths(netlist))
    assert not paths, "no register between: " + ", ".join(f"{i} and {o}" for i, o in paths)
