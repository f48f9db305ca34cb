"""The log of a run: one JSON object a line, on disk as soon as it is known."""

import json
import os
from pathlib import Path

SHARES = ("footprint", "arithmetic", "backward_arithmetic", "delta_density")


def shares(entries: list[dict]) -> dict[str, float]:
    """Average what iterations kept and computed, as shares of a dense run's.

    Parameters
    ----------
    entries : list of dict
        Of kind ``iteration``, at least one, with what :meth:`etalstm.storage.Usage.summary` gives.

    Returns
    -------
    dict
        The means of ``SHARES``; ``real_footprint``, all words over all that is real; ``cells_skipped``, a share.
    """
    means = {name: sum(entry[name] for entry in entries) / len(entries) for name in SHARES}
    kept = [entry for entry in entries if entry["footprint"]]
    real = sum(entry["footprint"] / entry["real_footprint"] for entry in kept)  # in units of an iteration's elements
    means["real_footprint"] = sum(entry["footprint"] for entry in kept) / real if kept else 0.0
    skipped, cells = (sum(entry[name] for entry in entries) for name in ("cells_skipped", "cells"))
    return means | {"cells_skipped": skipped / cells}


class MetricsLog:
    """Writes ``metrics.jsonl``. Usable as a context manager that closes it.

    Parameters
    ----------
    path : Path
    resumed_at : int, optional
        Keep the lines up to this iteration and go on after them: what an interrupted run logged after its last
        checkpoint happens again. Without it the log starts empty.
    """

    def __init__(self, path: Path, resumed_at: int | None = None):
        self._path = path
        kept = [] if resumed_at is None else self._lines_until(path, resumed_at)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text("".join(kept), encoding="utf-8")
        os.replace(temporary, path)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  held open for the whole run

    @staticmethod
    def _lines_until(path: Path, iteration: int) -> list[str]:
        kept = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
                try:
                    entry = json.loads(line)
                    if entry["kind"] == "test" or entry["iteration"] > iteration:
                        continue
                except (ValueError, KeyError, TypeError):
                    continue  # a line that a crash cut short
                kept.append(line)
        return kept

    def saved(self) -> dict[str, float]:
        """Average what the run's iterations kept and computed, as shares of a dense run's; {} if none was counted."""
        self._file.flush()
        entries = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
        counted = [entry for entry in entries if entry["kind"] == "iteration" and "footprint" in entry]
        return shares(counted) if counted else {}

    def write(self, entry: dict) -> None:
        """Append one object and flush it."""
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *_) -> None:
        self.close()
