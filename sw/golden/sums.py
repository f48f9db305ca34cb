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
from etalstm.golden.tile import ROWS, SIDE, WIDTH, add_flushing, add_rows, add_tile

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
def _count(scalars, n):
    """Count the scalars of a row that are not zero."""
    row, count = scalars[n], 0
    for s in range(row.size):
        count += row[s] != 0
    return count


@njit(nogil=True, cache=True)
def _pick(scalars, rows, picks):
    """Note which terms have a scalar that is not zero in any of some rows.

    Returns
    -------
    how many such terms there are, and whether any of the rows has a zero at one of them
    """
    terms, nonzero = scalars.shape[1], 0
    for n in rows:
        nonzero += _count(scalars, n)
    if nonzero == len(rows) * terms:
        for s in range(terms):
            picks[s] = s
        return terms, False
    count = 0
    for s in range(terms):
        present = False
        for n in rows:
            present |= scalars[n, s] != 0
        picks[count] = s
        count += present
    return count, nonzero < count * len(rows)


@njit(nogil=True, cache=True)
def _mend(before, total, panels, scalars, rows, picks):
    """Repeat those rows in which a sum is zero: only its sign can differ if a product with 0 was added."""
    for r in range(len(rows)):
        zeros = 0
        for p in range(len(panels)):
            for j in range(WIDTH):
                zeros += total[rows[r], p, j] == ZERO
        if zeros:
            total[rows[r]] = before[r, : len(panels)]
            count, _ = _pick(scalars, rows[r : r + 1], picks)
            add_rows(total, rows, r, 1, panels, scalars, picks, count)


@njit(nogil=True, cache=True)
def _copy(total, rows, before):
    """Copy the sums of some rows."""
    for r in range(len(rows)):
        for p in range(total.shape[1]):
            for j in range(WIDTH):
                before[r, p, j] = total[rows[r], p, j]


@njit(nogil=True, cache=True)
def _add_tiles(total, panels, scalars, rows):
    """Add all terms to rows in tiles of ``ROWS``; the panels' terms stay in the cache from tile to tile."""
    tiles = len(rows) // ROWS
    picks, counts = np.empty((tiles, scalars.shape[1]), np.intp), np.empty(tiles, np.intp)
    before, mixed = np.empty((ROWS, SIDE, WIDTH), np.float32), np.empty(tiles, np.bool_)
    few = np.empty(scalars.shape[1], np.intp)
    for tile in range(tiles):
        counts[tile], mixed[tile] = _pick(scalars, rows[tile * ROWS : (tile + 1) * ROWS], picks[tile])
    for panel in range(0, len(panels), SIDE):
        sums, terms = total[:, panel : panel + SIDE], panels[panel : panel + SIDE]
        for tile in range(tiles):
            mine = rows[tile * ROWS : (tile + 1) * ROWS]
            if mixed[tile]:
                _copy(sums, mine, before)
            add_tile(sums, rows, tile * ROWS, terms, scalars, picks[tile], counts[tile])
            if mixed[tile]:
                _mend(before, sums, terms, scalars, mine, few)


@njit(nogil=True, cache=True)
def _add_rest(total, panels, scalars, rows):
    """Add all terms to fewer rows than a tile has."""
    picks, few = np.empty(scalars.shape[1], np.intp), np.empty(scalars.shape[1], np.intp)
    at = 0
    for size in (4, 2, 1):
        while at + size <= len(rows):
            mine = rows[at : at + size]
            count, mixed = _pick(scalars, mine, picks)
            if mixed:
                before = np.empty((size, len(panels), WIDTH), np.float32)
                _copy(total, mine, before)
            add_rows(total, rows, at, size, panels, scalars, picks, count)
            if mixed:
                _mend(before, total, panels, scalars, mine, few)
            at += size


@njit(nogil=True, cache=True)
def _add_block(total, panels, scalars):
    """Add all terms of a block to at most ``CHUNK`` rows, none of which needs flushing.

    Several rows together load a term once, but also multiply it with the zeros among their scalars. So rows in which
    more than half are zeros go one by one.
    """
    picks, dense = np.empty(scalars.shape[1], np.intp), np.empty(len(scalars), np.intp)
    row, found = np.empty(1, np.intp), 0
    for n in range(len(scalars)):
        row[0], count = n, _count(scalars, n)
        if 2 * count >= scalars.shape[1]:
            dense[found] = n
            found += 1
        elif count:
            _pick(scalars, row, picks)
            add_rows(total, row, 0, 1, panels, scalars, picks, count)
    whole = found // ROWS * ROWS
    _add_tiles(total, panels, scalars, dense[:whole])
    _add_rest(total, panels, scalars, dense[whole:found])


@njit(nogil=True, cache=True)
def _add_flushing(total, panels, scalars):
    """Add all terms of a block, every product and every sum flushed."""
    picks, row = np.empty(scalars.shape[1], np.intp), np.empty(1, np.intp)
    for n in range(len(scalars)):
        row[0] = n
        count, _ = _pick(scalars, row, picks)
        for panel in range(len(panels)):
            add_flushing(total, row, 0, panels, panel, scalars, picks, count)


@njit(nogil=True, cache=True)
def _part(array):
    """Copy a part of a matrix into C order, reading it in the order in which it lies."""
    part = np.empty(array.shape, np.float32)
    if array.strides[0] < array.strides[1]:
        for s in range(array.shape[1]):
            for n in range(array.shape[0]):
                part[n, s] = array[n, s]
    else:
        for n in range(array.shape[0]):
            for s in range(array.shape[1]):
                part[n, s] = array[n, s]
    return part


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
            part = _part(scalars[first : first + len(rows), block:stop])
            size, factors = (matrix.sizes[block // TERMS, 0], matrix.sizes[block // TERMS, 1]), magnitudes(part)
            plain = is_plain(stop - block, size, factors, start)
            if plain:
                _add_block(rows, matrix.panels[:, block:stop], part)
            else:
                _add_flushing(rows, matrix.panels[:, block:stop], part)
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
