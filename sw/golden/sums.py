"""The MAC sums, compiled: the order of the reference, as fast as the processor multiplies and adds.

Threads share out independent sums only; no sum is ever reordered, no multiply fused with an add. Flushing costs several
times the arithmetic. So the magnitudes of each block's operands are looked at first. Where no product and no partial
sum can be subnormal, infinite or no number, nothing is flushed (:func:`is_plain`).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.golden.cache import drop_stale
from etalstm.golden.crew import CREW
from etalstm.golden.tile import (
    PANELS,
    ROWS,
    SIDE,
    WIDTH,
    add_column,
    add_flushing,
    add_strip,
    add_tile,
    add_vector,
)

TILES, TERMS = 8, 256
CHUNK = TILES * ROWS
ZERO, MINUS_ZERO = np.float32(0), np.float32(-0.0)
INFINITY_BITS = np.uint32(0x7F80_0000)
PLAIN_MINIMUM = 2.0**-102  # 24 bits above the smallest normal number
PLAIN_MAXIMUM = 2.0**126

drop_stale()


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
def magnitudes(array):
    """Give the smallest nonzero and the largest magnitude of a float32 matrix in C order; (inf, 0) if all are zero.

    Infinity and NaN give (0, inf).
    """
    low, high = np.uint32(0xFFFF_FFFF), np.uint32(0)
    for n in range(len(array)):
        bits = array[n].view(np.uint32)
        for m in range(bits.size):
            word = np.uint32(bits[m] & np.uint32(0x7FFF_FFFF))
            low = min(low, np.uint32(word - np.uint32(1)))  # zero wraps to the top, out of the way
            high = max(high, word)
    if high >= INFINITY_BITS:
        return 0.0, np.inf
    if high == 0:
        return np.inf, 0.0
    return np.float64(np.uint32(low + np.uint32(1)).view(np.float32)), np.float64(np.uint32(high).view(np.float32))


@njit(nogil=True, cache=True)
def is_plain(terms, matrix, scalars, start):
    """Tell whether sums of `terms` products can do without flushing, given (smallest, largest) magnitudes.

    A product of at least 2^-102 is, after rounding, a multiple of 2^-125, and so is a starting value of at least
    2^-102; a sum of multiples of 2^-125, rounded, is again one, hence zero or a normal number.
    """
    if matrix[1] == np.inf or scalars[1] == np.inf or start[1] == np.inf:
        return False
    smallest = min(matrix[0] * scalars[0], start[0])
    return smallest >= PLAIN_MINIMUM and terms * matrix[1] * scalars[1] + start[1] < PLAIN_MAXIMUM


def matrix_of(array) -> Matrix:
    """Lay a matrix out in panels; `array` is float32, (terms, columns)."""
    terms, columns = array.shape
    whole, rest = divmod(columns, WIDTH)
    panels = np.zeros((whole + (rest > 0), terms, WIDTH), np.float32)
    panels[:whole] = array[:, : whole * WIDTH].reshape(terms, whole, WIDTH).transpose(1, 0, 2)
    if rest:
        panels[whole, :, :rest] = array[:, whole * WIDTH :]
    blocks = [np.ascontiguousarray(array[first : first + TERMS]) for first in range(0, terms, TERMS)]
    return Matrix(panels, np.array([magnitudes(block) for block in blocks], np.float64).reshape(-1, 2))


@njit(nogil=True, cache=True)
def _pick(scalars, n, picks):
    """Note which scalars of a row are not zero; gives how many."""
    count = 0
    for s in range(scalars.shape[1]):
        picks[count] = s
        count += scalars[n, s] != 0
    return count


@njit(nogil=True, cache=True)
def _pick_any(scalars, n, picks):
    """Note which terms have a scalar that is not zero in a tile; gives how many, and how many scalars are not zero."""
    count, nonzero = 0, 0
    for s in range(scalars.shape[1]):
        present = 0
        for r in range(ROWS):
            present += scalars[n + r, s] != 0
        picks[count] = s
        count += present > 0
        nonzero += present
    return count, nonzero


@njit(nogil=True, cache=True)
def _add_row(total, panels, scalars, n, picks, count, plain):
    """Add the picked terms to one row."""
    panel = 0
    while plain and panel + PANELS <= len(panels):
        add_strip(total, n, panels, panel, scalars, picks, count)
        panel += PANELS
    while panel < len(panels):
        if plain:
            add_vector(total, n, panels, panel, scalars, picks, count)
        else:
            add_flushing(total, n, panels, panel, scalars, picks, count)
        panel += 1


@njit(nogil=True, cache=True)
def _copy(total, n, before):
    """Copy the sums of a tile's rows."""
    for r in range(ROWS):
        for p in range(total.shape[1]):
            for j in range(WIDTH):
                before[r, p, j] = total[n + r, p, j]


@njit(nogil=True, cache=True)
def _mend(before, total, panels, scalars, n, picks):
    """Repeat those rows of a tile in which a sum is zero: only its sign can differ if a product with 0 was added."""
    for r in range(ROWS):
        zeros = 0
        for p in range(len(panels)):
            for j in range(WIDTH):
                zeros += total[n + r, p, j] == ZERO
        if zeros:
            total[n + r] = before[r, : len(panels)]
            count = _pick(scalars, n + r, picks)
            _add_row(total, panels, scalars, n + r, picks, count, True)


@njit(nogil=True, cache=True)
def _add_tiles(total, panels, scalars, tiles, picks, counts, mixed):
    """Add the picked terms to several tiles, given by their first rows; the panels' terms stay in the cache."""
    before, few = np.empty((ROWS, SIDE, WIDTH), np.float32), np.empty(scalars.shape[1], np.intp)
    for panel in range(0, len(panels), SIDE):
        sums, terms = total[:, panel : panel + SIDE], panels[panel : panel + SIDE]
        for number in range(len(tiles)):
            n = tiles[number]
            if mixed[number]:
                _copy(sums, n, before)
            if len(terms) == SIDE:
                add_tile(sums, n, terms, 0, scalars, picks[number], counts[number])
            else:
                add_column(sums, n, terms, 0, scalars, picks[number], counts[number])
            if mixed[number]:
                _mend(before, sums, terms, scalars, n, few)


@njit(nogil=True, cache=True)
def _add_block(total, panels, scalars, plain):
    """Add all terms of a block to at most ``CHUNK`` rows.

    A tile loads a term once for all its rows, and also multiplies it with the zeros among their scalars. So rows with
    many zeros go one by one.
    """
    picks, counts = np.empty((TILES, scalars.shape[1]), np.intp), np.empty(TILES, np.intp)
    tiles, mixed = np.empty(TILES, np.intp), np.empty(TILES, np.bool_)
    found, n = 0, 0
    while n < len(scalars):
        rows = min(ROWS, len(scalars) - n)
        if plain and rows == ROWS:
            count, nonzero = _pick_any(scalars, n, picks[found])
            if 2 * nonzero >= ROWS * count:
                tiles[found], counts[found], mixed[found] = n, count, nonzero < ROWS * count
                found += 1
                n += rows
                continue
        for row in range(n, n + rows):
            count = _pick(scalars, row, picks[found])
            _add_row(total, panels, scalars, row, picks[found], count, plain)
        n += rows
    _add_tiles(total, panels, scalars, tiles[:found], picks, counts, mixed)


@njit(nogil=True, cache=True)
def accumulate(total, matrix, scalars, begin, end):
    """Add ``matrix[s, :] * scalars[n, s]`` to ``total[n, :]``, s ascending, zero scalars skipped, for n in a range.

    Parameters
    ----------
    total : array, float32, (N, panels, WIDTH), C order
    matrix : Matrix
    scalars : array, float32, (N, terms), any order
    begin, end : int
    """
    terms = matrix.panels.shape[1]
    for first in range(begin, end, CHUNK):
        rows = total[first : min(first + CHUNK, end)]
        flat = rows.reshape(len(rows), total.shape[1] * WIDTH)
        start = magnitudes(flat)
        for block in range(0, terms, TERMS):
            stop = min(block + TERMS, terms)
            part = scalars[first : first + len(rows), block:stop].copy()
            size, factors = (matrix.sizes[block // TERMS, 0], matrix.sizes[block // TERMS, 1]), magnitudes(part)
            plain = is_plain(stop - block, size, factors, start)
            _add_block(rows, matrix.panels[:, block:stop], part, plain)
            grown = PLAIN_MINIMUM, start[1] + (stop - block) * size[1] * factors[1]
            start = grown if plain else magnitudes(flat)


@njit(nogil=True, cache=True)
def finish_empty(total, scalars, begin, end):
    """Give sums that started from -0, the neutral element of addition, and met no term the value +0."""
    for n in range(begin, end):
        empty = True
        for s in range(scalars.shape[1]):
            if scalars[n, s] != 0:
                empty = False
                break
        if empty:
            total[n] = ZERO


def mac_sums(start, matrix, scalars):
    """Do what :func:`etalstm.golden.reference.mac_sums` does, bit for bit."""
    columns = matrix.shape[1]
    total = packed_sums(start, matrix_of(matrix), scalars)
    return np.ascontiguousarray(total.reshape(len(total), -1)[:, :columns])


def packed_sums(start, matrix: Matrix, scalars):
    """Do the same and leave the sums in panels: array, float32, (N, panels, WIDTH)."""
    total = np.full((len(scalars), len(matrix.panels), WIDTH), MINUS_ZERO if start is None else ZERO)
    if start is not None:
        total.reshape(len(total), -1)[:, : start.shape[1]] = start

    def piece(begin, end):
        accumulate(total, matrix, scalars, begin, end)
        if start is None:
            finish_empty(total, scalars, begin, end)

    CREW.share(total.shape[0], total.size * scalars.shape[1], piece)
    return total
