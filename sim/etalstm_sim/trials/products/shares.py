"""The division of PEs with the fewest cycles, of a machine that fixes them to kinds of work."""

from collections.abc import Callable

from etalstm.network.architecture import Architecture, Division
from etalstm.network.shape import NetworkShape, operations
from etalstm_hw.contract import SLOTS

ELEMENTWISE = (1, 2, 3, 4, 6)
UNEQUAL = 3  # PEs moved from outer products to MatMul, and back, around the best equal division
# Element-wise operations on the PEs with dense storage: of a cell's forward and backward pass, and of each weight's
# norm and update.
OF_CELL, OF_WEIGHT = 4 + 27, 2 + 4


def work(network: NetworkShape, batch: int, steps: int) -> dict[str, float]:
    """Give each kind of work's share of an iteration's operations."""
    macs = operations(network, batch, steps) / 2
    cells = network.layers * network.hidden_size * batch * steps
    weights = sum(network.rows * network.columns_of(layer) for layer in range(network.layers))
    kinds = {"matmul": macs * 2 / 3, "outer": macs / 3, "elementwise": OF_CELL * cells + OF_WEIGHT * weights}
    return {kind: count / sum(kinds.values()) for kind, count in kinds.items()}


def halves(elementwise: int, moved: int = 0) -> Division:
    """Divide the PEs without element-wise work in halves, and move some from outer products to MatMul."""
    outer = (SLOTS - elementwise) // 2 - moved
    return Division(SLOTS - elementwise - outer, outer, elementwise)


class ShareSweep:
    """Looks for the divisions with the fewest cycles.

    `measure`: gives the cycles of an architecture: of an iteration for ``static``, of a forward pass for ``inference``.
    `report`: called with every measurement, a dict.
    """

    def __init__(self, measure: Callable[[Architecture], int], report: Callable[[dict], None]):
        self._measure, self._report = measure, report
        self._known: dict[Architecture, int] = {}

    def training(self) -> Division:
        """Find the division with the fewest cycles of an iteration, MatMul and outer products alike at first."""
        best = min((halves(n) for n in ELEMENTWISE), key=lambda division: self._cycles("static", division))
        others = [halves(best.elementwise, moved) for moved in (UNEQUAL, -UNEQUAL)]
        return min([best, *others], key=lambda division: self._cycles("static", division))

    def inference(self) -> Division:
        """Find the division with the fewest cycles of a forward pass, with nothing for outer products."""
        divisions = (Division(SLOTS - n, 0, n) for n in ELEMENTWISE)
        return min(divisions, key=lambda division: self._cycles("inference", division))

    def _cycles(self, name: str, division: Division) -> int:
        architecture = Architecture(name, division)
        if architecture not in self._known:
            cycles = self._known[architecture] = self._measure(architecture)
            self._report({"architecture": name, **vars(division), "cycles": cycles})
        return self._known[architecture]
