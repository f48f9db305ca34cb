"""Starts a command on several ranks with mpiexec, reports why they ended, and starts a training run again."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from etalstm.errors import DeviceError
from etalstm.host.mpi import VARIABLE, Process, read_roster
from etalstm.train.folder import RunFolder

TRAIN = "train"
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = tuple(128 + number for number in FORWARDED)  # exit codes of a run that a signal has ended
# What mpiexec of MPICH prints when a process has been killed, up to its advice.
_BANNER = re.compile(r"=+\n|=   .*\n|YOUR APPLICATION TERMINATED.*\n|This typically refers.*\n|Please see the FAQ.*\n")
_KILLED = re.compile(r"=   (?:RANK \d+ )?PID (\d+) RUNNING AT (\S+)")
_SIGNAL = re.compile(r"EXIT STRING: (.+?) \(signal \d+\)")


def find_mpiexec() -> str:
    """Give the path of mpiexec: the one beside this Python, which mpi4py belongs to, or else the system's.

    Raises :class:`DeviceError` if there is none.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise DeviceError("there is no mpiexec: install MPI, or pip install 'etalstm[boards]'")
    return found


@dataclass
class Outcome:
    """How one start of the command has ended."""

    code: int  # mpiexec's exit code
    killed: Process | None  # the process that was killed, if mpiexec named one
    signal: str  # what killed it
    ranks: list[Process]

    @property
    def cause(self) -> str | None:
        """Name the rank that was killed, and the cause; None where mpiexec named no process."""
        if self.killed is None:
            return None
        host, pid = self.killed
        who = f"rank {self.ranks.index(self.killed)}" if self.killed in self.ranks else f"process {pid}"
        return f"{who} on {host} has ended: {self.signal}"


class LaunchedRun:
    """The training run that a command begins: its progress, and the command that resumes it."""

    def __init__(self, command: list[str]):
        self._command, self._folder = command, RunFolder(_value(command, "--out"))
        self._begun_here = "--overwrite" in command or not self._folder.settings.exists()

    def progress(self) -> tuple[tuple[str, int, int], ...]:
        """Give the times and sizes of log and checkpoint: they change with each iteration and checkpoint."""
        files = (path for path in (self._folder.metrics, self._folder.checkpoint) if path.exists())
        return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files)

    def next_command(self) -> list[str]:
        """Give the command that resumes the run, or begins it anew if there is no checkpoint yet."""
        plain = [word for word in self._command if word not in ("--resume", "--overwrite")]
        resumes = self._folder.checkpoint.exists() or not self._begun_here
        return [*plain, "--resume" if resumes else "--overwrite"]


class Launch:
    """Runs a command on several ranks. `command`: arguments of ``eta-lstm``. `hostfile`: as mpiexec reads it."""

    def __init__(self, ranks: int, command: Sequence[str], hostfile: Path | None = None):
        hosts = [] if hostfile is None else ["-f", str(hostfile)]
        self._mpiexec = [find_mpiexec(), "-n", str(ranks), *hosts, sys.executable, "-m", "etalstm"]
        self._command = list(command)
        self._run = LaunchedRun(self._command) if self._command[:1] == [TRAIN] else None

    def run(self, most_restarts: int, say: Callable[[str], None]) -> int:
        """Run the command until it ends by itself, or has been started again `most_restarts` times; give its exit code.

        A run that fails before its first iteration is not started again.
        """
        command, restarts = self._command, 0
        while True:
            began = self._run.progress() if self._run else None
            ended = self._attempt(command)
            if ended.code == 0 or ended.code in INTERRUPTED:
                return ended.code
            if ended.cause:
                say(ended.cause)
            if self._run is None or restarts == most_restarts or self._run.progress() == began:
                return ended.code
            restarts += 1
            command = self._run.next_command()
            say(f"restart {restarts} of {most_restarts}: eta-lstm {' '.join(command)}")

    def _attempt(self, command: list[str]) -> Outcome:
        with tempfile.TemporaryDirectory() as scratch:
            roster = Path(scratch) / "roster.json"
            process = subprocess.Popen(
                [*self._mpiexec, *command],
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=os.environ | {VARIABLE: str(roster)},
            )
            with _forwarding(process):
                banner = _pass_on(process.stdout or ())
                code = process.wait()
            killed, cause = _KILLED.search(banner), _SIGNAL.search(banner)
            return Outcome(
                code if code >= 0 else 128 - code,
                Process(killed[2], int(killed[1])) if killed else None,
                cause[1] if cause else f"exit code {code}",
                read_roster(roster),
            )


def _value(command: list[str], option: str) -> str:
    """Give an option's value; ``ValueError`` without one."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        name, joined, value = word.partition("=")
        if name == option and (joined or following):
            return value if joined else following
    raise ValueError(f"{TRAIN} needs {option}, got {' '.join(command)}")


def _pass_on(output: Iterable[str]) -> str:
    """Print the ranks' output, and give mpiexec's own lines about a process that was killed."""
    banner = []
    for line in output:
        if _BANNER.fullmatch(line):
            banner.append(line)
        else:
            print(line, end="", flush=True)
    return "".join(banner)


@contextmanager
def _forwarding(process: subprocess.Popen) -> Iterator[None]:
    """Pass signals on as mpiexec takes them: it sends SIGINT to all ranks, and kills them at others."""
    before = {number: signal.getsignal(number) for number in FORWARDED}
    for number in FORWARDED:
        signal.signal(number, lambda *_: process.send_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
