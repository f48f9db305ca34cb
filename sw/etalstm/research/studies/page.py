"""The page of a study: the command that makes it, the table, the meaning of its columns; and the figures."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from etalstm.host.drawing import look_of, pyplot, save_figure
from etalstm.network.storage import DENSE
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.several import MEASURES, Rows, score_of_row, table_of
from etalstm.research.studies.study import summarise
from etalstm.research.studies.subject import SCORES, Score, Subject
from etalstm.train.significance import MEASURE_EVERY

PAGE_WIDTH = 120
OPTIONS = {"learning_rate": "lr"}  # what the command line calls a setting differently


def command_of(subject: Subject, study: dict, seeds: int) -> str:
    """Give the one command that makes a study, even if several made it; folders are called DIR."""
    settings = study["settings"]
    defaults = subject.defaults(settings)
    chosen = {n: value for n, value in settings.items() if n in subject.sizes or value != defaults[n]}
    chosen = {name: settings[name] for name in subject.named if settings.get(name)} | chosen | {"seeds": seeds}
    runs = ",".join(Reduction.of_run(row).text for row in summarise(study))
    options = "".join(f" {_option(name, value)}" for name, value in chosen.items())
    return f"eta-lstm {subject.command}{options} --runs {runs}{subject.data_option(settings)} --out DIR"


def _option(name: str, value) -> str:
    option = f"--{OPTIONS.get(name, name).replace('_', '-')}"
    return option if value is True else f"{option} {value}"


def markdown(subject: Subject, study: dict, seeds: int) -> str:
    """Write a study's page: the command, the table, the meaning of its columns, and the code that trained."""
    settings, rows = study["settings"], summarise(study)
    score, others = subject.score(settings), list(rows[0]["others"])
    columns = ["run", "seeds", score.heading, *(SCORES[name].heading for name in others), "validation", "footprint",
               "of real cells", "whole run", "P kept", "i f g o s r", "x, h sent", "δ nonzero", "backward products",
               "all products", "cells skipped"]  # fmt: skip
    lines = []
    for row in rows:
        scores = [score_of_row(score, row), *(SCORES[name].text(row["others"][name]) for name in others)]
        scores += ["" if row["validation"] is None else score.text(row["validation"])]
        lines.append([row["name"], _ranges(row["seed_numbers"]), *scores, *_costs(row)])
    head = [f"# What reductions cost on {subject.title(settings)}", "", "Made with", ""]
    command = f"    {command_of(subject, study, seeds)}"
    return "\n".join([*head, command, "", *table_of(columns, lines), "", EXPLANATION, "", _commits(study["runs"]), ""])


def _ranges(numbers: list[int]) -> str:
    """Write ascending numbers: ``0 to 2, 4``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _commits(runs: list[dict]) -> str:
    """Say which code trained a study's runs."""
    seeds: dict[str | None, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.get("commit"), set()).add(run["seed"])
    noted = "; ".join(f"{code}, seeds {_ranges(sorted(seeds[code]))}" for code in seeds if code)
    unknown = sum(run.get("commit") is None for run in runs)
    texts = [f"**Code**: commits that runs were trained with, or came with: {noted}."] if noted else []
    texts += [f"Runs without a commit: {unknown}."] if unknown else []
    return textwrap.fill(" ".join(texts), PAGE_WIDTH)


def _costs(row: dict) -> list[str]:
    kinds = row["densities"].values()
    kept = [row["footprint"], row["real_footprint"], row["saved"]["footprint"]]
    shares = [row[name] for name in ("input_density", "delta_density", "backward_multiplications", "multiplications")]
    return [
        *(f"{value:.3f}" for value in kept),
        f"{row['local_density']:.2f}",
        " ".join(f"{kind:.2f}".lstrip("0") or "0" for kind in kinds),
        *(f"{value:.3f}" for value in shares),
        f"{row['cells_skipped']:.2f}",
    ]


EXPLANATION = f"""\
Test score at the end of training, mean over seeds ± standard deviation of one run; **validation**: the same score on
the validation split, by which θ and τ are to be chosen. All else are means over the iterations of the last epoch, but
for *whole run*. **footprint**: words that cells keep for their backward pass (masks included, every block's odd bf16
half word counted whole) over five dense float32 tensors i, f, g, o, c; **of real cells**: the same words over those
tensors without the padding of short sequences; **whole run**: the footprint over all iterations, the full ones before
and between skipping included; the largest moment is that of a full one. **P kept**: nonzero share of the six local
gradients in cells that are not skipped. **x, h sent**: nonzero share of what the forward pass broadcasts; a run with Θ
in its name has delta inputs. **δ nonzero**: of all cells, skipped ones counted as zeros; a run with δ in its name
prunes to that share. **products**: multiplications in the matrix products that are left once zero broadcast factors are
skipped, padding not counted on either side. Full iterations (one in {MEASURE_EVERY}) are part of these means."""


PANELS = {
    "footprint": "intermediates kept,\nof five dense tensors",
    "multiplications": "multiplications left,\nof all products",
    "delta_density": "nonzero share of δ\n",
}
LEGEND = (
    "runs (seeds); hollow: a single one\nbars: standard error of the difference\nfrom dense runs with the same seeds"
)


def draw(study: dict, path: Path, score: Score) -> None:
    """Draw the score against footprint, arithmetic and density, into an SVG or PNG file.

    A line shows the score of the dense runs, a dotted one the best score for what is kept or computed. A hollow mark is
    a single run.
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
    for axes, (label, key) in zip(panels, MEASURES.items(), strict=True):
        for number, (reduction, by_size) in enumerate(rows.items()):
            values = [row[key] for row in by_size.values()]
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
