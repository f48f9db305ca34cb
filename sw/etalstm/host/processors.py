"""The processors of the computer that this runs on, and processes that share work on them."""

import os
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path


def count_processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def processor_name() -> str:
    """Name the processor's model: what Linux tells of the first one, else the machine's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    model = [told[name] for name in ("model name", "cpu family", "model") if name in told]
    return ", ".join(model) or platform.machine()


def worker_processes(
    count: int, start: Callable[..., None] | None = None, arguments: tuple = ()
) -> ProcessPoolExecutor:
    """Give a pool of processes, which are started anew and not forked.

    A fork copies one thread of a process and the locks that all of its threads hold. A child that needs such a lock
    waits for ever. PyTorch, OpenMP and compiled loops all have threads.

    Parameters
    ----------
    count : int
        Processes.
    start : callable, optional
        Called with `arguments` in each process first. It must have a name in a module.
    """
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=start, initargs=arguments)
