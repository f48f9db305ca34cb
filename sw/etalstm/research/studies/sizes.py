"""How what reductions leave changes with the units of a layer: studies that differ in nothing else."""

from collections.abc import Callable, Sequence
from pathlib import Path

from etalstm.errors import RunError
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.score import SCORES, score_name
from etalstm.research.studies.study import summarise
from etalstm.research.studies.written import read_command, read_study

MEASURES: dict[str, Callable[[dict], float]] = {
    "intermediates kept": lambda row: row["footprint"],
    "local gradients that are not zero": lambda row: row["local_density"],
    "δ that is not zero": lambda row: row["delta_density"],
    "x and h that are sent": lambda row: row["input_density"],
    "products left": lambda row: row["arithmetic"],
}


def read_sizes(folders: Sequence[Path]) -> dict[int, dict]:
    """Read studies, and give them by the units H of their layers, ascending.

    Parameters
    ----------
    folders : sequence of Path
        Each holds ``density.json``.

    Raises
    ------
    RunError
        If a folder holds no study, two have the same units, or settings differ besides.
    """
    found: dict[int, dict] = {}
    others: dict[int, dict] = {}
    for folder in folders:
        study = read_study(folder / "density.json")
        hidden = study["settings"]["hidden"]
        if hidden in found:
            raise RunError(f"{folder}: another of these studies has {hidden} units, too")
        found[hidden] = study
        others[hidden] = {
            name: value for name, value in study["settings"].items() if name not in ("hidden", "embedding")
        }
        first = next(iter(others.values()))
        for name in sorted(first.keys() | others[hidden].keys()):
            if first.get(name) != others[hidden].get(name):
                raise RunError(
                    f"{folder}: studies of several sizes must agree in {name}, "
                    f"got {first.get(name)} and {others[hidden].get(name)}"
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


def markdown(folders: Sequence[Path]) -> str:
    """Write the page of several studies: a table for the scores, and one for each of :data:`MEASURES`.

    Raises
    ------
    RunError
        As :func:`read_sizes`, or if a folder has no page.
    """
    studies = read_sizes(folders)
    rows, settings = rows_by_size(studies), next(iter(studies.values()))["settings"]
    score = SCORES[score_name(settings)]

    def scored(row: dict) -> str:
        return score.text(row["score"], *([row["deviation"]] if row["seeds"] > 1 else []))

    texts: dict[str, Callable[[dict], str]] = {f"test {score.heading}": scored}
    texts |= {name: _three_places(give) for name, give in MEASURES.items()}
    tables = [line for name, text in texts.items() for line in _table(name, rows, list(studies), text)]
    commands = [line for folder in folders for line in (f"    {read_command(folder / 'density.md')}", "")]
    return "\n".join(["# What reductions leave, by the units of a layer", "", EXPLANATION, "", *tables,
                      "Made with", "", *commands])  # fmt: skip


def _three_places(give: Callable[[dict], float]) -> Callable[[dict], str]:
    """Give what writes a measure of a row."""
    return lambda row: f"{give(row):.3f}"


def _table(name: str, rows: Rows, sizes: list[int], text: Callable[[dict], str]) -> list[str]:
    lines = [f"| {name} | " + " | ".join(f"H {hidden}" for hidden in sizes) + " |", "|---" * (1 + len(sizes)) + "|"]
    for reduction, by_size in rows.items():
        lines.append(f"| {reduction} | " + " | ".join(text(by_size[hidden]) for hidden in sizes) + " |")
    return [*lines, ""]


EXPLANATION = """\
The studies differ in nothing but the units H, and the size of a token's vector. Scores are means over seeds ± standard
deviation of one run. All else are means over the iterations of the last epoch; the pages of the studies say what is
counted."""
