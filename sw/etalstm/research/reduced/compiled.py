"""Compression in the host's memory: loops without branches, which random data would mispredict every other time.

Dimensions: N cells of one sequence each, H units, K kinds of local gradients.
"""

from pathlib import Path

import numpy as np
from numba import njit

from etalstm.host.cached_build import drop_older_code

BITS = 8  # elements of a byte

drop_older_code([Path(__file__)])


def select(elements: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Select the elements that are not below their kind's threshold.

    Parameters
    ----------
    elements : array, (N, K, H), contiguous
    thresholds : array, (K,)

    Returns
    -------
    bits, uint8, (N, K, ceil(H / 8)), and words, as :class:`etalstm.research.reduced.compression.Compressed` has them
    """
    bits = np.empty((*elements.shape[:2], -(-elements.shape[2] // BITS)), np.uint8)
    words = np.empty(elements.size + 1, elements.dtype)
    count = _select(elements.reshape(-1, elements.shape[2]), thresholds, bits.reshape(-1, bits.shape[2]), words)
    words[count] = 0
    return bits, words[: count + 1]


def place(bits: np.ndarray, words: np.ndarray, units: int) -> np.ndarray:
    """Undo :func:`select`: give (N, K, H) with H `units`, of zeros where elements were dropped."""
    elements = np.empty((*bits.shape[:2], units), words.dtype)
    unsigned = f"u{words.itemsize}"
    _place(bits.reshape(-1, bits.shape[2]), words.view(unsigned), elements.view(unsigned).reshape(-1, units))
    return elements


@njit(nogil=True, cache=True)
def _select(elements, thresholds, bits, words):
    """Fill `bits` and `words`; give the number of words."""
    position, last = 0, bits.shape[1] - 1
    for vector in range(len(elements)):
        row, limit = elements[vector], thresholds[vector % len(thresholds)]
        for m in range(last):
            bits[vector, m], position = _select_byte(row, m * BITS, BITS, limit, words, position)
        bits[vector, last], position = _select_byte(row, last * BITS, len(row) - last * BITS, limit, words, position)
    return position


@njit
def _select_byte(row, first, count, threshold, words, position):
    """Select `count` elements; give their bits and the next position. What follows a dropped element overwrites it."""
    byte = 0
    for n in range(count):
        kept = 1 - int(abs(row[first + n]) < threshold)
        words[position] = row[first + n]
        position += kept
        byte |= kept << n
    return byte, position


@njit(nogil=True, cache=True)
def _place(bits, words, elements):
    """Fill `elements`."""
    position, last = 0, bits.shape[1] - 1
    for vector in range(len(elements)):
        row = elements[vector]
        for m in range(last):
            position = _place_byte(bits[vector, m], row, m * BITS, BITS, words, position)
        position = _place_byte(bits[vector, last], row, last * BITS, len(row) - last * BITS, words, position)


@njit
def _place_byte(byte, row, first, count, words, position):
    """Place `count` elements; give the next position. A mask of all bits, or of none, makes a dropped element zero."""
    byte, number = np.uint32(byte), words.dtype.type
    for n in range(count):
        kept = number(byte >> np.uint32(n)) & number(1)
        row[first + n] = words[position] & (number(0) - kept)
        position += np.int64(kept)
    return position
