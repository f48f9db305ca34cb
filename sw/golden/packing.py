"""How the operands of the MAC sums lie in memory, and how large their numbers are.

A matrix lies in panels of ``WIDTH`` columns, scalars lie in C order. The passes give both in either order, because they
need weights and δ transposed too.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.golden.tile import WIDTH

TERMS = 256
"""Terms of a block. Those of two panels, and the scalars of a tile, fit the first cache."""
INFINITY_BITS = np.uint32(0x7F80_0000)
ACROSS = 8
"""Columns that are copied together."""


class Matrix(NamedTuple):
    """A matrix as the sums read it.

    Members
    -------
    panels : array, float32, (panels, terms, WIDTH)      the columns, +0 beyond the last
    sizes : array, float64, (blocks of terms, 2)         smallest and largest magnitude, see :func:`magnitudes`
    """

    panels: np.ndarray
    sizes: np.ndarray


@njit(nogil=True, cache=True)
def survey(array, first, stop, nonzero):
    """Look at the numbers in some columns of a matrix.

    Parameters
    ----------
    array : array, float32, 2 dimensions, C order
    first, stop : int                           the columns
    nonzero : array, uint32, (rows,)            gets how many numbers of each row are not zero

    Returns
    -------
    low, high : float64
        The smallest magnitude that is not zero, and the largest one. Where all are zero: inf and 0. Where one is an
        infinity or a NaN: 0 and inf.
    """
    bits = array.view(np.uint32)
    low, high = np.uint32(0xFFFF_FFFF), np.uint32(0)
    for n in range(len(array)):
        count = np.uint32(0)
        for m in range(stop - first):
            word = np.uint32(bits[n, np.uintp(first + m)] & np.uint32(0x7FFF_FFFF))
            low = min(low, np.uint32(word - np.uint32(1)))  # zero wraps to the top, out of the way
            high = max(high, word)
            count = np.uint32(count + np.uint32(word != 0))
        nonzero[n] = count
    if high >= INFINITY_BITS:
        return 0.0, np.inf
    if high == 0:
        return np.inf, 0.0
    return np.float64(np.uint32(low + np.uint32(1)).view(np.float32)), np.float64(np.uint32(high).view(np.float32))


@njit(nogil=True, cache=True)
def magnitudes(array):
    """Give what :func:`survey` returns of a whole array in C order."""
    return survey(array.reshape(1, array.size), 0, array.size, np.empty(1, np.uint32))


@njit(nogil=True, cache=True)
def copy_matrix(source, target):
    """Copy a matrix of any order into one in C order.

    A source in Fortran order gives ``ACROSS`` numbers of a row from as many lines of the cache. So few lines stay in
    the cache until all of their numbers have been read.
    """
    rows, columns = source.shape
    whole = columns // ACROSS * ACROSS
    for first in range(0, whole, ACROSS):
        for n in range(rows):
            for m in range(first, first + ACROSS):
                target[n, m] = source[n, m]
    for n in range(rows):
        for m in range(whole, columns):
            target[n, m] = source[n, m]


@njit(nogil=True, cache=True)
def _aligned(panels, terms):
    """Make an array of panels at a multiple of 64 bytes: a vector in two lines of the cache takes two loads."""
    words = panels * terms * WIDTH
    room = np.empty(words + WIDTH, np.float32)
    first = WIDTH - room.ctypes.data // 4 % WIDTH
    return room[first : first + words].reshape(panels, terms, WIDTH)


@njit(nogil=True, cache=True)
def _lay(array, panels, term, column):
    """Copy a matrix into panels, its first element to a term and a column."""
    terms, columns = array.shape
    first = 0
    while first < columns:
        panel, lane = divmod(column + first, WIDTH)
        last = min(first + WIDTH - lane, columns)
        copy_matrix(array[:, first:last], panels[panel, term : term + terms, lane : lane + last - first])
        first = last


@njit(nogil=True, cache=True)
def matrix_of_steps(left, right):
    """Lay the columns of two arrays side by side in panels, step after step.

    left, right : arrays, float32, (steps, sequences, columns of it), any order
    """
    steps, sequences, columns = left.shape[0], left.shape[1], left.shape[2] + right.shape[2]
    terms = steps * sequences
    panels = _aligned(-(-columns // WIDTH), terms)
    panels[columns // WIDTH :, :, columns % WIDTH :] = 0
    for t in range(steps):
        _lay(left[t], panels, t * sequences, 0)
        _lay(right[t], panels, t * sequences, left.shape[2])
    sizes = np.empty((-(-terms // TERMS), 2), np.float64)
    for n in range(len(sizes)):
        smallest, largest = np.inf, 0.0
        for p in range(len(panels)):
            low, high = magnitudes(panels[p, n * TERMS : (n + 1) * TERMS])
            smallest, largest = min(smallest, low), max(largest, high)
        sizes[n, 0], sizes[n, 1] = smallest, largest
    return Matrix(panels, sizes)


@njit(nogil=True, cache=True)
def matrix_of(array):
    """Lay a matrix out in panels; `array` is float32, (terms, columns), any order."""
    steps = np.expand_dims(array, 0)
    return matrix_of_steps(steps, steps[:, :, :0])
