"""A training run in a process of its own, and the troubles that may happen to it."""

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path

from etalstm.errors import RunError
from etalstm.train.folder import RunFolder

POLL_SECONDS = 0.02
END_SECONDS = 300.0
"""That a run may take until it notices a trouble and ends: it writes its log after every iteration."""

_TAIL_BYTES = 1 << 16


class Trouble(StrEnum):
    """What happens to a run."""

    KILLED = "killed"  #: SIGKILL: the process cannot notice
    FULL_DISK = "full disk"  #: from now on the process can write to no file
    READ_ONLY = "read-only folder"  #: from now on no file of the run's folder can be made or replaced


class Run:
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

    def meet(self, trouble: Trouble) -> bool:
        """Have a trouble happen, and wait for the run's end; tell whether the run was still going on.

        Raises
        ------
        RunError
            If the run, not killed, does not end with an error that names one of its files.
        """
        if trouble is Trouble.KILLED:
            self.kill()
            return True
        with _LASTING[trouble](self._process.pid, self._folder.path):
            return self._fails(trouble)

    def kill(self) -> None:
        """Kill the process at once, if there still is one."""
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

    def _fails(self, trouble: Trouble) -> bool:
        """Wait until the run fails as it should; tell whether it did: it may have been done."""
        where = f"{self._folder.path}: {trouble}"
        try:
            _, said = self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RunError(f"{where}: the run was still going on after {END_SECONDS:g} seconds") from None
        code = self._process.returncode
        if code < 0 or (code > 0 and f"{self._folder.path}/" not in said):
            raise RunError(f"{where}: the error must name a file, the run ended with {code}: {said.strip()}")
        return code > 0


@contextmanager
def _full_disk(process: int, folder: Path) -> Iterator[None]:
    """Let a process write to no file, for the rest of its life."""
    hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(process, resource.RLIMIT_FSIZE, (0, hard))
    yield


@contextmanager
def _read_only(process: int, folder: Path) -> Iterator[None]:
    """Let nobody make or replace a file in a folder, for the time of the block."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        yield
    finally:
        folder.chmod(mode)


_LASTING: dict[Trouble, Callable[[int, Path], AbstractContextManager]] = {
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
