"""The page of a study: the command that makes it, the figure, the table, and the meaning of its columns."""

import textwrap
from pathlib import Path
from string import Template

from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.several import score_of_row, table_of
from etalstm.research.studies.study import summarise
from etalstm.research.studies.subject import SCORES, Subject
from etalstm.train.significance import MEASURE_EVERY

_PAGE = Template(Path(__file__).with_name("density.md").read_text(encoding="utf-8"))
ALT = "Scores against what is kept and computed, with their Pareto fronts"
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


def markdown(subject: Subject, study: dict, seeds: int, picture: str = "") -> str:
    """Write a study's page: the command, the figure if there is one, the table, and the code that trained."""
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
    figure = f"![{ALT}]({picture})\n\n" if picture else ""
    return _PAGE.substitute(
        title=subject.title(settings), command=command_of(subject, study, seeds), figure=figure,
        table="\n".join(table_of(columns, lines)), code=_commits(study["runs"]), measure_every=MEASURE_EVERY,
    )  # fmt: skip


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
