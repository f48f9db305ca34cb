"""The computer that this runs on: processors, pools of processes, memory limits, garbage collection."""

import gc
import os
import platform
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path

from etalstm.errors import HostMemoryError


def count_processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def processor_name() -> str:
    """Name the processor's model as Linux names the first one's, elsewhere the machine's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    model = [told[name] for name in ("model name", "cpu family", "model") if name in told]
    return ", ".join(model) or platform.machine()


class Workers(ProcessPoolExecutor):
    """A pool of processes that ends at once if an interrupt leaves its context: no result is wanted then."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._others = {child.pid for child in active_children()}

    def submit(self, *arguments, **options):
        """Submit a call. The first call starts the processes; signals are deferred until they have been set up."""
        with signals_deferred():
            return super().submit(*arguments, **options)

    def __exit__(self, kind, error, trace):
        if kind is None or issubclass(kind, Exception):
            return super().__exit__(kind, error, trace)
        hook, threading.excepthook = threading.excepthook, _ignore
        try:
            for child in active_children():
                if child.pid not in self._others:
                    child.terminate()
            return super().__exit__(kind, error, trace)
        finally:
            threading.excepthook = hook


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer signals that end a process to the end of a ``with`` statement; only in the main thread, which gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number)]
    came: list[int] = []
    previous = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _ignore(_) -> None:
    """Replace ``threading.excepthook``: up to Python 3.11 a pool's thread fails at a cancelled result."""


def worker_processes(count: int, start: Callable[..., None] | None = None, arguments: tuple = ()) -> Workers:
    """Give a pool of processes, which are spawned, not forked.

    A fork copies only one thread of a process, but the locks of all its threads. A child that needs such a lock waits
    for ever. PyTorch, OpenMP and compiled loops all have threads.

    `start` is called with `arguments` in each process first; it must have a name in a module.
    """
    return Workers(count, mp_context=get_context("spawn"), initializer=start, initargs=arguments)


_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, or of a job


def host_bytes() -> int:
    """Count the bytes of memory that this process can have: the computer's, or a lower limit."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    with suppress(OSError, ValueError):  # no such file, or "max"
        limits.append(int(_GROUP_LIMIT.read_text(encoding="utf-8")))
    return min(limits)


def check_host_memory(what: str, needed_bytes: int) -> None:
    """Raise :class:`HostMemoryError` if this computer has less than `needed_bytes`, before they are allocated.

    `what` names in the plural what needs at least these bytes.
    """
    available = host_bytes()
    if needed_bytes > available:
        raise HostMemoryError(f"{what} need {needed_bytes:,} bytes of memory, this computer has {available:,}")


# New objects between two collections. With Python's own 700, collections take two fifths of the time to elaborate
# preset `vcu128`.
_THRESHOLD = 50_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage seldom inside a ``with``, or inside a function that this decorates. It holds for all threads."""
    usual = gc.get_threshold()
    gc.set_threshold(_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
