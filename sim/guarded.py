"""Runs a command so that none of its processes outlives this one."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

# Reads from a pipe whose other end is open in this process only. However this process ends, the read ends then.
_GUARD = 'read -r line; kill -s KILL -- "-$1"'


@contextmanager
def guarded(command: Sequence[str], **options) -> Iterator[subprocess.Popen]:
    """Run a command and wait for its end at the end of the block.

    The command gets a process group of its own. The group is killed if the block raises, and if this process is killed.

    Parameters
    ----------
    command : strings
    options : of :class:`subprocess.Popen`

    Yields
    ------
    Popen
        Its standard input is empty.
    """
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, **options) as process:
        guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(process.pid)], stdin=subprocess.PIPE, process_group=0
        )
        with guard:
            try:
                yield process
                process.wait()
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                guard.kill()
