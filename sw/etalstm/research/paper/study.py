"""The whole comparison, before it is written down."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from etalstm.network.benchmarks import BENCHMARKS, V100_OPERATIONS, Benchmark
from etalstm.research.paper.cases import ASSUMED_CLOCK, IMPLIED_OPERATIONS, THEIR_DYNAMIC_SPEED, THEIR_PES, Row, rows_of
from etalstm.research.paper.claims import CLAIMS, findings
from etalstm.research.paper.densities import sources
from etalstm.research.paper.energy import COEFFICIENTS, DRAWS, SEED
from etalstm.research.paper.gpu import V100_BANDWIDTH, Fitted, fit
from etalstm.research.paper.requests import Measure
from etalstm.research.paper.scaling import Point, Sweeps, points
from etalstm.research.paper.values import PROVENANCE


@dataclass(frozen=True)
class Study:
    """What was compared.

    Members
    -------
    benchmarks : sequence of Benchmark
    rows : list of Row
    fitted : Fitted
    published : list of Benchmark
        Whose times the GPU is fitted to, or held to.
    board_operations : float
        Multiplications and additions of one board in a second, at most.
    scaling : list of Point
        Networks of other sizes.
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
    published = [one for one in BENCHMARKS.values() if one.v100_milliseconds]
    fitted = fit(published)
    rows = [row for one in benchmarks for row in rows_of(one, fitted.roofline, measure)]
    scaling = points(sweeps, fitted.roofline, measure)
    return Study(benchmarks, rows, fitted, published, board_operations, scaling)


def as_dict(study: Study) -> dict:
    """Give everything as plain values, for the JSON file."""
    claims = [asdict(one) | {"found": [asdict(found) for found in findings(one, study.rows)]} for one in CLAIMS]
    implied = {
        "operations_per_second": IMPLIED_OPERATIONS,
        "of_peak": IMPLIED_OPERATIONS / V100_OPERATIONS,
        "from": {"pes": THEIR_PES, "speed": THEIR_DYNAMIC_SPEED, "assumed_clock_hz": ASSUMED_CLOCK},
    }
    return {
        "provenance": PROVENANCE,
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
    names = ("milliseconds", "joules", "moved", "footprint", "fits", "groups")
    of_row = {name: value for name, value in asdict(point.row).items() if name in names}
    sizes = {name: getattr(point.benchmark, name) for name in ("hidden", "layers", "steps", "batch")}
    of_point = {"throughput": asdict(point.throughput), "efficiency": asdict(point.efficiency)}
    return {"swept": point.swept, **sizes, "case": point.row.case, "operations": point.operations} | of_row | of_point
