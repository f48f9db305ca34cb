"""The log of a run: one JSON object a line, on disk as soon as it is known."""

import json
import os
from pathlib import Path

REDUCTIONS = ("footprint", "real_footprint", "arithmetic", "backward_arithmetic", "delta_density")


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
        if not counted:
            return {}
        shares = {name: sum(entry[name] for entry in counted) / len(counted) for name in REDUCTIONS}
        skipped, cells = (sum(entry[name] for entry in counted) for name in ("cells_skipped", "cells"))
        return shares | {"cells_skipped": skipped / cells}

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
