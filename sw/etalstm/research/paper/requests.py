"""Requests to the cycle model, and how a machine's iteration is made from its answers.

Answers are written to a file, so that an interrupted comparison can go on.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import ValidationError

from etalstm.errors import RunError
from etalstm.host.computer import worker_processes
from etalstm.host.durable import write_whole
from etalstm.model.measured import Shares, sending
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.benchmarks import STORAGE, Benchmark
from etalstm.network.execution import BF16, FLOAT32, Execution
from etalstm.network.storage import Storage
from etalstm.research.paper.densities import densities_of
from etalstm.research.profile import model_digest
from etalstm.train.sealed import Record

DYNAMIC, STATIC, INFERENCE, ETA, ETA_PAPER = "dynamic", "static", "inference", "eta", "eta_paper"
SHORT = (5, 8)  # steps: both leave a remainder of 2, as three steps share loads of weights
BOARDS = (1, 4)


@dataclass(frozen=True)
class Request:
    """A network, and the machine that it is modelled on.

    Members are those of :func:`etalstm.model.measured.measure`. There are as many inputs as units, and as many slices
    as the machine uses best.
    """

    hidden: int
    layers: int
    batch: int
    steps: int
    execution: Execution
    shares: Shares = field(default_factory=Shares)

    @property
    def key(self) -> str:
        """A text that tells requests apart."""
        sizes = (f"{name}={getattr(self, name)}" for name in ("hidden", "layers", "batch", "steps"))
        shares = (f"{name}={value}" for name, value in asdict(self.shares).items())
        return " ".join((*sizes, f"execution={self.execution.text}", *shares))


Measure = Callable[[Request], dict]


def whole(benchmark: Benchmark, machine: str, boards: int) -> Request:
    """Ask for an iteration of a benchmark on one of so many boards, each with an equal part of the batch.

    ``eta_paper`` has what the source paper names: MS1 and MS2. ``eta`` has all that the machine can do, as far as it
    costs the network nothing: besides, δ pruned, delta inputs, weights in bfloat16. Skipped cells are those of early
    steps. All nonzero δ of the study are in the other cells, at random positions.
    """
    sizes = benchmark.hidden, benchmark.layers, benchmark.batch // boards, benchmark.steps
    if machine in ARCHITECTURES:
        return Request(*sizes, Execution(architecture=ARCHITECTURES[machine]))
    known = densities_of(benchmark.name)
    shares, weights = (known.ms2, FLOAT32) if machine == ETA_PAPER else (known.eta, BF16)
    delta = min(1.0, shares.delta / shares.backward)  # a study counts cells with padding, δ without
    execution = Execution(Storage(STORAGE), delta_inputs=sending(shares.inputs), weight_format=weights)
    return Request(*sizes, execution, Shares(delta, shares.local, shares.inputs, (shares.backward,)))


def short(benchmark: Benchmark, architecture: str) -> list[Request]:
    """Ask for one layer with few steps: for architectures that take the model long, and for Dyn-Arch beside them."""
    execution = Execution(architecture=ARCHITECTURES[architecture])
    return [Request(benchmark.hidden, 1, benchmark.batch, steps, execution) for steps in SHORT]


def requests_of(benchmark: Benchmark) -> Iterator[Request]:
    """Give all requests of a benchmark's cases."""
    for boards in BOARDS:
        yield from (whole(benchmark, machine, boards) for machine in (DYNAMIC, ETA_PAPER, ETA))
    for architecture in (DYNAMIC, STATIC, INFERENCE):
        yield from short(benchmark, architecture)


def iteration(benchmark: Benchmark, machine: str, boards: int, measure: Measure) -> dict:
    """Give an iteration on one of so many boards.

    An architecture with fixed slots of PEs runs the programs of Dyn-Arch, and takes longer. The factor is modelled on
    one layer with few steps, and extrapolated linearly to all steps.
    """
    if machine not in (STATIC, INFERENCE):
        return measure(whole(benchmark, machine, boards))
    found = measure(whole(benchmark, DYNAMIC, boards))
    factor = _extrapolated(benchmark, machine, measure) / _extrapolated(benchmark, DYNAMIC, measure)
    return found | {name: found[name] * factor for name in ("cycles", "milliseconds")}


def _extrapolated(benchmark: Benchmark, architecture: str, measure: Measure) -> float:
    """Give the cycles of one layer with all steps."""
    first, second = (measure(request)["cycles"] for request in short(benchmark, architecture))
    return first + (benchmark.steps - SHORT[0]) * (second - first) / (SHORT[1] - SHORT[0])


class _RunsFile(Record):
    """The content of a file of :class:`Runs`."""

    digest: str
    runs: dict[str, dict]


class Runs:
    """Answers by request, in a file that is written after each, and read if it is there.

    Answers of other sources than those that are installed, or of a machine of another `config`, are not used.
    :class:`RunError` if the file is not what this class writes.
    """

    def __init__(self, path: Path, config: str):
        self._path, self._found = path, {}
        self._digest = hashlib.sha256((config + model_digest()).encode()).hexdigest()[:16]
        if path.exists():
            self._found = self._read()

    def _read(self) -> dict[str, dict]:
        try:
            written = _RunsFile.model_validate_json(self._path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
            raise RunError(f"{self._path} must be a file of eta-lstm research paper; move it away: {reason}") from error
        return written.runs if written.digest == self._digest else {}

    def __call__(self, request: Request) -> dict:
        """Give the answer to a request."""
        return self._found[request.key]

    def complete(
        self,
        requests: Iterable[Request],
        measure: Callable[[Request], dict],
        processors: int,
        report: Callable[[Request, dict], None],
    ) -> None:
        """Measure what is missing, on so many processors; `report` is told every answer."""
        missing = {request.key: request for request in requests if request.key not in self._found}
        for request, found in _answers(list(missing.values()), measure, processors):
            self._found[request.key] = found
            write_whole(self._path, json.dumps({"digest": self._digest, "runs": self._found}, indent=1) + "\n")
            report(request, found)


def _answers(requests: Sequence[Request], measure: Callable[[Request], dict], processors: int):
    if min(len(requests), processors) <= 1:
        yield from ((request, measure(request)) for request in requests)
        return
    with worker_processes(min(len(requests), processors)) as pool:
        yield from zip(requests, pool.map(measure, requests), strict=True)
