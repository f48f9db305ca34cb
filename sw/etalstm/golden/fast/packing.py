"""How the operands of the MAC sums lie in memory, and how large their numbers are.

A matrix lies in panels of ``WIDTH`` columns, scalars lie in C order. The passes give both in either order, because they
need weights and δ transposed too.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.golden.fast.tile import WIDTH
from etalstm.host.crew import CREW

TERMS = 256
"""Terms of a block. Those of two panels, and the scalars of a tile, fit the first cache."""
INFINITY_BITS = np.uint32(0x7F80_0000)
NO_NUMBER = np.uint32(0xFFFF_FFFF)
ACROSS = 8
"""Columns that are copied together."""
LAY_PRODUCTS = 32
"""Products that take as long as a word that is copied into a panel and surveyed."""


class Matrix(NamedTuple):
    """A matrix as the sums read it.

    Members
    -------
    panels : array, float32, (panels, terms, WIDTH)    the columns, +0 beyond the last
    sizes : array, float64, (panels, blocks of terms, 2)    smallest and largest magnitude, see :func:`magnitudes`
    """

    panels: np.ndarray
    sizes: np.ndarray


@njit(nogil=True, cache=True)
def survey(array, first, stop, nonzero, least):
    """Look at the numbers in the columns from `first` to `stop` of a float32 matrix in C order.

    `nonzero`, uint32, (rows,), gets how many numbers of each row are not zero. `least`, float32, (rows,), gets the
    smallest magnitude of each row that is not zero; inf if there is none.

    Gives the smallest magnitude that is not zero, and the largest one. Where all are zero: inf and 0. Where one is an
    infinity or a NaN: 0 and inf.
    """
    bits = array.view(np.uint32)
    lowest, high = NO_NUMBER, np.uint32(0)
    for n in range(len(array)):
        count, low = np.uint32(0), NO_NUMBER
        for m in range(stop - first):
            word = np.uint32(bits[n, np.uintp(first + m)] & np.uint32(0x7FFF_FFFF))
            low = min(low, np.uint32(word - np.uint32(1)))  # zero wraps to the top, out of the way
            high = max(high, word)
            count = np.uint32(count + np.uint32(word != 0))
        nonzero[n] = count
        least[n] = np.inf if low == NO_NUMBER else np.uint32(low + np.uint32(1)).view(np.float32)
        lowest = min(lowest, low)
    if high >= INFINITY_BITS:
        return 0.0, np.inf
    if high == 0:
        return np.inf, 0.0
    return np.float64(np.uint32(lowest + np.uint32(1)).view(np.float32)), np.float64(np.uint32(high).view(np.float32))


@njit(nogil=True, cache=True)
def magnitudes(array):
    """Give what :func:`survey` returns of a whole array in C order."""
    return survey(array.reshape(1, array.size), 0, array.size, np.empty(1, np.uint32), np.empty(1, np.float32))


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
def copy_rows_across(source, rows, target):
    """Copy some rows of a matrix in C order into the columns of another one, ``ACROSS`` rows together."""
    for first in range(0, rows.size, ACROSS):
        last = min(first + ACROSS, rows.size)
        for n in range(source.shape[1]):
            for m in range(first, last):
                target[n, m] = source[rows[m], n]


@njit(nogil=True, cache=True)
def _copy_rows(source, rows, target):
    """Copy some rows of a matrix in C order."""
    for n in range(rows.size):
        for m in range(source.shape[1]):
            target[n, m] = source[rows[n], m]


@njit(nogil=True, cache=True)
def _survey_panel(panel, sizes):
    """Give the magnitudes of each block of terms of a panel."""
    for n in range(len(sizes)):
        sizes[n, 0], sizes[n, 1] = magnitudes(panel[n * TERMS : (n + 1) * TERMS])


@njit(nogil=True, cache=True)
def _lay_columns(array, panels, sizes, begin, end):
    """Fill the panels `begin` to `end` of :func:`matrix_of`."""
    for p in range(begin, end):
        columns = array[:, p * WIDTH : (p + 1) * WIDTH]
        panels[p, :, columns.shape[1] :] = 0
        copy_matrix(columns, panels[p, :, : columns.shape[1]])
        _survey_panel(panels[p], sizes[p])


@njit(nogil=True, cache=True)
def _lay_rows(left, right, rows, panels, sizes, begin, end):
    """Fill the panels `begin` to `end` of :func:`matrix_of_rows`."""
    inputs = left.shape[1]
    for p in range(begin, end):
        first, last = p * WIDTH, min((p + 1) * WIDTH, inputs + right.shape[1])
        edge = min(max(inputs, first), last)  # the first column of `right` in this panel
        panels[p, :, last - first :] = 0
        _copy_rows(left[:, first:edge], rows, panels[p, :, : edge - first])
        _copy_rows(right[:, edge - inputs : last - inputs], rows, panels[p, :, edge - first : last - first])
        _survey_panel(panels[p], sizes[p])


def _matrix(terms, columns, fill) -> Matrix:
    """Make a matrix whose panels threads share; ``fill(panels, sizes, begin, end)`` fills a range of the panels."""
    panels = _aligned(-(-columns // WIDTH), terms)
    sizes = np.empty((len(panels), -(-terms // TERMS), 2), np.float64)
    CREW.run(len(panels), panels.size * LAY_PRODUCTS, lambda *piece: fill(panels, sizes, *piece))
    return Matrix(panels, sizes)


def _aligned(panels, terms):
    """Make an array of panels at a multiple of 64 bytes: a vector in two lines of the cache takes two loads."""
    words = panels * terms * WIDTH
    room = np.empty(words + WIDTH, np.float32)
    first = WIDTH - room.ctypes.data // 4 % WIDTH
    return room[first : first + words].reshape(panels, terms, WIDTH)


def matrix_of(array) -> Matrix:
    """Lay a matrix out in panels; `array` is float32, (terms, columns), any order."""
    terms, columns = array.shape
    return _matrix(terms, columns, lambda *piece: _lay_columns(array, *piece))


def matrix_of_rows(left, right, rows) -> Matrix:
    """Lay some rows of two matrices, float32 in C order, side by side in panels; `rows` has the row of each term."""
    columns = left.shape[1] + right.shape[1]
    return _matrix(len(rows), columns, lambda *piece: _lay_rows(left, right, rows, *piece))
