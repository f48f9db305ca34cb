"""Threads for compiled loops, and the loop that flushes subnormals in arrays for the machine."""

import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from etalstm.host.computer import count_processors

SERIAL_PRODUCTS = 1_000_000  # below, waking other threads costs more than they save
COPY_PRODUCTS = 8  # copying a word takes as long as so many products


class Crew:
    """This process's threads, one per processor it may use.

    They sleep while they wait. OpenMP's threads spin: beside other programs, two of them were eight times slower than
    one.
    """

    def __init__(self):
        self.size = count_processors()
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)  # a child has none of its parent's threads

    def _start(self):
        self._pool = ThreadPoolExecutor(max(1, self.size - 1), "golden")  # the caller's thread works, too

    def run(self, count: int, products: int, call, work=None) -> None:
        """Run ``call(begin, end)`` over pieces of ``range(count)`` and wait.

        `products` counts the products of the whole range; if they are few, the caller runs one piece. `call` must
        release the interpreter's lock, and write only its own piece of the results. `work`, (count,), has the work of
        each number, so that pieces get equal work. Default: the same for all.
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


TINY = np.float32(2.0**-126)  # the smallest normal binary32: the machine has no number between it and zero
_TINY_BITS, _INFINITY_BITS = np.array([TINY, np.inf], np.float32).view(np.uint32)
_SIZE_BITS, _SIGN_BIT = np.uint32(0x7FFF_FFFF), np.uint32(0x8000_0000)


@cache
def _compiled():
    """Compile :func:`_flush` at its first use: the import of Numba takes a second, and few commands compute."""
    return importlib.import_module("numba").njit(nogil=True, cache=True)(_flush)


def _flush(words, flushed):
    """Copy the bits of float32 and flush subnormals; give the bits of the largest magnitude, NaN above infinity."""
    largest = np.uint32(0)
    for n in range(words.size):
        size = words[n] & _SIZE_BITS
        largest = max(largest, size)
        flushed[n] = words[n] if size >= _TINY_BITS else words[n] & _SIGN_BIT
    return largest


def flushed(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Copy float32 `values` in C order, subnormals flushed to zeros of their sign; also tell whether all are finite."""
    words = np.ascontiguousarray(values).reshape(-1).view(np.uint32)
    copy, largest, flush = np.empty_like(words), [], _compiled()

    def piece(begin, end):
        largest.append(flush(words[begin:end], copy[begin:end]))

    CREW.run(words.size, words.size * COPY_PRODUCTS, piece)
    return copy.view(np.float32).reshape(np.shape(values)), all(size < _INFINITY_BITS for size in largest)
