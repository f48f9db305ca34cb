"""Finds the deepest logic between registers, across the borders of units.

Paths start and end at flip-flops, memories, DSP slices with registers and the ports of the whole design. A path's
depth is its number of LUTs. Multipliers (DSP slices without registers) and carry chains are counted separately, a chain
of any length once; multiplexers behind the LUTs of a slice are not counted. A distributed RAM's read and a shift
register's tap are LUTs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from etalstm_boards.resources.synthesis import Cell, Netlist

_CHAIN, _MULTIPLIER, _LUT = 1, 1 << 10, 1 << 20  # sums of these order by LUTs, then multipliers, then chains

_MUXES = ("MUXF7", "MUXF8", "MUXF9")
_RAM_ADDRESSES = {"DPO": "DPRA", "SPO": "A"}  # RAM64X1D and its kin; those with DOA … DOH read by ADDRA … ADDRH


@dataclass(frozen=True)
class Path:
    """The logic from one register or port to another.

    Members
    -------
    weight : LUTs, multipliers and chains in one number that orders paths
    start, end : names of the register or port at its ends
    """

    weight: int
    start: str
    end: str

    @property
    def levels(self) -> int:
        """LUTs on the path."""
        return self.weight // _LUT

    @property
    def multipliers(self) -> int:
        """DSP slices on the path."""
        return self.weight % _LUT // _MULTIPLIER

    @property
    def carry_chains(self) -> int:
        """Carry chains on the path."""
        return self.weight % _MULTIPLIER


@dataclass
class Timing:
    """The timing of a unit as seen from outside. Port bits are pairs: number of the port in the unit's list, bit.

    Members
    -------
    ends : for each input bit the deepest logic to a register: weight, name of the register
    starts : for each output bit the deepest logic from a register: weight, name of the register
    through : for each output bit the weight of the deepest logic from each input bit that reaches it
    deepest : the deepest path that has both ends in the unit or its subunits, except paths inside of one subunit
    """

    ends: dict = field(default_factory=dict)
    starts: dict = field(default_factory=dict)
    through: dict = field(default_factory=lambda: defaultdict(dict))
    deepest: Path | None = None


class _Graph:
    """Nets, the logic between them, and where paths start and end."""

    def __init__(self):
        self.edges: dict[int, list[tuple[int, int]]] = defaultdict(list)  # into a net: from, weight
        self.starts: dict[int, tuple[int, str]] = {}
        self.ends: dict[int, tuple[int, str]] = {}

    def edge(self, source, target, weight: int):
        if isinstance(source, int) and isinstance(target, int):
            self.edges[target].append((source, weight))

    def start(self, net, weight: int, name: str):
        self.starts[net] = max(self.starts.get(net, (-1, "")), (weight, name))

    def end(self, net, weight: int, name: str):
        if isinstance(net, int):
            self.ends[net] = max(self.ends.get(net, (-1, "")), (weight, name))


def timing(
    netlist: Netlist,
    ports: tuple[str, ...],
    stubs: Mapping[str, tuple[Timing, str, tuple[str, ...]]],
    *,
    outermost: bool = False,
) -> Timing:
    """Follow every path of a unit.

    Parameters
    ----------
    netlist : Netlist
    ports : names of its ports, in order
    stubs : for each cell type that stands for a unit: its timing, its name, its ports in order
    outermost : bool
        Paths start and end at the unit's own ports, too.

    Raises
    ------
    ValueError
        If the logic has a loop; the message names a register or cell that it drives.
    """
    graph = _Graph()
    carries = {bit for cell in netlist.cells if cell.type == "CARRY4" for bit in cell.outputs["CO"]}
    for cell in netlist.cells:
        if cell.type in stubs:
            _add_unit(graph, cell, *stubs[cell.type])
        else:
            _add_primitive(graph, cell, carries)
    inputs = {bit: (ports.index(port), n) for port, bits in netlist.inputs.items() for n, bit in enumerate(bits)}
    outputs = [((ports.index(p), n), bit) for p, bits in netlist.outputs.items() for n, bit in enumerate(bits)]
    if outermost:
        for bit, (port, _) in inputs.items():
            graph.start(bit, 0, f"port {ports[port]}")
        for (port, _), bit in outputs:
            graph.end(bit, 0, f"port {ports[port]}")
    return _follow(graph, inputs, outputs)


def _follow(graph: _Graph, inputs: Mapping[int, tuple], outputs: Iterable[tuple]) -> Timing:
    """Propagate the starts forward and the ends backward through the nets, in topological order."""
    result = Timing()
    order = _sort(graph, [*graph.ends, *(bit for _, bit in outputs if isinstance(bit, int))])
    arrivals: dict[int, tuple[int, str]] = {}
    for net in order:
        arriving = [
            (arrivals[s][0] + weight, arrivals[s][1]) for s, weight in graph.edges.get(net, ()) if s in arrivals
        ]
        if net in graph.starts:
            arriving.append(graph.starts[net])
        if arriving:
            arrivals[net] = max(arriving)
    meeting = [
        (arrivals[net][0] + end[0], arrivals[net][1], end[1]) for net, end in graph.ends.items() if net in arrivals
    ]
    result.deepest = Path(*max(meeting)) if meeting else None
    result.starts = {port_bit: arrivals[bit] for port_bit, bit in outputs if bit in arrivals}

    departures = dict(graph.ends)
    for net in reversed(order):
        if net in departures:
            for source, weight in graph.edges.get(net, ()):
                candidate = (departures[net][0] + weight, departures[net][1])
                departures[source] = max(departures.get(source, candidate), candidate)
    result.ends = {port_bit: departures[bit] for bit, port_bit in inputs.items() if bit in departures}
    _cross(graph, order, inputs, outputs, result)
    return result


def _cross(graph: _Graph, order: list[int], inputs: Mapping[int, tuple], outputs: Iterable[tuple], result: Timing):
    """Find the combinational paths from inputs to outputs."""
    wanted = {bit for _, bit in outputs}
    for net in reversed(order):
        if net in wanted:
            wanted.update(source for source, _ in graph.edges.get(net, ()))
    reached: dict[int, dict] = {}
    for net in order:
        if net not in wanted:
            continue
        here = {inputs[net]: 0} if net in inputs else {}
        for source, weight in graph.edges.get(net, ()):
            for port_bit, before in reached.get(source, {}).items():
                here[port_bit] = max(here.get(port_bit, 0), before + weight)
        if here:
            reached[net] = here
    for port_bit, bit in outputs:
        if bit in reached:
            result.through[port_bit] = reached[bit]


def _sort(graph: _Graph, last: Iterable[int]) -> list[int]:
    """Order the nets that lead to `last` topologically."""
    order: list[int] = []
    state: dict[int, str] = {}
    for net in last:
        stack = [(net, iter(graph.edges.get(net, ())))] if net not in state else []
        state.setdefault(net, "open")
        while stack:
            here, sources = stack[-1]
            for source, _ in sources:
                if source not in state:
                    state[source] = "open"
                    stack.append((source, iter(graph.edges.get(source, ()))))
                    break
                if state[source] == "open":
                    raise ValueError(f"the logic has a loop through net {source} {graph.ends.get(net, (0, ''))[1]}")
            else:
                state[here] = "done"
                order.append(here)
                stack.pop()
    return order


def _add_primitive(graph: _Graph, cell: Cell, carries: set):
    kind = cell.type
    pins = [(port, bit) for port, bits in cell.inputs.items() for bit in bits]
    outs = [(port, bit) for port, bits in cell.outputs.items() for bit in bits if isinstance(bit, int)]
    if kind == "INV" or (kind.startswith("LUT") and kind[3:].isdigit()) or kind in _MUXES:
        for _, out in outs:
            for _, bit in pins:
                graph.edge(bit, out, 0 if kind in _MUXES else _LUT)
    elif kind == "CARRY4":
        for _, out in outs:
            for _, bit in pins:
                graph.edge(bit, out, 0 if bit in carries else _CHAIN)
    elif kind == "DSP48E2" and not cell.registered:
        for _, out in outs:
            for _, bit in pins:
                graph.edge(bit, out, _MULTIPLIER)
    else:
        for port, out in outs:
            graph.start(out, 0, cell.name)
            address = _read_address(kind, port)
            for bit in cell.inputs.get(address, ()) if address else ():
                graph.edge(bit, out, _LUT)
        for port, bit in pins:
            graph.end(bit, 0, f"{cell.name} ({port})" if kind.startswith("FD") and port != "D" else cell.name)


def _read_address(kind: str, port: str) -> str | None:
    """Name the port with a combinational path to an output: the address of distributed RAMs and shift registers."""
    if kind.startswith("SRL"):
        return "A"
    if not kind.startswith("RAM") or kind.startswith("RAMB"):
        return None
    return _RAM_ADDRESSES.get(port) or port.replace("DO", "ADDR")


def _add_unit(graph: _Graph, cell: Cell, timing: Timing, name: str, ports: tuple[str, ...]):
    def nets(port_bit):
        port, bit = port_bit
        bits = cell.outputs.get(ports[port]) or cell.inputs.get(ports[port]) or []
        return bits[bit] if bit < len(bits) else "x"

    for port_bit, (weight, end) in timing.ends.items():
        graph.end(nets(port_bit), weight, _below(name, end))
    for port_bit, (weight, start) in timing.starts.items():
        graph.start(nets(port_bit), weight, _below(name, start))
    for port_bit, sources in timing.through.items():
        for source, weight in sources.items():
            graph.edge(nets(source), nets(port_bit), weight)


def _below(unit: str, name: str) -> str:
    return name if " of " in name else f"{name} of {unit}"
