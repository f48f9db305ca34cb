"""Draws a study."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from etalstm.host.drawing import look_of, pyplot, save_figure
from etalstm.network.storage import DENSE
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.score import Score
from etalstm.research.studies.sizes import MEASURES, Rows
from etalstm.research.studies.study import summarise

PANELS = {
    "footprint": "intermediates kept,\nof five dense tensors",
    "arithmetic": "multiplications left,\nof all products",
    "delta_density": "nonzero share of δ\n",
}
LEGEND = (
    "runs (seeds); hollow: a single one\nbars: standard error of the difference\nfrom dense runs with the same seeds"
)


def draw(study: dict, path: Path, score: Score) -> None:
    """Draw the score against footprint, arithmetic and density, into an SVG or PNG file.

    A line shows the score of the dense runs, a dotted one the best score for what is kept or computed. A hollow mark is
    a single run.

    Parameters
    ----------
    study : dict
    path : Path
    score : Score
        What the runs were judged by.
    """
    rows = [row | {"error": error} for row, error in zip(summarise(study), standard_errors(study), strict=True)]
    height = max(4, 0.18 * (len(rows) + 6))  # inches: all of the legend's lines
    figure, panels = pyplot().subplots(1, len(PANELS), figsize=(11, height), sharey=True, constrained_layout=True)
    for axes, (cost, label) in zip(panels, PANELS.items(), strict=True):
        _draw_panel(axes, rows, cost, lower=score.lower)
        axes.set_xlabel(label)
    panels[0].set_ylabel(score.label)
    legend = {"loc": "outside right upper", "fontsize": 8, "title_fontsize": 8, "alignment": "left"}
    figure.legend(*panels[0].get_legend_handles_labels(), title=LEGEND, **legend)
    save_figure(figure, path)


def draw_sizes(rows: Rows, path: Path) -> None:
    """Draw each of :data:`MEASURES` against the units of a layer, a line for each reduction."""
    figure, panels = pyplot().subplots(1, len(MEASURES), figsize=(14, 4), sharey=True, constrained_layout=True)
    for axes, (label, give) in zip(panels, MEASURES.items(), strict=True):
        for number, (reduction, by_size) in enumerate(rows.items()):
            values = [give(row) for row in by_size.values()]
            axes.plot(list(by_size), values, label=str(reduction), **look_of(number))
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(next(iter(rows.values()))), labels=list(next(iter(rows.values()))))
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("units of a layer, H")
        axes.set_title(label, fontsize=9)
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=4)
    save_figure(figure, path)


def _draw_panel(axes, rows: list[dict], cost: str, lower: bool) -> None:
    """Draw the scores against one cost; with `lower` a lower score is the better one."""
    for number, row in enumerate(rows):
        look = look_of(number) | {"linestyle": "none", "capsize": 3}
        look |= {} if row["seeds"] > 1 else {"markerfacecolor": "none"}
        axes.errorbar(row[cost], row["score"], row["error"], label=f"{row['name']} ({row['seeds']})", **look)
    best = zip(*front([(row[cost], row["score"]) for row in rows], lower), strict=True)
    axes.step(*best, where="post", color="0.6", linestyle=":", zorder=0, label="the best for what it costs")
    for row in rows:
        if row["name"] == DENSE:
            axes.axhline(row["score"], color="0.6", linewidth=1, zorder=0, label="the score of dense runs")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)


def standard_errors(study: dict) -> list[float | None]:
    """Give how sure the scores are, for each row of :func:`summarise`; None of a single run.

    It is the standard error of the mean difference from the dense runs with the same seeds, where there are two or more
    of these, else that of the mean score.
    """
    scores: dict[Reduction, dict[int, float]] = {}
    for run in study["runs"]:
        scores.setdefault(Reduction.of_run(run), {})[run["seed"]] = run["score"]
    dense, errors = scores.get(Reduction(DENSE), {}), []
    for reduction, found in scores.items():
        pairs = [score - dense[seed] for seed, score in found.items() if seed in dense]
        values = pairs if len(pairs) > 1 and reduction != Reduction(DENSE) else list(found.values())
        errors.append(float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None)
    return errors


def front(points: Sequence[tuple[float, float]], lower: bool) -> list[tuple[float, float]]:
    """Give the points (cost, score) than which none of less cost has a better score, by rising cost.

    With `lower` a lower score is the better one.
    """
    found: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], point[1] if lower else -point[1])):
        if not found or (score < found[-1][1] if lower else score > found[-1][1]):
            found.append((cost, score))
    return found
