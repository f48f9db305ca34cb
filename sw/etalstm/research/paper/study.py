"""The whole comparison, before it is written down: six benchmarks, and networks of other sizes.

Of units, layers and steps one is changed at a time, around one network. No network of these sizes was trained: the
densities of the machine's skipping are assumed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from etalstm.errors import RunError
from etalstm.host.strict import read_json
from etalstm.network.benchmarks import BENCHMARKS, V100_OPERATIONS, Benchmark
from etalstm.research.paper import cases, gpu
from etalstm.research.paper.cases import Row, Value, board_row, gpu_row, rows_of, together
from etalstm.research.paper.claims import CLAIMS, findings
from etalstm.research.paper.densities import sources
from etalstm.research.paper.energy import COEFFICIENTS, DRAWS, SEED
from etalstm.research.paper.gpu import V100_BANDWIDTH, Fitted, fit
from etalstm.research.paper.requests import Measure, Request, whole

CENTRE = Benchmark("centre", 1024, 2, 35, 128)
Sweeps = dict[str, Sequence[int]]  # values that each of ``hidden``, ``layers`` and ``steps`` takes, ascending

SWEEPS: Sweeps = {"hidden": (256, 512, 1024, 2048, 4096), "layers": (1, 2, 4, 8), "steps": (18, 35, 100, 303)}
QUICK: Sweeps = {"hidden": (256, 1024), "layers": (1, 2), "steps": (18, 35)}
PUBLISHED = [one for one in BENCHMARKS.values() if one.v100_milliseconds]
ON_BOARD = (cases.DYNAMIC, cases.ETA)


@dataclass(frozen=True)
class Point:
    """An iteration of one network on one machine: the GPU with tuned software, or one board. `swept` is a key of
    :data:`SWEEPS`: which size is changed.

    The `operations` are the useful ones: multiplications and additions of the network's products. Those that a machine
    leaves out, because a factor is zero, count too.
    """

    swept: str
    benchmark: Benchmark
    row: Row
    operations: float

    @property
    def size(self) -> int:
        """The value of the size that is changed."""
        return getattr(self.benchmark, self.swept)

    @property
    def throughput(self) -> Value:
        """Useful operations a second, in GFLOP/s."""
        time = self.row.milliseconds
        return Value(self.operations / cases.GIGA / (time.value / 1e3), "GFLOP/s", time.how)

    @property
    def efficiency(self) -> Value:
        """Useful operations a second and watt, in GFLOP/s/W: those of a joule."""
        joules, work = self.row.joules, self.operations / cases.GIGA
        how = together(self.row.milliseconds.how, joules.how)
        low, high = joules.band
        return Value(work / joules.value, "GFLOP/s/W", how, work / high, work / low)


SIZES = ("hidden", "layers", "steps", "batch")  # of a point, in the file
OF_ROW = ("milliseconds", "joules", "moved", "footprint", "fits", "groups")


def _named(sizes: dict[str, int]) -> Benchmark:
    return Benchmark("H {hidden}, L {layers}, T {steps}".format(**sizes), **sizes)


def networks(sweeps: Sweeps) -> Iterator[tuple[str, Benchmark]]:
    """Give every network, with the size that is changed; the central network is in each sweep that has its size."""
    for swept, sizes in sweeps.items():
        for size in sizes:
            yield swept, _named({name: getattr(CENTRE, name) for name in SIZES} | {swept: size})


def requests_of(sweeps: Sweeps) -> Iterator[Request]:
    """Give all requests to the cycle model."""
    for _, benchmark in networks(sweeps):
        yield from (whole(benchmark, machine, 1) for machine in ON_BOARD)


def points(sweeps: Sweeps, roofline: gpu.Roofline, measure: Measure) -> list[Point]:
    """Model every network on the GPU, as Dyn-Arch and as η-LSTM with all means."""
    found = []
    for swept, benchmark in networks(sweeps):
        work = gpu.operations(cases.work_of(benchmark, cases.BASELINE))
        rows = [gpu_row(benchmark, cases.BASELINE, cases.CUDNN, roofline)]
        rows += [board_row(benchmark, machine, 1, measure) for machine in ON_BOARD]
        found += [Point(swept, benchmark, row, work) for row in rows]
    return found


@dataclass(frozen=True)
class Study:
    """The results of the comparison.

    The GPU is fitted to some times of the `published` benchmarks, and compared with the others. A board makes at most
    `board_operations` multiplications and additions in a second. `scaling` has networks of other sizes.
    """

    benchmarks: Sequence[Benchmark]
    rows: list[Row]
    fitted: Fitted
    published: list[Benchmark]
    board_operations: float
    scaling: list[Point]

    @property
    def names(self) -> list[str]:
        """Names of the benchmarks."""
        return [one.name for one in self.benchmarks]


def compare(benchmarks: Sequence[Benchmark], sweeps: Sweeps, board_operations: float, measure: Measure) -> Study:
    """Compare on benchmarks and on networks of other sizes, with what `measure` says of each request."""
    fitted = fit(PUBLISHED)
    rows = [row for one in benchmarks for row in rows_of(one, fitted.roofline, measure)]
    scaling = points(sweeps, fitted.roofline, measure)
    return Study(benchmarks, rows, fitted, PUBLISHED, board_operations, scaling)


def as_dict(study: Study) -> dict:
    """Give everything as plain values, for the JSON file."""
    claims = [asdict(one) | {"found": [asdict(found) for found in findings(one, study.rows)]} for one in CLAIMS]
    implied = {
        "operations_per_second": cases.IMPLIED_OPERATIONS,
        "of_peak": cases.IMPLIED_OPERATIONS / V100_OPERATIONS,
        "from": {"pes": cases.THEIR_PES, "speed": cases.THEIR_DYNAMIC_SPEED, "assumed_clock_hz": cases.ASSUMED_CLOCK},
    }
    return {
        "provenance": cases.PROVENANCE,
        "board_operations_per_second": study.board_operations,
        "gpu": {"fit": asdict(study.fitted), "implied": implied, "bandwidth": V100_BANDWIDTH, "peak": V100_OPERATIONS},
        "coefficients": [asdict(one) for one in COEFFICIENTS],
        "draws": {"count": DRAWS, "seed": SEED},
        "densities": sources(),
        "claims": claims,
        "rows": [asdict(row) for row in study.rows],
        "scaling": [_point(point) for point in study.scaling],
    }


def _point(point: Point) -> dict:
    of_row = {name: value for name, value in asdict(point.row).items() if name in OF_ROW}
    sizes = {name: getattr(point.benchmark, name) for name in SIZES}
    of_point = {"throughput": asdict(point.throughput), "efficiency": asdict(point.efficiency)}
    return {"swept": point.swept, **sizes, "case": point.row.case, "operations": point.operations} | of_row | of_point


def read_study(path: Path) -> Study:
    """Read the file that :func:`as_dict` is written to; :class:`RunError` if it is none, or has other densities."""
    known = read_json(path, "there is no such comparison; eta-lstm research paper makes one")
    try:
        rows = TypeAdapter(list[Row]).validate_python(known["rows"])
        scaling = [_read_point(point) for point in known["scaling"]]
        benchmarks = [BENCHMARKS[name] for name in dict.fromkeys(row.benchmark for row in rows)]
        current, peak = known["densities"] == sources(), float(known["board_operations_per_second"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} must be a file of eta-lstm research paper: {error}") from error
    if not current:
        raise RunError(f"{path}: made with other densities than those that are installed; make it anew")
    return Study(benchmarks, rows, fit(PUBLISHED), PUBLISHED, peak, scaling)


def _read_point(known: dict) -> Point:
    """Read a point. Its row has no events: the joules are known."""
    benchmark, on_gpu = _named({name: known[name] for name in SIZES}), known["case"] == cases.BASELINE
    row = {"benchmark": benchmark.name, "case": known["case"], "boards": 0 if on_gpu else 1, "events": {}}
    row |= {"baseline": cases.CUDNN if on_gpu else ""} | {name: known[name] for name in OF_ROW}
    return Point(known["swept"], benchmark, TypeAdapter(Row).validate_python(row), known["operations"])
