"""Draws runs of ``eta-lstm research compress``: how much worse networks became, by how many times smaller they are."""

from collections.abc import Callable, Sequence
from pathlib import Path

from etalstm.host.drawing import COLOURS, MARKERS, pyplot, save_figure
from etalstm.research.studies.shrinking import ACCEPTED, Network, ShrunkRun
from etalstm.research.studies.shrinking_page import fold, kinds

PARAMETERS = "LSTM parameters"
PANELS = {PARAMETERS: "LSTM parameters, times fewer", "cycles": "cycles of an iteration, times fewer"}
SPLITS = ("validation", "test")


def draw_runs(runs: Sequence[ShrunkRun], path: Path) -> None:
    """Draw scores on validation and test against parameters and cycles, both compared with the dense start.

    Cycles are left out where no network saves any, as where only weights were pruned. A colour is a kind of run, a
    marker a seed. Lines join the networks that were accepted; a hollow mark was rejected.

    Parameters
    ----------
    runs : sequence of ShrunkRun
        Of one task.
    path : Path
        Its ending says the format.

    Raises
    ------
    RunError
        If matplotlib is not installed, or knows no such format.
    """
    costs = [cost for cost in PANELS if cost == PARAMETERS or _differs(runs, cost)]
    shape = {"figsize": (1 + 4.5 * len(costs), 7), "squeeze": False, "constrained_layout": True}
    figure, panels = pyplot().subplots(2, len(costs), sharex="col", sharey="row", **shape)
    unit, tolerance = runs[0].score.unit, runs[0].settings["tolerance"]
    for line, split in zip(panels, SPLITS, strict=True):
        for axes, cost in zip(line, costs, strict=True):
            _draw_panel(axes, runs, cost, split)
        line[0].set_ylabel(f"{split}: worse than\nthe dense start, {unit}")
    for axes in panels[0]:  # networks are accepted by the validation score
        axes.axhline(tolerance * (100 if runs[0].score.relative else 1), color="0.6", linestyle=":", zorder=0)
    for axes, cost in zip(panels[1], costs, strict=True):
        axes.set_xlabel(PANELS[cost])
    title = "runs, seed\nhollow: rejected\ndotted: the limit"
    legend = {"loc": "outside right upper", "fontsize": 8, "title_fontsize": 8, "alignment": "left"}
    figure.legend(*panels[0][0].get_legend_handles_labels(), title=title, **legend)
    save_figure(figure, path)


def _differs(runs: Sequence[ShrunkRun], cost: str) -> bool:
    """Tell whether any network costs more or less than the dense start of its run."""
    return any(fold(run, one, cost) not in (None, 1) for run in runs for one in run.networks)


def _draw_panel(axes, runs: Sequence[ShrunkRun], cost: str, split: str) -> None:
    for number, (name, members) in enumerate(kinds(runs).items()):
        for run in members:
            look = {
                "color": COLOURS[number % len(COLOURS)],
                "marker": MARKERS[run.seed % len(MARKERS)],
                "markersize": 5,
            }
            accepted = _points(run, cost, split, lambda one: one.decision == ACCEPTED)
            axes.plot(*accepted, linewidth=1, label=f"{name}, {run.seed}", **look)
            rejected = _points(run, cost, split, lambda one: one.decision != ACCEPTED)
            axes.plot(*rejected, linestyle="none", markerfacecolor="none", **look)
    ticker = pyplot().matplotlib.ticker
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.axhline(0, color="0.6", linewidth=1, zorder=0)
    axes.grid(alpha=0.3)


def _points(run: ShrunkRun, cost: str, split: str, wanted: Callable[[Network], bool]) -> tuple[list, list]:
    """Give how many times smaller the wanted networks are, and how much worse, where both are known."""
    dense = getattr(run.dense, split)
    pairs = [
        (times, run.score.worse(score, dense))
        for one in run.networks
        if wanted(one)
        and (times := fold(run, one, cost)) is not None
        and (score := getattr(one, split)) is not None
    ]  # fmt: skip
    return [times for times, _ in pairs], [worse for _, worse in pairs]
