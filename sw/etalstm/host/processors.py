"""The processors of the computer that this runs on, and processes that share work on them."""

import os
import platform
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import active_children, get_context
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


class Workers(ProcessPoolExecutor):
    """A pool of processes that ends at once where its context is left by an interrupt: no result is wanted then."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._others = {child.pid for child in active_children()}

    def __exit__(self, kind, error, trace):
        if kind is None or issubclass(kind, Exception):
            return super().__exit__(kind, error, trace)
        hook, threading.excepthook = threading.excepthook, _say_nothing
        try:
            for child in active_children():
                if child.pid not in self._others:
                    child.terminate()
            return super().__exit__(kind, error, trace)
        finally:
            threading.excepthook = hook


def _say_nothing(_) -> None:
    """Take the place of ``threading.excepthook``: up to Python 3.11 a pool's thread fails at a cancelled result."""


def worker_processes(count: int, start: Callable[..., None] | None = None, arguments: tuple = ()) -> Workers:
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
    return Workers(count, mp_context=get_context("spawn"), initializer=start, initargs=arguments)
