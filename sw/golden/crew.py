"""Threads for compiled loops."""

import os
from concurrent.futures import ThreadPoolExecutor

from etalstm.processors import count_processors

SERIAL_PRODUCTS = 1_000_000  # below, waking other threads costs more than they save


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
        self._pool = ThreadPoolExecutor(self.size, "golden")

    def share(self, count: int, products: int, call) -> None:
        """Run ``call(begin, end)`` over pieces of ``range(count)`` and wait.

        Parameters
        ----------
        count : int
        products : int
            Multiplications in all of it; few are done in one piece by the caller.
        call : callable
            Must let go of the interpreter while it works, and may only write what belongs to its piece.
        """
        pieces = min(self.size, count) if products > SERIAL_PRODUCTS else 1
        if pieces == 1:
            call(0, count)
            return
        edges = [count * n // pieces for n in range(pieces + 1)]
        for done in [self._pool.submit(call, *edges[n : n + 2]) for n in range(pieces)]:
            done.result()


CREW = Crew()
