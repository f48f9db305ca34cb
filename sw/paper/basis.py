"""What the comparison rests on, for its page: densities, and what is left out."""

from collections.abc import Iterator

from etalstm.paper.densities import densities_of, sources
from etalstm.paper.document import Block, Heading, Paragraph, Table
from etalstm.paper.requests import BOARDS, SHORT
from etalstm.paper.study import Study
from etalstm.paper.values import GIGA


def densities(study: Study) -> Iterator[Block]:
    """Say which densities were taken, and where they were measured."""
    yield Heading("Densities")
    yield Paragraph(
        "Measured on the golden trainer, means over seeds and over the iterations of the last epoch. The networks "
        "that were trained are smaller than those here (units in the table); that the densities carry over is "
        "assumed."
    )
    rows = []
    for name, one in sources()["sets"].items():
        for use in ("dense", "eta", "ms1", "ms2"):
            if one[use]:
                shares = ", ".join(
                    f"{key} {one[use][key]:g}" for key in one[use] if key not in ("run", "seeds", "score")
                )
                score = f"{one[use]['score']:g}"
                rows.append(
                    [name, str(one["hidden"]), use, one[use]["run"], str(len(one[use]["seeds"])), score, shares]
                )
    yield Table(["data", "units", "used for", "run", "seeds", "score", "shares"], rows)
    for name, one in sources()["sets"].items():
        yield Paragraph(f"{name}, {one['score']}: {one['command']}")
        if one["ms2"] is None:
            yield Paragraph(f"{name} has no study with skipped cells: there MS2 leaves out no cell.")
    taken = [name for name in study.names if not densities_of(name).own]
    if taken:
        yield Paragraph(
            f"{', '.join(taken)}: no network was trained. The densities of {sources()['assumed']} are assumed."
        )


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
        "The GPU: compressing streams for MS1 and finding the cells of MS2 are taken to cost nothing. The loss and "
        "the embedding are in neither machine. The board's clock of 250 MHz is a goal: no design has been placed "
        "and routed."
    )
