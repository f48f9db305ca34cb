"""What changes clocks comes from a register: logic may show values in between, which the other clock would take."""

import pytest
from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.hdl._nir import FlipFlop, Instance, Net, Netlist, SyncReadPort
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from etalstm_boards.card import ACCELERATOR
from etalstm_boards.shell import Shell
from etalstm_hw.generate import Instanced
from etalstm_hw.machine.top import top_signature
from tests.boards.machines import MACHINES
from tests.netlist import netlist_of


def clock_of(cell) -> Net | None:
    """The clock of a cell with registers; of an instance, whose outputs count as logic, the port `clk`."""
    if isinstance(cell, Instance):
        return cell.ports_i["clk"][0]
    return cell.clk if isinstance(cell, (FlipFlop, SyncReadPort)) else None


def sources(netlist: Netlist, net: Net) -> set[int]:
    """Numbers of the cells with registers that logic leads from to a net; the ports of the design have no clock."""
    found, seen, open_nets = set(), set(), [net]
    while open_nets:
        net = open_nets.pop()
        if net.is_const or net in seen or net.cell == 0:
            continue
        seen.add(net)
        if clock_of(netlist.cells[net.cell]) is not None:
            found.add(net.cell)
        else:
            open_nets += [source for source, _ in netlist.cells[net.cell].comb_edges_to(net.bit)]
    return found


def unregistered_changes(netlist: Netlist) -> list[str]:
    """Name the registers that logic of another clock leads to, to their data or to their reset, and where it starts."""
    names = {net.cell: signal.name for signal, value in netlist.signals.items() for net in value if not net.is_const}
    found = set()
    for number, cell in enumerate(netlist.cells):
        if not isinstance(cell, FlipFlop):
            continue
        for net in (*cell.data, cell.arst):
            if net.is_const or isinstance(netlist.cells[net.cell], FlipFlop):
                continue
            foreign = [source for source in sources(netlist, net) if clock_of(netlist.cells[source]) != cell.clk]
            found |= {f"{names.get(source, 'cell')} to {names.get(number, 'cell')}" for source in foreign}
    return sorted(found)


class TwoClocks(wiring.Component):
    """A level from one clock to another, from a register or from logic."""

    def __init__(self, registered):
        self._registered = registered
        super().__init__({"a": In(1), "b": In(1), "here": In(1), "there": In(1), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        one, other, level = (Signal(name=name) for name in ("one", "other", "level"))
        for name in ("here", "there"):
            m.domains += (domain := ClockDomain(name, local=True, reset_less=True))
            m.d.comb += domain.clk.eq(getattr(self, name))
        m.d.here += [one.eq(self.a), other.eq(self.b)]
        m.d["here" if self._registered else "comb"] += level.eq(one ^ other)
        m.submodules.change = FFSynchronizer(level, self.o, o_domain="there")
        return m


@pytest.mark.parametrize("registered", [True, False])
def test_logic_before_a_change_of_clocks_is_found(registered):
    expected = [] if registered else ["one to stage0", "other to stage0"]
    assert unregistered_changes(netlist_of(TwoClocks(registered))) == expected


@pytest.mark.parametrize("name", MACHINES)
def test_the_shell_registers_what_changes_clocks(name):
    config, ports = MACHINES[name]
    netlist = netlist_of(Shell(ports, Instanced(ACCELERATOR, top_signature(config))))
    clocks = {clock_of(cell) for cell in netlist.cells} - {None}
    assert len(clocks) == 4, f"{len(clocks)} clocks, expected those of board, link, memory and machine"
    found = unregistered_changes(netlist)
    assert not found, f"logic that another clock takes, from register to register: {', '.join(found)}"
