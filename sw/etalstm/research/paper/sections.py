"""Parts of the page beside the comparison: other sizes of networks, densities, and what is left out."""

from collections.abc import Iterator

from etalstm.network.benchmarks import V100_OPERATIONS
from etalstm.research.paper.cases import CASES, GIGA, together
from etalstm.research.paper.densities import INSTEAD, SHARES, densities_of, sources
from etalstm.research.paper.document import Block, Figure, Heading, Paragraph, Table
from etalstm.research.paper.figures import draw_kinds, draw_rates
from etalstm.research.paper.requests import BOARDS, SHORT
from etalstm.research.paper.study import CENTRE, Point, Study

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
        point.efficiency.text("{:.1f}"),
        f"{footprint / GIGA:.2f}" + ("" if row.fits else " (does not fit)"),
        f"{moved / GIGA:.2f}",
        " and ".join(f"{share:.2f}" for share in shares),
        how,
    ]


def densities(study: Study) -> Iterator[Block]:
    """Say which densities were taken, and where they were measured."""
    yield Heading("Densities")
    yield Paragraph(
        "Measured on the golden trainer, means over seeds and over the iterations of the last epoch. The networks "
        "that were trained are smaller than those here (units in the table); that the densities carry over is "
        "assumed. On trec, from 64 to 512 units, the shares of δ and of the local gradients hardly change, and at the "
        "same threshold fewer of x and h are sent: docs/density/sizes/sizes.md."
    )
    yield Paragraph(
        "Of each study, that run was taken which costs least among those whose validation score is at most so much "
        "worse than that of the dense runs. The test score had no part in it. eta: all means, the fewest products. "
        "ms1: small local gradients are dropped and nothing else, the smallest footprint. ms2: cells are skipped "
        "besides, the smallest footprint."
    )
    yield Table(
        ["data", "units", "used for", "run", "seeds", "validation", "test", "at most worse by", "shares"],
        [
            _chosen_row(name, one, use)
            for name, one in sources()["sets"].items()
            for use in one
            if isinstance(one[use], dict)
        ],
    )
    for name, one in sources()["sets"].items():
        yield Paragraph(f"{name}, {one['score']}: {one['command']}")
        for use, instead in INSTEAD.items():
            if one[use] is None:
                yield Paragraph(
                    f"{name}: no run for {use} was made that keeps within that. Its shares are those of {instead}."
                )
    taken = [name for name in study.names if not densities_of(name).own]
    if taken:
        yield Paragraph(
            f"{', '.join(taken)}: no network was trained. The densities of {sources()['assumed']} are assumed."
        )


def _chosen_row(name: str, one: dict, use: str) -> list[str]:
    run = one[use]
    shares = ", ".join(f"{share} {run[share]:g}" for share in SHARES if share in run)
    scores = [f"{run[split]:g}" for split in ("validation", "score")]
    return [name, str(one["hidden"]), use, run["run"], str(len(run["seeds"])), *scores, one["tolerance"], shares]


def limits(study: Study) -> Iterator[Block]:
    """Say what the comparison leaves out."""
    yield Heading("What is not in it")
    gigabytes = {
        one.name: 4 * sum(one.network.rows * one.network.columns_of(n) for n in range(one.layers)) / GIGA
        for one in study.benchmarks
    }
    exchange = ", ".join(f"{name} {value:.2f}" for name, value in gigabytes.items())
    yield Paragraph(
        f"{BOARDS[-1]} boards: each works on its part of the batch, as modelled. What they exchange is assumed to "
        f"cost nothing. It is at least one gradient of all weights, in GB: {exchange}."
    )
    yield Paragraph(
        f"LSTM-Inf and Static-Arch: their cycles are those of Dyn-Arch times a factor, modelled on one layer with "
        f"{SHORT[0]} and {SHORT[1]} steps and continued as a straight line. On H 1024, two layers, 32 sequences, "
        "35 steps the factor of Static-Arch is 0.2 % from that of the whole iteration. On ptb that of LSTM-Inf is "
        "0.01 % from it. On four boards it is the "
        "factor of one board. One layer may have more groups of channels than the whole network."
    )
    yield Paragraph(
        "What real batches have: sequences of unequal length. Here all have as many steps, so there is no padding, and "
        "length buckets have nothing to gain. And zeros are drawn at places that have nothing to do with each other. "
        "Then nearly every row of weights is needed by some sequence. In real batches zeros come together, and rows "
        "that no sequence needs are not loaded: eta-lstm bench iteration --weights RUN measures it."
    )
    yield Paragraph(
        "The GPU: compressing streams for MS1 and finding the cells of MS2 are taken to cost nothing. The loss and "
        "the embedding are in neither machine. The board's clock of 250 MHz is a goal: no design has been placed "
        "and routed."
    )
