"""The memory of the computer that this runs on, and what does not fit it."""

import os
import resource
from contextlib import suppress
from pathlib import Path

from etalstm.errors import HostMemoryError

_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, or of a job


def host_bytes() -> int:
    """Count the bytes of memory that this process can have: the computer's, or what it is limited to."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    with suppress(OSError, ValueError):  # no such file, or "max"
        limits.append(int(_GROUP_LIMIT.read_text()))
    return min(limits)


def check_host_memory(what: str, needed_bytes: int) -> None:
    """Refuse what this computer cannot hold, before any of it is allocated.

    Parameters
    ----------
    what : str
        What needs the memory, a plural.
    needed_bytes : int
        At least.

    Raises
    ------
    HostMemoryError
        With what is needed and what there is.
    """
    there = host_bytes()
    if needed_bytes > there:
        raise HostMemoryError(f"{what} need {needed_bytes:,} bytes of memory, this computer has {there:,}")
