"""The part of the page that shows how memory, traffic, throughput and energy change with a network's sizes."""

from collections.abc import Iterator

from etalstm.network.benchmarks import V100_OPERATIONS
from etalstm.research.paper.cases import CASES
from etalstm.research.paper.document import Block, Figure, Heading, Paragraph, Table
from etalstm.research.paper.figures import draw_kinds, draw_rates
from etalstm.research.paper.scaling import CENTRE, Point
from etalstm.research.paper.study import Study
from etalstm.research.paper.values import GIGA, Value, together

COLUMNS = (
    "network", "machine", "ms", "GFLOP/s", "of peak", "GFLOP/s/W", "footprint, GB", "moved, GB",
    "intermediates, of footprint and of moved", "how",
)  # fmt: skip


def characteristics(study: Study) -> Iterator[Block]:
    """Show the points of a study's scaling: figures, and one table."""
    yield Heading("How it changes with the sizes of a network")
    yield Paragraph(
        f"Units H, layers L or steps T are changed, around H {CENTRE.hidden}, L {CENTRE.layers}, T {CENTRE.steps}, "
        f"with {CENTRE.batch} sequences. The GPU runs tuned cuDNN. Our machine is one board. Useful operations are the "
        "multiplications and additions of the network's three products. Those that η-LSTM leaves out because a factor "
        "is zero count too, so its rate may exceed its peak. No network of these sizes was trained: the densities of "
        "η-LSTM are assumed."
    )
    yield Figure(draw_rates(study.scaling), "Useful operations a second, and a second and watt; lines: the bands.")
    yield Figure(
        draw_kinds(study.scaling, "footprint"), "Memory footprint: the share of each kind; above the bars all, in GB."
    )
    yield Figure(
        draw_kinds(study.scaling, "moved"),
        "Bytes moved in an iteration: the share of each kind; above the bars all, in GB.",
    )
    seen = {(point.benchmark, point.row.case): point for point in study.scaling}  # the middle one is in every sweep
    yield Table(COLUMNS, [_line(study, point) for point in seen.values()])


def _line(study: Study, point: Point) -> list[str]:
    row = point.row
    peak = study.board_operations if row.boards else V100_OPERATIONS
    footprint, moved = (sum(value.value for value in found.values()) for found in (row.footprint, row.moved))
    shares = [found["intermediates"].value / whole for found, whole in ((row.footprint, footprint), (row.moved, moved))]
    how = together(point.efficiency.how, *(value.how for value in (*row.footprint.values(), *row.moved.values())))
    return [
        point.benchmark.name,
        CASES[row.case],
        f"{row.milliseconds.value:.1f}",
        f"{point.throughput.value:.0f}",
        f"{GIGA * point.throughput.value / peak:.3f}",
        _banded(point.efficiency),
        f"{footprint / GIGA:.2f}" + ("" if row.fits else " (does not fit)"),
        f"{moved / GIGA:.2f}",
        " and ".join(f"{share:.2f}" for share in shares),
        how,
    ]


def _banded(value: Value) -> str:
    return f"{value.value:.1f} ({value.low:.1f} to {value.high:.1f})"
