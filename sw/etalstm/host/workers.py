"""Processes that share work."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


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
