"""``eta-lstm bench shares``: the best division of PEs, for a machine that fixes them to kinds of work.

The divisions of ``static`` and ``inference`` in :mod:`etalstm.network.architecture` were found with it.
"""

import json
from collections.abc import Callable
from typing import Annotated

from typer import Option

from etalstm.cli.bench.iteration import measure
from etalstm.cli.devices import open_machine
from etalstm.device import TrainingShape
from etalstm.network.architecture import Architecture, Division
from etalstm.network.execution import PRESET_HELP, Execution
from etalstm.network.shape import NetworkShape, check_size, operations
from etalstm_hw.contract import SLOTS

ELEMENTWISE = (1, 2, 3, 4, 6)
# With fewer steps, and one PE for element-wise work, the norms of dW take longer than dW itself: a step costs nothing.
SIMULATED = (3, 4)
UNEQUAL = 3  # PEs moved from outer products to MatMul, and back, around the best equal division
# Element-wise operations on the PEs with dense storage: of a cell's forward and backward pass, and of each weight's
# norm and update.
OF_CELL, OF_WEIGHT = 4 + 27, 3 + 7
TREC_10 = NetworkShape(3072, 3072, 2), 128, 18  # network, batch, steps: our benchmark shape of this name


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


def shares(
    preset: Annotated[str, Option(help=PRESET_HELP)] = "bench",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 128,
    hidden: Annotated[int, Option(help="Units of a layer")] = 128,
    layers: Annotated[int, Option(help="LSTM layers")] = 1,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps; 3 and 4 are simulated, others cost as much as the fourth")] = 18,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Find how many of 32 PEs a machine divided in space should fix to each kind of work."""
    measured = []

    def report(entry):
        measured.append(entry)
        if not as_json:
            print(_line(entry), flush=True)

    network, ratio = NetworkShape(inputs, hidden, layers), work(*TREC_10)
    check_size("steps", steps)
    if not as_json:
        print("TREC-10's shape: " + ", ".join(f"{kind} {share:.2%}" for kind, share in ratio.items()) + " of the work")
    with open_machine(preset) as device:

        def cycles(architecture):
            before, last = (_cycles(device, network, batch, n, architecture) for n in SIMULATED)
            return before + (steps - SIMULATED[0]) * (last - before)

        sweep = ShareSweep(cycles, report)
        best = {"static": sweep.training(), "inference": sweep.inference()}
    if as_json:
        chosen = {name: vars(division) for name, division in best.items()}
        print(json.dumps({"preset": preset, "work": ratio, "measured": measured, "best": chosen}))
    else:
        for name, division in best.items():
            print(f"best for {name}: {division}")


def _cycles(device, network: NetworkShape, batch: int, steps: int, architecture: Architecture) -> int:
    shape = TrainingShape(network, batch, steps, Execution(architecture=architecture))
    return measure(device.create(shape), shape, architecture.name == "inference")[0]["cycles"]


def _line(entry: dict) -> str:
    division = ", ".join(f"{kind} {entry[kind]:2d}" for kind in ("matmul", "outer", "elementwise"))
    passes = "iteration" if entry["architecture"] == "static" else "forward pass"
    return f"{entry['architecture']:10s} {division}: {entry['cycles']:11,} cycles of the {passes}"
