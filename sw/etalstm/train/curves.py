"""Draws the curves of runs over each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etalstm.host.drawing import pyplot, save_figure
from etalstm.train.loss import SCORES


def panels_of(runs: Sequence[tuple[str, list[dict]]]) -> list[str]:
    """Give what is drawn: the loss, and those scores that any of the runs has."""
    return ["loss", *(name for name in SCORES if any(name in entry for _, entries in runs for entry in entries))]


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """Give exponential means; the first value begins, and `weight` is that of all before."""
    found: list[float] = []
    for value in values:
        found.append(value if not found else weight * found[-1] + (1 - weight) * value)
    return found


def draw_runs(runs: Sequence[tuple[str, list[dict]]], path: Path, smoothing: float) -> None:
    """Draw loss and scores by iteration: training as a line, validation as points, the test as a star.

    Parameters
    ----------
    runs : sequence of (name, entries of the log)
    path : Path
        Its ending says the format.
    smoothing : float
        See :func:`smoothed`.

    Raises
    ------
    RunError
        If matplotlib is not installed, or knows no such format.
    """
    names = panels_of(runs)
    figure, (panels,) = pyplot().subplots(
        1, len(names), figsize=(6 * len(names), 4), squeeze=False, constrained_layout=True
    )
    for axes, name in zip(panels, names, strict=True):
        for number, (run, entries) in enumerate(runs):
            _draw_run(axes, name, run, entries, f"C{number}", smoothing)
        axes.set_xlabel("iteration")
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
    panels[0].legend()
    save_figure(figure, path)


def _draw_run(axes: Any, name: str, run: str, entries: list[dict], colour: str, smoothing: float) -> None:
    for kind, style, label in (("iteration", "-", run), ("epoch", "o", None), ("test", "*", None)):
        mine = [entry for entry in entries if entry["kind"] == kind and name in entry]
        values = [entry[name] for entry in mine]
        values = smoothed(values, smoothing) if kind == "iteration" else values
        axes.plot([entry["iteration"] for entry in mine], values, style, color=colour, label=label)
