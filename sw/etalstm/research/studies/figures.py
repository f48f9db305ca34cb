"""The figures of studies: scores against what a run keeps and computes, and what it keeps against a layer's units."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from etalstm.host.drawing import label_beside, log_ticks, look_of, pyplot, save_figure
from etalstm.network.storage import DENSE
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.several import MEASURES, Rows
from etalstm.research.studies.study import summarise
from etalstm.research.studies.subject import Score

PANELS = {
    "footprint": "intermediates kept, of five dense tensors",
    "multiplications": "multiplications left, of all products",
    "delta_density": "nonzero share of δ",
}
GROUPS = (DENSE, "MS1", "MS1, MS2", "δ pruned", "delta inputs", "δ pruned, delta inputs", "MS2")  # a colour each
WIDTH, HEIGHT, TEXT = 9.0, 2.6, 8  # a panel in inches, its text in points
LETTER = 0.55 * TEXT / 72 / WIDTH  # width of a letter, of that of a panel
NOTE = (
    "Bars: standard error of the difference from dense runs with the same seeds. Hollow: a single seed.\n"
    "Named: dense runs, and runs on the Pareto front. δ pruned, delta inputs: with or without MS1 and MS2."
)


def group_of(reduction: Reduction) -> str:
    """Give the one of :data:`GROUPS` that a run is drawn with."""
    pruned, sends = reduction.delta_target is not None, reduction.input_threshold != Reduction(DENSE).input_threshold
    skips = reduction.ms2 is not None or reduction.ms2_steps is not None
    means = {"δ pruned": pruned, "delta inputs": sends}
    means = means if any(means.values()) else {"MS1": reduction.storage != DENSE, "MS2": skips}
    return ", ".join(name for name, used in means.items() if used) or DENSE


def draw_study(study: dict, path: Path, score: Score) -> None:
    """Draw the score against footprint, multiplications and density, on logarithmic axes, into an SVG or PNG file.

    A colour is a group of runs. A line joins the Pareto front, whose runs are named beside it.
    """
    rows = [
        row | {"error": error, "group": GROUPS.index(group_of(Reduction.of_run(row)))}
        for row, error in zip(summarise(study), standard_errors(study), strict=True)
    ]
    rows.sort(key=lambda row: row["group"])  # the legend's order
    size = WIDTH, HEIGHT * len(PANELS) + 1
    figure, panels = pyplot().subplots(len(PANELS), 1, figsize=size, constrained_layout=True)
    for axes, (cost, label) in zip(panels, PANELS.items(), strict=True):
        _draw_panel(axes, rows, cost, lower=score.lower)
        axes.set(xlabel=label, ylabel=textwrap.fill(score.label, 22))
    handles = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))  # one for each label
    legend = {"loc": "outside lower center", "fontsize": TEXT, "title_fontsize": TEXT, "frameon": False, "ncols": 5}
    figure.legend(handles.values(), handles.keys(), title=NOTE, **legend)
    save_figure(figure, path)


def _draw_panel(axes, rows: list[dict], cost: str, lower: bool) -> None:
    """Draw the scores against one cost; with `lower` a lower score is the better one."""
    for row in rows:
        look = look_of(row["group"]) | {"linestyle": "none", "capsize": 2, "elinewidth": 0.8, "markersize": 5}
        look |= {} if row["seeds"] > 1 else {"markerfacecolor": "none"}
        axes.errorbar(row[cost], row["score"], row["error"], label=GROUPS[row["group"]], **look)
    best = front([(row[cost], row["score"]) for row in rows], lower)
    most = max([1, *(row[cost] for row in rows)])
    ends = zip(*best, (1.4 * most, best[-1][1]), strict=True)
    axes.step(*ends, where="post", color="0.4", linewidth=1.2, zorder=1, label="Pareto front")
    names = {(row[cost], row["score"]): row["name"] for row in reversed(rows)}
    named = [(*point, names[point]) for point in best if names[point] != DENSE]
    column = LETTER * max((len(name) for *_, name in named), default=0) + 0.02  # names end there, the rest begins
    least = min([0.45, *(row[cost] for row in rows if row[cost])]) / 1.1
    axes.set(xscale="log", xlim=(least, most))
    log_ticks(axes.xaxis)
    axes.set_xlim(1.4 * most * (least / 1.4 / most) ** (1 / (1 - column)), 1.4 * most)
    for point in (point for point, name in names.items() if name == DENSE):
        line = {"color": "0.6", "linewidth": 1, "linestyle": "--", "zorder": 0, "label": "mean of dense runs"}
        axes.axhline(point[1], xmin=column + 0.02, **line)
        axes.annotate(DENSE, point, xytext=(5, 2), textcoords="offset points", va="bottom", fontsize=TEXT)
    label_beside(axes, named, column, gap=TEXT * 1.25 / 72 / (HEIGHT - 0.6), fontsize=TEXT)
    axes.grid(alpha=0.3)


def draw_sizes(rows: Rows, path: Path) -> None:
    """Draw each of :data:`MEASURES` against the units of a layer, a line for each reduction."""
    figure, panels = pyplot().subplots(1, len(MEASURES), figsize=(14, 4), sharey=True, constrained_layout=True)
    for axes, (label, key) in zip(panels, MEASURES.items(), strict=True):
        for number, (reduction, by_size) in enumerate(rows.items()):
            values = [row[key] for row in by_size.values()]
            axes.plot(list(by_size), values, label=str(reduction), **look_of(number))
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(next(iter(rows.values()))), labels=list(next(iter(rows.values()))))
        axes.set(ylim=(0, 1.05), xlabel="units of a layer, H")
        axes.set_title(label, fontsize=9)
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=4)
    save_figure(figure, path)


def standard_errors(study: dict) -> list[float | None]:
    """Give the standard error for each row of :func:`summarise`; None of a single run.

    It is that of the mean difference from the dense runs with the same seeds, if there are at least two of these, else
    that of the mean score.
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
    """Give the Pareto front of points (cost, score), by rising cost: no cheaper point has a better score.

    With `lower` a lower score is the better one.
    """
    found: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], point[1] if lower else -point[1])):
        if not found or (score < found[-1][1] if lower else score > found[-1][1]):
            found.append((cost, score))
    return found
