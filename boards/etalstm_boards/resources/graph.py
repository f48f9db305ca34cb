"""The graph of a unit's logic: nets, what lies between them, and where paths start and end."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from etalstm_boards.resources.delays import Delay
from etalstm_boards.resources.nets import Nets, Pin
from etalstm_boards.resources.step import Order, Step


class Part(NamedTuple):
    """A part of a path, from its start to a net, or from a net to its end. The worst is the largest.

    Members
    -------
    weight : what it passes, as the order of the graph weighs it
    name : of the register or port at its end
    readers : of its net with most of them
    """

    weight: int
    name: str
    readers: int


class Graph:
    """Nets, the logic between them, and where paths start and end.

    Nets that are no nets of the netlist are negative. Constants are left out.

    Members
    -------
    edges : for each net the nets before it, each with the weight of what is between, and the readers of the net before
    starts, ends : for each net the worst part of a path that starts or ends there
    nets : what the nets of the netlist take
    """

    def __init__(self, order: Order, nets: Nets):
        self.edges: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.starts: dict[int, Part] = {}
        self.ends: dict[int, Part] = {}
        self.order = order
        self.nets = nets
        self._inner = count(-1, -1)

    def inner(self) -> int:
        """Make a net within a primitive."""
        return next(self._inner)

    def edge(self, source: int | str, target: int | str, step: Step, pin: Pin):
        """Add logic between two nets; `pin` is where the source enters it."""
        if isinstance(source, int) and isinstance(target, int):
            ps, readers = self.nets.wire(source, pin)
            self.edges[target].append((source, self.order.weight(step.later(ps)), readers))

    def edges_between(self, sources: Iterable[int | str], targets: Iterable[int | str], step: Step, pin: Pin):
        """Add the same logic between each of some nets and each of others."""
        for source in sources:
            for target in targets:
                self.edge(source, target, step, pin)

    def start(self, net: int | str, step: Step, name: str):
        """Let paths start at a net: the register `name` is before it."""
        self.add_start(net, Part(self.order.weight(step), name, 0))

    def end(self, net: int | str, step: Step, pin: Pin, name: str):
        """Let paths end at a net: the register `name` is behind it. `step` has its setup."""
        if isinstance(net, int):
            ps, readers = self.nets.wire(net, pin)
            weight = self.order.weight(step.later(ps + Delay.CLOCK.ps))
            self._worst(self.ends, net, Part(weight, name, readers))

    def add_start(self, net: int | str, part: Part):
        """Let paths start with a part that a subunit has."""
        if isinstance(net, int):
            self._worst(self.starts, net, part)

    def add_end(self, net: int | str, part: Part):
        """Let paths end with a part that a subunit has, behind this unit's net."""
        if isinstance(net, int):
            ps, readers = self.nets.wire(net, Pin.ROUTED)
            weight = part.weight + self.order.weight(Step(ps))
            self._worst(self.ends, net, Part(weight, part.name, max(readers, part.readers)))

    def add_edge(self, source: int | str, target: int | str, weight: int, readers: int):
        """Add a path through a subunit, behind this unit's net; a wire through it is no path."""
        if isinstance(source, int) and isinstance(target, int):
            ps, here = self.nets.wire(source, Pin.ROUTED) if weight else (0, 0)
            self.edges[target].append((source, weight + self.order.weight(Step(ps)), max(readers, here)))

    @staticmethod
    def _worst(parts: dict[int, Part], net: int, part: Part):
        parts[net] = max(parts.get(net, part), part)
