"""What is asked of the cycle model, and how what it answers becomes a machine's iteration."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from etalstm.model.cells import EVERY
from etalstm.network.architecture import ARCHITECTURES, SWING
from etalstm.network.benchmarks import STORAGE, Benchmark
from etalstm.network.storage import DENSE
from etalstm.network.weight_format import BF16, FLOAT32
from etalstm.research.paper.densities import densities_of

DYNAMIC, STATIC, INFERENCE, ETA, ETA_PAPER = "dynamic", "static", "inference", "eta", "eta_paper"
SHORT = (5, 8)  # steps: both leave a remainder of 2, as three steps share loads of weights
BOARDS = (1, 4)


@dataclass(frozen=True)
class Request:
    """A network, and the machine that it is modelled on.

    Members are those of :func:`etalstm.cli.modelled.measure`.
    """

    hidden: int
    layers: int
    batch: int
    steps: int
    architecture: str
    storage: str = DENSE
    delta: float = 1.0
    local: float = 1.0
    inputs: float = 1.0
    weight_format: str = FLOAT32
    kept_cells: tuple[float, ...] = EVERY

    @property
    def key(self) -> str:
        """A text that tells requests apart."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


Measure = Callable[[Request], dict]


def whole(benchmark: Benchmark, machine: str, boards: int) -> Request:
    """Ask for an iteration of a benchmark on one of so many boards, each with an equal part of the batch.

    ``eta_paper`` has what the source paper names: MS1 and MS2. ``eta`` has all that the machine can do, as far as it
    costs the network nothing: besides, δ pruned, delta inputs, weights in bfloat16. Cells that are skipped are those of
    early steps. All nonzero δ of the study are in the other cells, at places drawn at random.
    """
    sizes = benchmark.hidden, benchmark.layers, benchmark.batch // boards, benchmark.steps
    if machine in ARCHITECTURES:
        return Request(*sizes, machine)
    known = densities_of(benchmark.name)
    shares, weights = (known.ms2, FLOAT32) if machine == ETA_PAPER else (known.eta, BF16)
    delta = min(1.0, shares.delta / shares.backward)  # a study counts cells with padding, δ without
    of_data = delta, shares.local, shares.inputs, weights, (shares.backward,)
    return Request(*sizes, SWING.name, STORAGE, *of_data)


def short(benchmark: Benchmark, architecture: str) -> list[Request]:
    """Ask for one layer with few steps: for architectures that the model takes long for, and the one beside them."""
    return [Request(benchmark.hidden, 1, benchmark.batch, steps, architecture) for steps in SHORT]


def requests_of(benchmark: Benchmark) -> Iterator[Request]:
    """Give all that a benchmark's cases need."""
    for boards in BOARDS:
        yield from (whole(benchmark, machine, boards) for machine in (DYNAMIC, ETA_PAPER, ETA))
    for architecture in (DYNAMIC, STATIC, INFERENCE):
        yield from short(benchmark, architecture)


def iteration(benchmark: Benchmark, machine: str, boards: int, measure: Measure) -> dict:
    """Give an iteration on one of so many boards.

    An architecture with fixed shares runs the programs of Dyn-Arch and takes longer for them. By which factor is
    modelled on one layer, with few steps, continued to all steps as a straight line.
    """
    if machine not in (STATIC, INFERENCE):
        return measure(whole(benchmark, machine, boards))
    found = measure(whole(benchmark, DYNAMIC, boards))
    factor = _continued(benchmark, machine, measure) / _continued(benchmark, DYNAMIC, measure)
    return found | {name: found[name] * factor for name in ("cycles", "milliseconds")}


def _continued(benchmark: Benchmark, architecture: str, measure: Measure) -> float:
    """Give the cycles of one layer with all steps."""
    first, second = (measure(request)["cycles"] for request in short(benchmark, architecture))
    return first + (benchmark.steps - SHORT[0]) * (second - first) / (SHORT[1] - SHORT[0])
