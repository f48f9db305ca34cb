"""Results of several studies: the page of studies that differ in the units of a layer, and ``densities.json``.

For that file the strongest reductions that cost no accuracy are chosen of each study.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from string import Template

from etalstm.errors import RunError
from etalstm.network.arithmetic import INT8
from etalstm.network.execution import FLOAT32
from etalstm.network.storage import DENSE
from etalstm.research.studies.reduction import SHARES, Reduction
from etalstm.research.studies.study import read_command, read_study, summarise
from etalstm.research.studies.subject import SCORES, Score, score_name

STUDIES = {"trec10": "trec", "ptb": "ptb_2epochs", "imdb": "imdb", "waymo": "ethucy", "wmt": "multi30k", "babi": "babi"}
"""Folder of the study that stands for each benchmark."""

ASSUMED = "trec"  # the study of a benchmark that has none
DECIMALS = 3
DENSE_RUN = Reduction(DENSE)

INTEGERS = INT8.name

Row = dict


def _only_ms(row: Row) -> bool:
    """Tell whether a run drops small local gradients, may skip cells, and has no other reduction."""
    return _plain(row) and row["delta_target"] is None and row["input_threshold"] == "0"


def _plain(row: Row) -> bool:
    """Tell whether a run computes in float32, and is as :func:`_compressed` says."""
    return _compressed(row) and row["arithmetic"] == FLOAT32


def _compressed(row: Row) -> bool:
    """Tell whether a run keeps compressed streams, has no narrow weights, and leaves out no part of MS2.

    Besides, it may prune δ, send changes of x and h only, and skip cells.
    """
    return (
        row["storage"] != DENSE
        and row["weight_format"] == FLOAT32
        and row["ms2_steps"] is None
        and not row["ms2_without"]
    )


Uses = dict[str, tuple[Callable[[Row], bool], str, tuple[str, ...]]]
"""For each use: whether a run serves it, the cost that the strongest run has least of, and the shares that count."""

USES: Uses = {
    "eta": (_plain, "multiplications", SHARES),
    "ms1": (lambda row: _only_ms(row) and row["ms2"] is None, "footprint", ("delta", "local")),
    "ms2": (lambda row: _only_ms(row) and row["ms2"] is not None, "footprint", ("delta", "local", "cells_skipped")),
}
OF_INTEGERS: Uses = {
    "eta": (
        lambda row: _compressed(row) and row["arithmetic"] == INTEGERS and row["delta_digits"] is not None,
        "multiplications",
        (*SHARES, "digits"),
    ),
}


def choose(folder: Path, name: str, uses: Uses = USES) -> dict:
    """Choose from the study in a folder.

    A run may be chosen if its mean validation score is at most the score's tolerance worse than that of the dense runs.
    Of those, the one is taken that costs least.

    `folder`: holds ``density.json`` and ``density.md``, as ``eta-lstm research study`` leaves them. `name`: the
    folder's name in the result. Gives a dict: the study's file, command and units, its score's name, the tolerance,
    and for each of ``dense`` and `uses`: the run, its seeds, scores on both splits, and its shares. None for a
    use without a run within the tolerance. Raises :class:`RunError` if a file is not that of a study, or
    there are no dense runs, or a run has no validation score.
    """
    study = read_study(folder / "density.json")
    rows, score = summarise(study), SCORES[score_name(study["settings"])]
    dense = next((row for row in rows if Reduction.of_run(row) == DENSE_RUN), None)
    if dense is None or any(row["validation"] is None for row in rows):
        raise RunError(f"{folder}: a study to choose from has dense runs, and validation scores of all runs")
    chosen = {
        "study": f"{name}/density.json",
        "command": read_command(folder / "density.md"),
        "hidden": study["settings"]["hidden"],
        "score": score.label,
        "tolerance": score.tolerance_text,
        "dense": _described(dense, study, ("delta", "local")),
    }
    within = [row for row in rows if score.loss(row["validation"], dense["validation"]) <= score.tolerance]
    for use, (meant, cost, shares) in uses.items():
        strongest = min(filter(meant, within), key=itemgetter(cost), default=None)
        chosen[use] = strongest and _described(strongest, study, shares)
    return chosen


def _described(row: Row, study: dict, shares: tuple[str, ...]) -> dict:
    reduction = Reduction.of_run(row)
    seeds = [run["seed"] for run in study["runs"] if Reduction.of_run(run) == reduction]
    skips_zeros = row["input_threshold"] != "0" or row["arithmetic"] == INTEGERS  # else the machine sends zeros, too
    found = {
        "delta": row["delta_density"],
        "digits": row["delta_digits"],
        "local": row["local_density"],
        "inputs": row["input_density"] if skips_zeros else 1.0,
        "cells_skipped": row["cells_skipped"],
    }
    scores = {name: round(row[name], DECIMALS + 1) for name in ("score", "validation")}
    return {"run": reduction.text, "seeds": seeds} | scores | {name: round(found[name], DECIMALS) for name in shares}


def choose_all(folder: Path, name: str, uses: Uses = USES) -> dict:
    """Choose from all studies of :data:`STUDIES` that a folder has; give the content of ``densities.json``."""
    found = {benchmark: study for benchmark, study in STUDIES.items() if (folder / study / "density.json").exists()}
    if ASSUMED not in found.values():
        raise RunError(f"{folder}: there must be a study {ASSUMED}, which stands for what has none")
    sets = {study: choose(folder / study, f"{name}/{study}", uses) for study in found.values()}
    return {"sets": sets, "benchmarks": found, "assumed": ASSUMED}


MEASURES = {
    "intermediates kept": "footprint",
    "local gradients that are not zero": "local_density",
    "δ that is not zero": "delta_density",
    "x and h that are sent": "input_density",
    "products left": "multiplications",
}
"""Titles of tables and panels, and the names of their values in :func:`etalstm.research.studies.study.summarise`."""


def read_sizes(folders: Sequence[Path]) -> dict[int, dict]:
    """Read the studies in folders, and give them by the units H of their layers, ascending.

    Raises :class:`RunError` if a folder holds no study, two have the same units, or settings differ besides.
    """
    found: dict[int, dict] = {}
    for folder in folders:
        study = read_study(folder / "density.json")
        settings = study["settings"]
        if settings["hidden"] in found:
            raise RunError(f"{folder}: another of these studies has {settings['hidden']} units, too")
        found[settings["hidden"]] = study
        first = next(iter(found.values()))["settings"]
        for name in sorted((first.keys() | settings.keys()) - {"hidden", "embedding"}):
            if first.get(name) != settings.get(name):
                raise RunError(
                    f"{folder}: studies of several sizes must agree in {name}, "
                    f"got {first.get(name)} and {settings.get(name)}"
                )
    return dict(sorted(found.items()))


Rows = dict[Reduction, dict[int, dict]]
"""Of each reduction, by the units of a layer, what :func:`etalstm.research.studies.study.summarise` gives."""


def rows_by_size(studies: dict[int, dict]) -> Rows:
    """Give the rows of each reduction that all studies have."""
    by_size = {hidden: {Reduction.of_run(row): row for row in summarise(study)} for hidden, study in studies.items()}
    first = next(iter(by_size.values()))
    common = [one for one in first if all(one in rows for rows in by_size.values())]
    return {one: {hidden: rows[one] for hidden, rows in by_size.items()} for one in common}


_PAGE = Template(Path(__file__).with_name("sizes.md").read_text(encoding="utf-8"))


def markdown(folders: Sequence[Path]) -> str:
    """Write the page of several studies: a table for the scores, and one for each of :data:`MEASURES`.

    Raises as :func:`read_sizes`, and :class:`RunError` if a folder has no page.
    """
    studies = read_sizes(folders)
    rows, settings = rows_by_size(studies), next(iter(studies.values()))["settings"]
    score = SCORES[score_name(settings)]
    texts: dict[str, Callable[[dict], str]] = {f"test {score.heading}": partial(score_of_row, score)}
    texts |= {name: partial(_three_places, key) for name, key in MEASURES.items()}
    tables = "\n".join(line for name, text in texts.items() for line in (*_table(name, rows, list(studies), text), ""))
    commands = "\n\n".join(f"    {read_command(folder / 'density.md')}" for folder in folders)
    return _PAGE.substitute(tables=tables, commands=commands)


def score_of_row(score: Score, row: dict) -> str:
    """Write the mean score of a row, and its deviation where there are several seeds."""
    return score.text(row["score"], *([row["deviation"]] if row["seeds"] > 1 else []))


def _three_places(name: str, row: dict) -> str:
    return f"{row[name]:.3f}"


def _table(name: str, rows: Rows, sizes: list[int], text: Callable[[dict], str]) -> list[str]:
    lines = [[str(one), *(text(by_size[hidden]) for hidden in sizes)] for one, by_size in rows.items()]
    return table_of([name, *(f"H {hidden}" for hidden in sizes)], lines)


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table of Markdown, line by line."""
    head, *body = [f"| {' | '.join(row)} |" for row in (columns, *rows)]
    return [head, "|---" * len(columns) + "|", *body]
