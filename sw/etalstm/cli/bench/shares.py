"""``eta-lstm bench shares``: the best division of PEs, for a machine that fixes them to kinds of work.

The divisions of ``static`` and ``inference`` in :mod:`etalstm.network.architecture` were found with it.
"""

import json
from typing import Annotated

from typer import Option

from etalstm.cli.bench.iteration import measure
from etalstm.cli.devices import open_machine
from etalstm.device import TrainingShape
from etalstm.network.architecture import Architecture
from etalstm.network.execution import PRESET_HELP, Execution
from etalstm.network.shape import NetworkShape, check_size
from etalstm_sim.trials.products.shares import ShareSweep, work

# With fewer steps, and one PE for element-wise work, the norms of dW take longer than dW itself: a step costs nothing.
SIMULATED = (3, 4)
TREC_10 = NetworkShape(3072, 3072, 2), 128, 18  # network, batch, steps: our benchmark shape of this name


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
