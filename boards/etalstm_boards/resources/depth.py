"""Finds the paths between registers with most logic, and those that take longest, across the borders of units.

Paths start and end at flip-flops, memories, the registers of DSP slices, and the ports of the whole design. ``step``
says what counts as a level, ``delays`` what takes how long. A distributed RAM's read and a shift register's tap are
LUTs.

A net's readers are known within its unit and below. In the unit that has its source, those outside are not counted for
the readers inside.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from etalstm_boards.resources.graph import Graph, Part
from etalstm_boards.resources.nets import Nets, Pin
from etalstm_boards.resources.primitives import add_primitive
from etalstm_boards.resources.step import Order, Step
from etalstm_boards.resources.synthesis import Cell, Netlist

PortBit = tuple[int, int]
"""A bit of a port: number of the port in the unit's list, number of the bit."""


@dataclass(frozen=True)
class Path:
    """The logic from one register or port to another.

    Members
    -------
    step : its logic and its delay
    start, end : names of the register or port at its ends
    readers : of its net with most of them
    """

    step: Step
    start: str
    end: str
    readers: int

    @property
    def levels(self) -> int:
        """LUTs, carry chains and multipliers in one number."""
        return self.step.levels

    @property
    def delay_ns(self) -> float:
        """Estimated delay from clock to clock, with setup."""
        return self.step.ps / 1000


@dataclass
class Timing:
    """The timing of a unit as seen from outside.

    Members
    -------
    ends : for each input bit the worst part of a path from there to a register
    starts : for each output bit the worst part of a path from a register to there
    through : for each output bit the weight of the worst logic from each input bit that reaches it, and the readers of
        its net with most of them
    readers : for each bit the pins that read it in the unit
    worst : the worst path that has both ends in the unit or its subunits, except paths inside of one subunit
    """

    ends: dict[PortBit, Part] = field(default_factory=dict)
    starts: dict[PortBit, Part] = field(default_factory=dict)
    through: dict[PortBit, dict[PortBit, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    readers: dict[PortBit, int] = field(default_factory=dict)
    worst: Path | None = None


Stub = tuple[Timing, str, tuple[str, ...]]
"""What a cell stands for: a unit's timing, its name, its ports in order."""


def timing(
    netlist: Netlist, ports: tuple[str, ...], stubs: Mapping[str, Stub], order: Order, *, outermost: bool = False
) -> Timing:
    """Follow every path of a unit.

    Parameters
    ----------
    netlist : Netlist
    ports : names of its ports, in order
    stubs : for each cell type that stands for a unit, the unit
    order : which of two paths is worse
    outermost : bool
        Paths start and end at the unit's own ports, too.

    Raises
    ------
    ValueError
        If the logic has a loop; the message names a register or cell that it drives.
    """
    inputs = {bit: (ports.index(port), n) for port, bits in netlist.inputs.items() for n, bit in enumerate(bits)}
    outputs = [((ports.index(p), n), bit) for p, bits in netlist.outputs.items() for n, bit in enumerate(bits)]
    units = [(cell, stubs[cell.type]) for cell in netlist.cells if cell.type in stubs]
    primitives = [cell for cell in netlist.cells if cell.type not in stubs]
    below = [pin for cell, unit in units for pin in _pins(cell, *unit)]
    graph = Graph(order, Nets(primitives, below, () if outermost else inputs))
    for cell in primitives:
        add_primitive(graph, cell)
    for cell, unit in units:
        _add_unit(graph, cell, *unit)
    if outermost:
        for bit, (port, _) in inputs.items():
            graph.start(bit, Step(), f"port {ports[port]}")
        for (port, _), bit in outputs:
            graph.end(bit, Step(), Pin.INNER, f"port {ports[port]}")
    result = _follow(graph, inputs, outputs)
    result.readers = {port_bit: graph.nets.readers[bit] for bit, port_bit in inputs.items()}
    result.readers |= {port_bit: graph.nets.readers[bit] for port_bit, bit in outputs if isinstance(bit, int)}
    return result


def _follow(graph: Graph, inputs: Mapping[int, PortBit], outputs: Iterable[tuple[PortBit, int]]) -> Timing:
    """Propagate the starts forward and the ends backward through the nets, in topological order."""
    result = Timing()
    order = _sort(graph, [*graph.ends, *(bit for _, bit in outputs if isinstance(bit, int))])
    arrivals: dict[int, Part] = {}
    for net in order:
        arriving = [
            Part(before.weight + weight, before.name, max(before.readers, readers))
            for source, weight, readers in graph.edges.get(net, ())
            if (before := arrivals.get(source))
        ]
        if net in graph.starts:
            arriving.append(graph.starts[net])
        if arriving:
            arrivals[net] = max(arriving)
    meeting = [
        (arrival.weight + after.weight, arrival.name, after.name, max(arrival.readers, after.readers))
        for net, after in graph.ends.items()
        if (arrival := arrivals.get(net))
    ]
    if meeting:
        weight, start, end, readers = max(meeting)
        result.worst = Path(graph.order.step(weight), start, end, readers)
    result.starts = {port_bit: arrivals[bit] for port_bit, bit in outputs if bit in arrivals}

    departures = dict(graph.ends)
    for net in reversed(order):
        if after := departures.get(net):
            for source, weight, readers in graph.edges.get(net, ()):
                candidate = Part(after.weight + weight, after.name, max(after.readers, readers))
                departures[source] = max(departures.get(source, candidate), candidate)
    result.ends = {port_bit: departures[bit] for bit, port_bit in inputs.items() if bit in departures}
    _cross(graph, order, inputs, outputs, result)
    return result


def _cross(
    graph: Graph,
    order: list[int],
    inputs: Mapping[int, PortBit],
    outputs: Iterable[tuple[PortBit, int]],
    result: Timing,
):
    """Find the combinational paths from inputs to outputs."""
    wanted = {bit for _, bit in outputs}
    for net in reversed(order):
        if net in wanted:
            wanted.update(source for source, _, _ in graph.edges.get(net, ()))
    reached: dict[int, dict[PortBit, tuple[int, int]]] = {}
    for net in order:
        if net not in wanted:
            continue
        here = {inputs[net]: (0, 0)} if net in inputs else {}
        for source, weight, readers in graph.edges.get(net, ()):
            for port_bit, (before, most) in reached.get(source, {}).items():
                here[port_bit] = max(here.get(port_bit, (0, 0)), (before + weight, max(most, readers)))
        if here:
            reached[net] = here
    for port_bit, bit in outputs:
        if bit in reached:
            result.through[port_bit] = reached[bit]


def _sort(graph: Graph, last: Iterable[int]) -> list[int]:
    """Order the nets that lead to `last` topologically."""
    order: list[int] = []
    state: dict[int, str] = {}
    for net in last:
        stack = [(net, iter(graph.edges.get(net, ())))] if net not in state else []
        state.setdefault(net, "open")
        while stack:
            here, sources = stack[-1]
            for source, _, _ in sources:
                if source not in state:
                    state[source] = "open"
                    stack.append((source, iter(graph.edges.get(source, ()))))
                    break
                if state[source] == "open":
                    driven = graph.ends[net].name if net in graph.ends else ""
                    raise ValueError(f"the logic has a loop through net {source} {driven}")
            else:
                state[here] = "done"
                order.append(here)
                stack.pop()
    return order


def _net(cell: Cell, ports: tuple[str, ...], port_bit: PortBit) -> int | str:
    port, bit = port_bit
    bits = cell.outputs.get(ports[port]) or cell.inputs.get(ports[port]) or []
    return bits[bit] if bit < len(bits) else "x"


def _pins(cell: Cell, timing: Timing, name: str, ports: tuple[str, ...]) -> Iterable[tuple[int, int]]:
    """Give the nets at a unit's ports, each with the pins in the unit that read it."""
    for port_bit, readers in timing.readers.items():
        if isinstance(net := _net(cell, ports, port_bit), int):
            yield net, readers


def _add_unit(graph: Graph, cell: Cell, timing: Timing, name: str, ports: tuple[str, ...]):
    for port_bit, end in timing.ends.items():
        graph.add_end(_net(cell, ports, port_bit), end._replace(name=_below(name, end.name)))
    for port_bit, start in timing.starts.items():
        graph.add_start(_net(cell, ports, port_bit), start._replace(name=_below(name, start.name)))
    for port_bit, sources in timing.through.items():
        for source, (weight, readers) in sources.items():
            graph.add_edge(_net(cell, ports, source), _net(cell, ports, port_bit), weight, readers)


def _below(unit: str, name: str) -> str:
    return name if " of " in name else f"{name} of {unit}"
