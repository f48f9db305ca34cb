"""Runs a command so that none of its processes outlives this one."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Reads from a pipe whose other end is open in this process only. However this process ends, the read ends then, and
# the guard kills its process group.
_GUARD = ("sh", "-c", "read -r line; kill -s KILL 0")


@contextmanager
def guarded(command: Sequence[str], **options) -> Iterator[subprocess.Popen]:
    """Run a command and wait for its end at the end of the block.

    The command runs in the process group of a guard, which is there before the command is. The group is killed if the
    block raises, and if this process is killed.

    Parameters
    ----------
    command : strings
    options : of :class:`subprocess.Popen`

    Yields
    ------
    Popen
        Its standard input is empty.
    """
    with subprocess.Popen(_GUARD, stdin=subprocess.PIPE, process_group=0) as guard:
        try:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=guard.pid, **options) as process:
                try:
                    yield process
                    process.wait()
                except BaseException:
                    os.killpg(guard.pid, signal.SIGKILL)
                    raise
        finally:
            guard.kill()
