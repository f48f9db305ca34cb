"""Threads for compiled loops."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from etalstm.host.processors import count_processors

SERIAL_PRODUCTS = 1_000_000  # below, waking other threads costs more than they save
COPY_PRODUCTS = 8  # that take as long as a word that is copied


class Crew:
    """This process's threads, one per processor it may use.

    They sleep while they wait. OpenMP's threads spin, and where other programs ran too, two of them were eight times
    slower than one.
    """

    def __init__(self):
        self.size = count_processors()
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)  # a child has none of its parent's threads

    def _start(self):
        self._pool = ThreadPoolExecutor(max(1, self.size - 1), "golden")  # the caller's thread works, too

    def share(self, count: int, products: int, call, work=None) -> None:
        """Run ``call(begin, end)`` over pieces of ``range(count)`` and wait.

        Parameters
        ----------
        count : int
        products : int
            Multiplications in all of it; few are done in one piece by the caller.
        call : callable
            Must let go of the interpreter while it works, and may only write what belongs to its piece.
        work : array, (count,), optional
            How much work each is, to cut pieces of equal work. Default: the same for all.
        """
        pieces = min(self.size, count) if products > SERIAL_PRODUCTS else 1
        if pieces == 1:
            call(0, count)
            return
        edges = [count * n // pieces for n in range(pieces + 1)] if work is None else _edges(work, pieces)
        others = [self._pool.submit(call, *edges[n : n + 2]) for n in range(1, pieces)]
        try:
            call(*edges[:2])
        finally:
            for done in others:
                done.result()


def _edges(work, pieces: int) -> list[int]:
    """Give the edges of pieces of about equal work."""
    done = np.concatenate([[0], np.cumsum(work)])
    inner = np.searchsorted(done, done[-1] * np.arange(1, pieces) / pieces)
    return [0, *inner.tolist(), len(work)]


CREW = Crew()
