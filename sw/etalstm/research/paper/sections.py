"""Parts of the page beside the comparison: other sizes of networks, densities, and what is left out."""

from collections.abc import Iterator

from etalstm.network.benchmarks import V100_OPERATIONS
from etalstm.research.paper.cases import CASES, GIGA, together
from etalstm.research.paper.densities import INSTEAD, densities_of, sources
from etalstm.research.paper.document import Block, Figure, Heading, Paragraph, Table, prose
from etalstm.research.paper.figures import draw_kinds, draw_rates
from etalstm.research.paper.requests import BOARDS, SHORT
from etalstm.research.paper.study import CENTRE, Point, Study
from etalstm.research.studies.reduction import SHARES

COLUMNS = (
    "network", "machine", "ms", "GFLOP/s", "of peak", "GFLOP/s/W", "footprint, GB", "moved, GB",
    "intermediates, of footprint and of moved", "how",
)  # fmt: skip


def characteristics(study: Study) -> Iterator[Block]:
    """Show the points of a study's scaling: figures, and one table."""
    yield Heading("How it changes with the sizes of a network")
    yield prose("sizes", centre=CENTRE)
    caption = "Useful operations a second, and a second and watt; lines: the bands."
    yield Figure("rates", draw_rates(study.scaling), caption)
    for quantity, title in (("footprint", "Memory footprint"), ("moved", "Bytes moved in an iteration")):
        caption = f"{title}: the share of each kind; above the bars all, in GB."
        yield Figure(f"{quantity}_by_size", draw_kinds(study.scaling, quantity), caption)
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
        point.efficiency.text("{:.1f}"),
        f"{footprint / GIGA:.2f}" + ("" if row.fits else " (does not fit)"),
        f"{moved / GIGA:.2f}",
        " and ".join(f"{share:.2f}" for share in shares),
        how,
    ]


def densities(study: Study) -> Iterator[Block]:
    """Say which densities were taken, and where they were measured."""
    yield Heading("Densities")
    yield prose("measured")
    yield prose("taken")
    columns = ["data", "units", "used for", "run", "seeds", "validation", "test", "at most worse by", "shares"]
    sets = sources()["sets"].items()
    chosen = [(name, one, use) for name, one in sets for use in one if isinstance(one[use], dict)]
    yield Table(columns, [_chosen_row(*one) for one in chosen])
    for name, one in sets:
        yield Paragraph(f"{name}, {one['score']}: {one['command']}")
        for use, instead in INSTEAD.items():
            if one[use] is None:
                yield prose("instead", name=name, use=use, instead=instead)
    taken = [name for name in study.names if not densities_of(name).own]
    if taken:
        yield prose("assumed", names=", ".join(taken), assumed=sources()["assumed"])


def _chosen_row(name: str, one: dict, use: str) -> list[str]:
    run = one[use]
    shares = ", ".join(f"{share} {run[share]:g}" for share in SHARES if share in run)
    scores = [f"{run[split]:g}" for split in ("validation", "score")]
    return [name, str(one["hidden"]), use, run["run"], str(len(run["seeds"])), *scores, one["tolerance"], shares]


def limits(study: Study) -> Iterator[Block]:
    """Say what the comparison leaves out."""
    yield Heading("What is not in it")
    weights = [sum(one.network.rows * one.network.columns_of(n) for n in range(one.layers)) for one in study.benchmarks]
    exchange = ", ".join(f"{name} {4 * count / GIGA:.2f}" for name, count in zip(study.names, weights, strict=True))
    yield prose("exchange", boards=BOARDS[-1], exchange=exchange)
    yield prose("architectures", short=SHORT)
    yield prose("batches")
    yield prose("left_out")
