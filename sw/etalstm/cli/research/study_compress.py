"""``eta-lstm research study compress``: runs of ``eta-lstm research compress`` beside each other."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from etalstm.cli.extras import with_extra
from etalstm.cli.options import refuse
from etalstm.cli.research.profile import RUNS
from etalstm.host.drawing import can_draw
from etalstm.host.durable import write_whole
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import NetworkShape, check_size
from etalstm.research.studies.shrinking import FILE, Network, ShrunkRun, read_runs, write_runs
from etalstm.research.studies.shrinking_figure import draw_runs
from etalstm.research.studies.shrinking_page import markdown


def compress(
    context: Context,
    runs: Annotated[
        list[Path], Argument(help=f"Folders of runs of eta-lstm research compress, or {FILE} of earlier studies")
    ],
    out: Annotated[Path, Option(help=f"Folder for {FILE}, shrinking.md and shrinking.svg")],
    host: Annotated[bool, Option("--host", help="Time the networks on this computer, too, with PyTorch")] = False,
    steps: Annotated[int, Option(help="With --host: steps of an iteration")] = 35,
    turns: Annotated[int, Option(help="With --host: turns of each size; medians count")] = RUNS,
) -> None:
    """Set runs of compress beside each other: how many times smaller, how much worse, for each step and seed."""
    if not host:
        refuse(context, "only used with --host", "steps", "turns")
    found = read_runs(runs)
    if host:
        _time(found, check_size("steps", steps), check_size("turns", turns))
    out.mkdir(parents=True, exist_ok=True)
    write_runs(found, out / FILE)
    timed = f" --host --steps {steps} --turns {turns}" if host else ""
    page = markdown(found, f"eta-lstm research study compress RUN ...{timed} --out DIR")
    write_whole(out / "shrinking.md", page)
    print(page)
    if can_draw():
        draw_runs(found, out / "shrinking.svg")
    else:
        print("no figure: matplotlib is not installed (extra `study`)", file=sys.stderr)


def _time(runs: list[ShrunkRun], steps: int, turns: int) -> None:
    """Put down how long an iteration of the LSTMs that are shown takes on this computer. All layers take turns."""
    timing = with_extra("etalstm.research.profile.host")
    for batch in sorted({run.settings["batch"] for run in runs}):
        shown = [one for run in runs if _timed(run, batch) for _, one in run.shown]
        layers = sorted({layer for one in shown for layer in one.layers()})
        seconds = timing.seconds_of([NetworkShape(*layer) for layer in layers], batch, steps, turns)
        by_layer = dict(zip(layers, seconds, strict=True))
        for one in shown:
            one.milliseconds = _milliseconds(one, by_layer)


def _timed(run: ShrunkRun, batch: int) -> bool:
    """Tell whether a run has this batch, and LSTMs of one direction as PyTorch has them."""
    settings = run.settings
    return settings["batch"] == batch and settings["cell"] == LSTM.name and not settings["bidirectional"]


def _milliseconds(network: Network, by_layer: dict[tuple[int, int], float]) -> float:
    return 1e3 * sum(by_layer[layer] for layer in network.layers())
