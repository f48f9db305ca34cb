"""Which process is which rank: written by rank 0, read by :mod:`etalstm.train.launch`, which started mpiexec."""

import json
import os
import platform
from pathlib import Path
from typing import NamedTuple

VARIABLE = "ETA_LSTM_ROSTER"
"""Environment variable with the path of a file."""


class Process(NamedTuple):
    """Where a rank runs."""

    host: str
    pid: int


def this_process() -> Process:
    """Give where this rank runs."""
    return Process(platform.node(), os.getpid())


def write_roster(ranks: list[Process]) -> None:
    """Write where each rank runs, if somebody wants to know."""
    if VARIABLE in os.environ:
        Path(os.environ[VARIABLE]).write_text(json.dumps(ranks), encoding="utf-8")


def read_roster(path: Path) -> list[Process]:
    """Read where each rank runs; [] if no rank has come so far."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [Process(*entry) for entry in json.loads(text or "[]")]
