"""The log of a run: one JSON object a line, on disk as soon as it is known; and its curves."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from etalstm.errors import RunError
from etalstm.host.drawing import COLOURS, pyplot, save_figure
from etalstm.host.durable import AppendedFile, write_whole
from etalstm.network.storage import PRODUCTS_OF_DELTA
from etalstm.train.loss import SCORES
from etalstm.train.sealed import Progress

DASHES = ("-", (0, (3, 3)), (0, (5, 2, 1, 2)), (0, (1, 3)))  # of runs over each other
SHARES = ("footprint", "multiplications", "backward_multiplications", "delta_density")


class MeanShares:
    """Averages what iterations stored and computed, as shares of a dense run's, entry by entry."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys((*SHARES, "cells_skipped", "cells", "kept", "real"), 0.0)
        self._count = 0

    def add(self, entry: dict) -> None:
        """Add an entry of kind ``iteration``, with what :meth:`etalstm.network.storage.Usage.summary` gives."""
        for name in (*SHARES, "cells_skipped", "cells"):
            self._sums[name] += entry[name]
        if entry["footprint"]:
            self._sums["kept"] += entry["footprint"]
            self._sums["real"] += entry["footprint"] / entry["real_footprint"]  # in units of an iteration's elements
        self._count += 1

    @property
    def means(self) -> dict[str, float]:
        """The means of ``SHARES``; ``real_footprint``, all words over the real elements; ``cells_skipped``, a share.

        {} if no entry was added.
        """
        if not self._count:
            return {}
        sums = self._sums
        means = {name: sums[name] / self._count for name in SHARES}
        real = sums["kept"] / sums["real"] if sums["real"] else 0.0
        return means | {"real_footprint": real, "cells_skipped": sums["cells_skipped"] / sums["cells"]}


def shares(entries: list[dict]) -> dict[str, float]:
    """Give :attr:`MeanShares.means` of entries, at least one."""
    averaged = MeanShares()
    for entry in entries:
        averaged.add(entry)
    return averaged.means


def rename_shares(values: Any) -> None:
    """Give the shares of multiplications their names, in an entry that an older version wrote."""
    for before in ("arithmetic", "backward_arithmetic"):
        if isinstance(values, dict) and isinstance(values.get(before), float):
            values[before.replace("arithmetic", "multiplications")] = values.pop(before)


def forward_multiplications(means: dict[str, float]) -> float:
    """Give the multiplications of the forward passes over those of a machine that skips none.

    That is also the nonzero share of the scalars that forward passes broadcast, see
    :attr:`etalstm.network.storage.Usage.input_density`. `means` are of an iteration, or over several.
    """
    # If no zero is skipped, each of the three matrix products has a third of the multiplications.
    return (1 + PRODUCTS_OF_DELTA) * means["multiplications"] - PRODUCTS_OF_DELTA * means["backward_multiplications"]


class MetricsLog(AppendedFile):
    """Writes ``metrics.jsonl``.

    Raises :class:`RunError` if a line is malformed, except the last one, which a crash may have cut.

    `resumed_at`: the lines up to there stay, and new ones follow. Lines that an interrupted run wrote after its last
    checkpoint are removed, as those iterations are done again. Without it the log starts empty.
    """

    def __init__(self, path: Path, resumed_at: Progress | None = None):
        entries = []
        if resumed_at is not None:
            entries = [entry for entry in read_log(path) if _precedes(entry, resumed_at)]
        write_whole(path, "".join(map(_line, entries)))
        self._shares = MeanShares()
        for entry in entries:
            self._count(entry)
        super().__init__(path, "a", "utf-8")

    def saved(self) -> dict[str, float]:
        """Average what the run's iterations stored and computed, as shares of a dense run's; {} if none was counted."""
        return self._shares.means

    def _count(self, entry: dict) -> None:
        if entry["kind"] == "iteration" and "footprint" in entry:
            self._shares.add(entry)

    def write(self, entry: dict) -> None:
        """Append one object and flush it."""
        self._count(entry)
        self.append(_line(entry))


def read_log(path: Path) -> list[dict]:
    """Read the entries of a log, [] if there is no such file.

    Raises :class:`RunError` if a line but the last is no object, or one lacks a key that its kind has, or a loss or a
    score is no number; the message names file and line.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break  # a crash cut it short
            raise RunError(f"{path}, line {number}: no JSON: {line[:40]!r}") from error
        entries.append(_checked(entry, f"{path}, line {number}"))
    return entries


def _checked(entry: object, where: str) -> dict:
    if not isinstance(entry, dict):
        raise RunError(f"{where}: must be an object, got {entry!r:.40}")
    rename_shares(entry)
    needed: dict[str, type | tuple[type, ...]] = {"iteration": int, "epoch": int}
    if entry.get("kind") == "iteration" and "footprint" in entry:
        needed |= dict.fromkeys((*SHARES, "real_footprint", "cells_skipped", "cells"), (int, float))
    if entry.get("kind") in ("iteration", "epoch", "test"):
        needed["loss"] = (int, float)
    needed |= {name: (int, float) for name in SCORES if name in entry}
    for name, kind in needed.items():
        if not isinstance(entry.get(name), kind):
            raise RunError(f"{where}: {name} must be a number, got {entry.get(name)!r:.40}")
    if not isinstance(entry.get("kind"), str):
        raise RunError(f"{where}: kind must be a text, got {entry.get('kind')!r:.40}")
    return entry


def _precedes(entry: dict, position: Progress) -> bool:
    """Tell whether a run at `position` has written this entry and will not write it again."""
    if entry["kind"] == "epoch":
        # The line is written before the checkpoint. After a crash between the two the epoch ends once more.
        return entry["epoch"] <= position.epoch
    return entry["kind"] in ("iteration", "resumed", "interrupted") and entry["iteration"] <= position.iteration


def _line(entry: dict) -> str:
    return json.dumps(entry) + "\n"


def panels_of(runs: Sequence[tuple[str, list[dict]]]) -> list[str]:
    """Name the panels of a figure: the loss, and each score that any of the runs has."""
    return ["loss", *(name for name in SCORES if any(name in entry for _, entries in runs for entry in entries))]


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """Give exponential means: the first is the first value; in each later one the mean before has weight `weight`."""
    means: list[float] = []
    for value in values:
        means.append(value if not means else weight * means[-1] + (1 - weight) * value)
    return means


Curves = dict[tuple[str, str], list[tuple[int, float]]]  # by panel and kind of entry: iterations and values


def curves_of(entries: Sequence[dict], names: Sequence[str], smoothing: float) -> Curves:
    """Give what panels show of a run: ``iteration``, smoothed as by :func:`smoothed`, ``epoch`` and ``test``."""
    found: Curves = {}
    for name, kind in product(names, ("iteration", "epoch", "test")):
        mine = [entry for entry in entries if entry["kind"] == kind and name in entry]
        values = smoothed([entry[name] for entry in mine], smoothing if kind == "iteration" else 0)
        found[name, kind] = [(entry["iteration"], value) for entry, value in zip(mine, values, strict=True)]
    return found


def labels_of(runs: Sequence[tuple[str, Curves]]) -> list[str]:
    """Give a legend's text for each run. It names the first run with equal curves, where that is an earlier one."""
    first = [next(number for number, (_, other) in enumerate(runs) if other == curves) for _, curves in runs]
    same = [f", identical to {runs[at][0]}" if at < number else "" for number, at in enumerate(first)]
    return [run + text for (run, _), text in zip(runs, same, strict=True)]


def draw_runs(runs: Sequence[tuple[str, list[dict]]], path: Path, smoothing: float) -> None:
    """Draw loss and scores by iteration: training as a line, validation as points, the test as a star.

    Each run is a name and the entries of its log. A later run has dashes and rings, within which an earlier one is
    seen. The path's ending says the format, `smoothing` is as in :func:`smoothed`. Raises :class:`RunError` if
    matplotlib is not installed, or knows no such format.
    """
    names = panels_of(runs)
    shape = {"figsize": (6 * len(names), 4.5), "squeeze": False, "constrained_layout": True}
    figure, (panels,) = pyplot().subplots(1, len(names), **shape)
    shown = [(run, curves_of(entries, names, smoothing)) for run, entries in runs]
    for axes, name in zip(panels, names, strict=True):
        for number, ((_, curves), label) in enumerate(zip(shown, labels_of(shown), strict=True)):
            _draw_run(axes, number, [curves[name, kind] for kind in ("iteration", "epoch", "test")], label)
        axes.set(xlabel="iteration", ylabel=name)
        axes.grid(alpha=0.3)
    for style, label in (("-", "training, smoothed" if smoothing else "training"), ("o", "validation"), ("*", "test")):
        panels[0].plot([], [], style, color="0.4", label=label)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=2)
    save_figure(figure, path)


def _draw_run(axes: Any, number: int, curves: Sequence[list[tuple[int, float]]], label: str) -> None:
    later = number % len(DASHES)
    look = {"color": COLOURS[(4 + number) % len(COLOURS)], "fillstyle": "none" if later else "full"}
    training, *points = (list(zip(*curve, strict=True)) for curve in curves)
    axes.plot(*training, linestyle=DASHES[later], label=label, **look)
    for (marker, size), values in zip((("o", 5), ("*", 10)), points, strict=True):
        axes.plot(*values, linestyle="none", marker=marker, markersize=size + 4 * later, **look)
