"""A long training run that is killed, or cannot write, again and again, beside an undisturbed one."""

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path

import numpy as np

from etalstm.errors import RunError
from etalstm.network.shape import check_size
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log

POLL_SECONDS = 0.02
END_SECONDS = 300.0  # until a run must have noticed a trouble and ended; it writes its log after every iteration

_TAIL_BYTES = 1 << 16


class Trouble(StrEnum):
    """A trouble that a run meets."""

    KILLED = "killed"  #: SIGKILL: the process cannot notice
    FULL_DISK = "full disk"  #: from now on the process can write to no file
    READ_ONLY = "read-only folder"  #: from now on no file of the run's folder can be made or replaced


class Run:
    """A run in a process of its own, with options of ``eta-lstm train``."""

    def __init__(self, folder: RunFolder, options: list[str]):
        self._folder = folder
        begin = "--resume" if folder.checkpoint.exists() else "--overwrite"
        command = [sys.executable, "-m", "etalstm", "train", *options, begin, "--out", str(folder.path)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )

    def wait_for(self, iteration: int) -> bool:
        """Wait until the run has logged an iteration; tell whether it goes on."""
        while self._process.poll() is None:
            if _last_iteration(self._folder.metrics) >= iteration:
                return True
            time.sleep(POLL_SECONDS)
        return False

    def memory_bytes(self) -> int:
        """Tell how much memory the process has at the moment."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="utf-8").split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def disturb(self, trouble: Trouble) -> bool:
        """Cause a trouble, and wait for the run's end; tell whether the run was still going on.

        :class:`RunError` if a run that was not killed ends without an error that names one of its files.
        """
        if trouble is Trouble.KILLED:
            self.kill()
            return True
        with _CAUSES[trouble](self._process.pid, self._folder.path):
            return self._wait_for_failure(trouble)

    def kill(self) -> None:
        """Kill the process at once, if there still is one."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def wait_for_end(self) -> None:
        """Wait for the run's end; :class:`RunError` with the run's own message if it fails."""
        _, message = self._process.communicate()
        if self._process.returncode:
            raise RunError(f"{self._folder.path}: the run has failed: {message.strip()}")

    def _wait_for_failure(self, trouble: Trouble) -> bool:
        """Wait until the run fails; False if it was already done."""
        where = f"{self._folder.path}: {trouble}"
        try:
            _, message = self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RunError(f"{where}: the run was still going on after {END_SECONDS:g} seconds") from None
        code = self._process.returncode
        if code < 0 or (code > 0 and f"{self._folder.path}/" not in message):
            raise RunError(f"{where}: the error must name a file, the run ended with {code}: {message.strip()}")
        return code > 0


@contextmanager
def _full_disk(process: int, folder: Path) -> Iterator[None]:
    """Keep a process from writing to files, for the rest of its life."""
    hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(process, resource.RLIMIT_FSIZE, (0, hard))
    yield


@contextmanager
def _read_only(process: int, folder: Path) -> Iterator[None]:
    """Context in which files in a folder can be neither made nor replaced."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        yield
    finally:
        folder.chmod(mode)


_CAUSES: dict[Trouble, Callable[[int, Path], AbstractContextManager]] = {
    Trouble.FULL_DISK: _full_disk,
    Trouble.READ_ONLY: _read_only,
}


def possible(folder: Path) -> list[Trouble]:
    """Give the troubles that can happen: permissions do not stop root. The folder is left as it is."""
    with _read_only(os.getpid(), folder):
        stops = not os.access(folder, os.W_OK)
    return [trouble for trouble in Trouble if stops or trouble is not Trouble.READ_ONLY]


def _last_iteration(metrics: Path) -> int:
    """Give the last iteration that a run has logged, 0 if there is none."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - _TAIL_BYTES))
        found = re.findall(rb'"iteration": (\d+)', file.read())
    return int(found[-1]) if found else 0


SETTLED = 0.1  # share of the iterations after which a process has allocated all memory that it needs


def endure(
    options: list[str],
    iterations: int,
    troubles: int,
    seed: int,
    progress: Callable[[int], None] = lambda iteration: None,
) -> dict:
    """Train twice: once undisturbed, and once with trouble at drawn moments, resumed each time.

    A run that is not killed must end with an error that names a file. `options` are those of ``eta-lstm train``,
    without the number of iterations and the folder. The `seed` gives the moments, and which trouble happens when: each
    kind equally often, as far as that goes. `progress` is told how many iterations of both runs are done.

    Gives a dict: ``iterations``; ``troubles``: by kind, how many hit a running process; ``impossible``: kinds that
    cannot happen here, as permissions do not stop root; ``same``: both runs have the same checkpoint; ``once``: the
    troubled run has logged each iteration once; memory of the undisturbed process, in bytes, after
    :data:`SETTLED` of the iterations and near the end: ``settled_bytes``, ``last_bytes``.

    ``ValueError`` if a number is out of range. :class:`RunError` if the undisturbed run fails, or the
    other one does not fail, or fails without the name of a file.
    """
    check_size("iterations", iterations)
    if troubles < 0 or seed < 0:
        raise ValueError(f"troubles and seed must be at least 0, got {troubles} and {seed}")
    options = [*options, "--iterations", str(iterations)]
    with tempfile.TemporaryDirectory() as directory:
        undisturbed, troubled = (RunFolder(Path(directory) / name) for name in ("alone", "troubled"))
        memory = _run_undisturbed(Run(undisturbed, options), iterations)
        progress(iterations)
        kinds, draw = possible(Path(directory)), np.random.default_rng(seed)
        drawn = [kinds[number % len(kinds)] for number in draw.permutation(troubles)]
        happened = _run_troubled(troubled, options, draw, iterations, drawn, progress)
        logged = [entry["iteration"] for entry in read_log(troubled.metrics) if entry["kind"] == "iteration"]
        return {
            "iterations": iterations,
            "troubles": {kind.value: happened[kind] for kind in kinds},
            "impossible": [kind.value for kind in Trouble if kind not in kinds],
            "same": undisturbed.checkpoint.read_bytes() == troubled.checkpoint.read_bytes(),
            "once": logged == list(range(1, iterations + 1)),
            **memory,
        }


def _run_undisturbed(run: Run, iterations: int) -> dict[str, int]:
    memory = dict.fromkeys(("settled_bytes", "last_bytes"), 0)
    for name, share in (("settled_bytes", SETTLED), ("last_bytes", 1 - SETTLED)):
        if run.wait_for(int(share * iterations)):
            memory[name] = run.memory_bytes()
    run.wait_for_end()
    return memory


def _run_troubled(
    folder: RunFolder, options: list[str], draw, iterations: int, drawn: list[Trouble], progress
) -> Counter:
    """Disturb a run soon after drawn iterations, then let it end; count the troubles that hit a running process."""
    happened: Counter[Trouble] = Counter()
    for iteration, trouble in zip(sorted(draw.integers(0, iterations, len(drawn))), drawn, strict=True):
        run = Run(folder, options)
        if run.wait_for(iteration):
            time.sleep(draw.exponential(POLL_SECONDS))
            happened[trouble] += run.disturb(trouble)
        else:
            run.kill()
        progress(iterations + int(iteration))
    Run(folder, options).wait_for_end()
    return happened
