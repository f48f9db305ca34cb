"""The page of a study: the command that makes it, the table, and what its columns mean."""

import textwrap

from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.score import SCORES
from etalstm.research.studies.study import summarise
from etalstm.research.studies.subject import Subject
from etalstm.train.significance import MEASURE_EVERY

PAGE_WIDTH = 120
OPTIONS = {"learning_rate": "lr"}  # what the command line calls a setting differently


def command_of(subject: Subject, study: dict, seeds: int) -> str:
    """Give the command that makes a study, whatever made it in several steps; folders are named, not shown."""
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
    """Write a study as a page: what was trained, the table, and what its columns mean."""
    settings, rows = study["settings"], summarise(study)
    score, others = subject.score(settings), list(rows[0]["others"])
    columns = ["run", "seeds", score.heading, *(SCORES[name].heading for name in others), "validation", "footprint",
               "of real cells", "whole run", "P kept", "i f g o s r", "x, h sent", "δ nonzero", "backward products",
               "all products", "cells skipped"]  # fmt: skip
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        scores = [score.text(row["score"], *([row["deviation"]] if row["seeds"] > 1 else []))]
        scores += [SCORES[name].text(row["others"][name]) for name in others]
        scores += ["" if row["validation"] is None else score.text(row["validation"])]
        lines.append("| " + " | ".join([row["name"], _ranges(row["seed_numbers"]), *scores, *_costs(row)]) + " |")
    head = [f"# What reductions cost on {subject.title(settings)}", "", "Made with", ""]
    command = f"    {command_of(subject, study, seeds)}"
    return "\n".join([*head, command, "", *lines, "", EXPLANATION, "", _commits(study["runs"]), ""])


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
    shares = [row[name] for name in ("input_density", "delta_density", "backward_arithmetic", "arithmetic")]
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
