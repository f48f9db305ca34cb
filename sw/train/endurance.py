"""A long training run that is killed again and again, beside one that is left alone."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from etalstm.errors import RunError
from etalstm.network import check_size
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log

POLL_SECONDS = 0.02
SETTLED = 0.1  # share of the iterations after which a process has all memory that it needs
_TAIL_BYTES = 1 << 16


class _Run:
    """A run in a process of its own.

    Parameters
    ----------
    folder : RunFolder
    options : list of str
        Of ``eta-lstm train``.
    """

    def __init__(self, folder: RunFolder, options: list[str]):
        self._folder = folder
        how = "--resume" if folder.checkpoint.exists() else "--overwrite"
        command = [sys.executable, "-m", "etalstm", "train", *options, how, "--out", str(folder.path)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait_for(self, iteration: int) -> bool:
        """Wait until the run has logged an iteration; tell whether it goes on."""
        while self._process.poll() is None:
            if _last_iteration(self._folder.metrics) >= iteration:
                return True
            time.sleep(POLL_SECONDS)
        return False

    def memory_bytes(self) -> int:
        """Tell how much memory the process has at the moment."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def kill(self) -> None:
        """Kill it at once: it cannot notice."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def end(self) -> None:
        """Wait for its end.

        Raises
        ------
        RunError
            If it fails; the message is its own.
        """
        _, said = self._process.communicate()
        if self._process.returncode:
            raise RunError(f"{self._folder.path}: the run has failed: {said.strip()}")


def endure(
    options: list[str], iterations: int, kills: int, seed: int, progress: Callable[[int], None] = lambda iteration: None
) -> dict:
    """Train twice: once left alone, and once killed at drawn moments and resumed each time.

    Parameters
    ----------
    options : list of str
        Of ``eta-lstm train``, without the number of iterations and the folder.
    iterations, kills : int
    seed : int
        Of the moments.
    progress : function
        Told how many iterations of both runs are done.

    Returns
    -------
    dict
        ``iterations``, ``kills`` (those that hit a running process), ``same``: both have the same checkpoint;
        ``once``: the killed run has logged each iteration once; memory of the process that was left alone, in bytes,
        after :data:`SETTLED` of the iterations and near the end: ``settled_bytes``, ``last_bytes``.

    Raises
    ------
    ValueError
        If a number is out of range.
    RunError
        If a run fails.
    """
    check_size("iterations", iterations)
    if kills < 0 or seed < 0:
        raise ValueError(f"kills and seed must be at least 0, got {kills} and {seed}")
    options = [*options, "--iterations", str(iterations)]
    with tempfile.TemporaryDirectory() as directory:
        alone, killed = (RunFolder(Path(directory) / name) for name in ("alone", "killed"))
        memory = _left_alone(_Run(alone, options), iterations)
        progress(iterations)
        hit = _killed(killed, options, np.random.default_rng(seed), iterations, kills, progress)
        logged = [entry["iteration"] for entry in read_log(killed.metrics) if entry["kind"] == "iteration"]
        return {
            "iterations": iterations,
            "kills": hit,
            "same": alone.checkpoint.read_bytes() == killed.checkpoint.read_bytes(),
            "once": logged == list(range(1, iterations + 1)),
            **memory,
        }


def _left_alone(run: _Run, iterations: int) -> dict[str, int]:
    memory = dict.fromkeys(("settled_bytes", "last_bytes"), 0)
    for name, share in (("settled_bytes", SETTLED), ("last_bytes", 1 - SETTLED)):
        if run.wait_for(int(share * iterations)):
            memory[name] = run.memory_bytes()
    run.end()
    return memory


def _killed(folder: RunFolder, options: list[str], draw, iterations: int, kills: int, progress) -> int:
    """Kill a run soon after each of some iterations, and let it end; give how often a process was hit."""
    hit = 0
    for iteration in sorted(draw.integers(0, iterations, kills)):
        run = _Run(folder, options)
        if run.wait_for(iteration):
            time.sleep(draw.exponential(POLL_SECONDS))
            hit += 1
        run.kill()
        progress(iterations + int(iteration))
    _Run(folder, options).end()
    return hit


def _last_iteration(metrics: Path) -> int:
    """Give the last iteration that a run has logged, 0 if there is none."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - _TAIL_BYTES))
        found = re.findall(rb'"iteration": (\d+)', file.read())
    return int(found[-1]) if found else 0
