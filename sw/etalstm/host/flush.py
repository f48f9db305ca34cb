"""Arrays as the machine reads them: it has no number between zero and the smallest normal one."""

import importlib
from functools import cache

import numpy as np

from etalstm.host.crew import COPY_PRODUCTS, CREW

TINY = np.float32(2.0**-126)  # the smallest normal binary32
_TINY_BITS, _INFINITY_BITS = np.array([TINY, np.inf], np.float32).view(np.uint32)
_SIZE_BITS, _SIGN_BIT = np.uint32(0x7FFF_FFFF), np.uint32(0x8000_0000)


@cache
def _compiled():
    """Compile :func:`_flush` when it is needed: the import of Numba takes a second, and few commands compute."""
    return importlib.import_module("numba").njit(nogil=True, cache=True)(_flush)


def _flush(words, flushed):
    """Copy the bits of float32; give those of the largest magnitude. A NaN counts as larger than an infinity."""
    largest = np.uint32(0)
    for n in range(words.size):
        size = words[n] & _SIZE_BITS
        largest = max(largest, size)
        flushed[n] = words[n] if size >= _TINY_BITS else words[n] & _SIGN_BIT
    return largest


def flushed(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Copy float32 `values` in C order, subnormals replaced by zeros of their sign; and tell whether all are finite."""
    words = np.ascontiguousarray(values).reshape(-1).view(np.uint32)
    copy, largest, flush = np.empty_like(words), [], _compiled()

    def piece(begin, end):
        largest.append(flush(words[begin:end], copy[begin:end]))

    CREW.share(words.size, words.size * COPY_PRODUCTS, piece)
    return copy.view(np.float32).reshape(np.shape(values)), all(size < _INFINITY_BITS for size in largest)
