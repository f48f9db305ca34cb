"""The MAC sums, compiled: the order of the reference, as fast as the processor multiplies and adds.

Threads share out independent sums only; no sum is ever reordered, no multiply fused with an add. Flushing costs several
times the arithmetic. So the magnitudes of each block's operands are looked at first (:func:`kind_of`). Where no product
and no partial sum can be subnormal, nothing is flushed. Where some can, each tile of the block is looked at by itself.
Where one can be infinite or no number, rows go one by one.

The element-wise sums are here, too: the bias gradient, the columns' norms, the gradients of two slices.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.golden.arithmetic import plus, times
from etalstm.golden.fast.packing import TERMS, Matrix, copy_rows_across, magnitudes, matrix_of, matrix_of_rows, survey
from etalstm.golden.fast.tile import ROWS, SIDE, SIDES, WIDTH, add_any, add_flushing, add_tile, side_of
from etalstm.host.crew import CREW

TILES = 8
CHUNK = TILES * ROWS
SPAN = max(SIDES)  # panels whose terms stay in the second cache while all rows of a block are added to
ZERO, MINUS_ZERO = np.float32(0), np.float32(-0.0)
# A sum with a product p of at least this size is never subnormal. Either the other number is less than p/2: more than
# p/2 is left. Or it is a multiple of the smallest normal number, 2^-126, as p is: then so is their rounded sum.
PLAIN_MINIMUM = 2.0**-102
FINITE_MAXIMUM = 2.0**126
# What sums and products can be: zeros and normal numbers; subnormal ones, too; also infinities and NaNs.
PLAIN, FINITE, ANY = range(3)


@njit(nogil=True, cache=True)
def kind_of(terms, matrix, scalars, start):
    """Tell what sums of `terms` products can come to: PLAIN, FINITE or ANY.

    `matrix` and `scalars` have the smallest magnitude that is not zero, and the largest one, `start` has the largest
    magnitude of what the products are added to.
    """
    if matrix[1] == np.inf or scalars[1] == np.inf or start == np.inf:
        return ANY
    if terms * matrix[1] * scalars[1] + start >= FINITE_MAXIMUM:
        return ANY
    return PLAIN if matrix[0] * scalars[0] >= PLAIN_MINIMUM else FINITE


class Block(NamedTuple):
    """Some terms of some sums.

    Members
    -------
    total : array, float32, (rows, panels, WIDTH)
    panels : array, float32, (panels, terms, WIDTH)
    scalars : array, float32, (rows, terms), C order
    first, stop : int                       the block has the terms from `first` to `stop`
    nonzero : array, uint32, (rows,)        how many of the block's scalars are not zero
    least : array, float32, (rows,)         the smallest magnitude among these
    least_of_panel : array, float64, (panels,)    the same of the block's terms
    """

    total: np.ndarray
    panels: np.ndarray
    scalars: np.ndarray
    first: int
    stop: int
    nonzero: np.ndarray
    least: np.ndarray
    least_of_panel: np.ndarray


class Tile(NamedTuple):
    """Rows of a block that are added to together: ``chosen[at : at + rows]``.

    The terms are ``picks[begin:end]``. `mixed` tells whether any of the rows has a zero scalar at one of them.
    """

    at: int
    rows: int
    begin: int
    end: int
    mixed: bool


@njit(nogil=True, cache=True)
def _tile_of(block, chosen, at, rows, picks, begin):
    """Make a tile; write into `picks` those terms that have a scalar that is not zero in any of its rows."""
    terms, nonzero = block.stop - block.first, 0
    for n in range(at, at + rows):
        nonzero += block.nonzero[chosen[n]]
    if nonzero == rows * terms:
        for s in range(terms):
            picks[begin + s] = block.first + s
        return Tile(at, rows, begin, begin + terms, False)
    end = begin
    for s in range(block.first, block.stop):
        present = False
        for n in range(at, at + rows):
            present |= block.scalars[chosen[n], s] != 0
        picks[end] = s
        end += present
    return Tile(at, rows, begin, end, nonzero < (end - begin) * rows)


@njit(nogil=True, cache=True)
def _repeat(block, chosen, at, left, panel, side, plain):
    """Add the block's terms, in some panels, to those rows that a tile has left as they were: one by one."""
    total, panels, scalars = block.total, block.panels, block.scalars
    picks = np.empty(block.stop - block.first, np.intp)
    while left:
        if left & 1:
            end = _tile_of(block, chosen, at, 1, picks, 0).end
            for p in range(panel, panel + side):
                if plain:
                    add_tile(total, chosen, at, 1, panels, p, False, scalars, picks, 0, end, False)
                else:
                    add_flushing(total, chosen, at, 1, panels, p, scalars, picks, 0, end, False)
        at, left = at + 1, left >> 1


@njit(nogil=True, cache=True)
def _tiles_of(block, chosen, picks):
    """Divide the block's rows among tiles: among those of ``ROWS`` first, then among those of 4, 2 and 1.

    Several rows together load a term once, but also multiply it with the zeros among their scalars. So rows in which
    more than half are zeros go one by one. `chosen` gets the rows in the order of the tiles, `picks` the tiles' terms.
    """
    terms, dense = block.stop - block.first, 0
    for n in range(len(block.scalars)):
        if 2 * block.nonzero[n] >= terms:
            chosen[dense] = n
            dense += 1
    tiles = [_tile_of(block, chosen, n * ROWS, ROWS, picks, n * ROWS * terms) for n in range(dense // ROWS)]
    at = len(tiles) * ROWS
    for rows in (4, 2, 1):
        while at + rows <= dense:
            tiles.append(_tile_of(block, chosen, at, rows, picks, at * terms))
            at += rows
    for n in range(len(block.scalars)):
        if 0 < 2 * block.nonzero[n] < terms:
            chosen[at] = n
            tiles.append(_tile_of(block, chosen, at, 1, picks, at * terms))
            at += 1
    return tiles


@njit(nogil=True, cache=True)
def _add_span(block, chosen, picks, tiles, first, stop):
    """Add the block's terms to the rows of all tiles, in the panels from `first` to `stop`."""
    # Inside the loops nothing may take a reference to an array: counting references took 6 % of the time of a tile.
    total, panels, scalars = block.total, block.panels, block.scalars
    for panel in range(first, stop, SIDE):  # its terms stay in the first cache from tile to tile
        side = min(SIDE, stop - panel)
        for at, rows, begin, end, mixed in tiles:
            if rows < ROWS:
                break
            left = add_tile(total, chosen, at, rows, panels, panel, side == SIDE, scalars, picks, begin, end, mixed)
            if left:
                _repeat(block, chosen, at, left, panel, side, True)
    for at, rows, begin, end, mixed in tiles:
        panel = stop if rows == ROWS else first
        while panel < stop:
            wide = panel + side_of(rows) <= stop
            side = side_of(rows) if wide else 1
            left = add_tile(total, chosen, at, rows, panels, panel, wide, scalars, picks, begin, end, mixed)
            if left:
                _repeat(block, chosen, at, left, panel, side, True)
            panel += side


@njit(nogil=True, cache=True)
def _is_plain(block, chosen, at, rows, panel):
    """Tell whether the sums of a tile in a panel do without flushing."""
    least = np.float32(np.inf)
    for n in range(at, at + rows):
        least = min(least, block.least[chosen[n]])
    return least * block.least_of_panel[panel] >= PLAIN_MINIMUM


@njit(nogil=True, cache=True)
def _add_finite(block, chosen, picks, tiles):
    """Add the block's terms to the rows of all tiles; flush those tiles in which a result could be subnormal."""
    total, panels, scalars = block.total, block.panels, block.scalars
    for panel in range(len(panels)):
        for at, rows, begin, end, mixed in tiles:
            plain = _is_plain(block, chosen, at, rows, panel)
            if plain:
                left = add_tile(total, chosen, at, rows, panels, panel, False, scalars, picks, begin, end, mixed)
            else:
                left = add_flushing(total, chosen, at, rows, panels, panel, scalars, picks, begin, end, mixed)
            if left:
                _repeat(block, chosen, at, left, panel, 1, plain)


@njit(nogil=True, cache=True)
def _add_block(block, plain):
    """Add the terms of a block to at most ``CHUNK`` rows, `plain` or finite."""
    picks = np.empty(len(block.scalars) * (block.stop - block.first), np.intp)
    chosen = np.empty(len(block.scalars), np.intp)
    tiles = _tiles_of(block, chosen, picks)
    if not plain:
        _add_finite(block, chosen, picks, tiles)
        return
    for first in range(0, len(block.panels), SPAN):
        _add_span(block, chosen, picks, tiles, first, min(first + SPAN, len(block.panels)))


@njit(nogil=True, cache=True)
def _add_any(block):
    """Add the terms of a block row by row: the product of a zero scalar with an infinity would be a NaN."""
    picks, row = np.empty(block.stop - block.first, np.intp), np.empty(1, np.intp)
    for n in range(len(block.scalars)):
        row[0] = n
        end = _tile_of(block, row, 0, 1, picks, 0).end
        for panel in range(len(block.panels)):
            add_any(block.total, row, 0, block.panels, panel, block.scalars, picks, 0, end, False)


@njit(nogil=True, cache=True)
def _block_of(total, matrix, scalars, first, stop):
    """Make a block; give it with the (smallest, largest) magnitudes of its terms and of its scalars."""
    sizes = matrix.sizes[:, first // TERMS]
    nonzero, least = np.empty(len(scalars), np.uint32), np.empty(len(scalars), np.float32)
    factors = survey(scalars, first, stop, nonzero, least)
    block = Block(total, matrix.panels, scalars, first, stop, nonzero, least, sizes[:, 0])
    return block, (sizes[:, 0].min(), sizes[:, 1].max()), factors


@njit(nogil=True, cache=True)
def _accumulate_chunk(total, matrix, scalars):
    """Do what :func:`accumulate` does with at most ``CHUNK`` rows."""
    start = magnitudes(total)[1]
    for first in range(0, scalars.shape[1], TERMS):
        terms = min(TERMS, scalars.shape[1] - first)
        block, sizes, factors = _block_of(total, matrix, scalars, first, first + terms)
        kind = kind_of(terms, sizes, factors, start)
        if kind == ANY:
            _add_any(block)
            start = magnitudes(total)[1]
        else:
            _add_block(block, kind == PLAIN)
            start += terms * sizes[1] * factors[1]


@njit(nogil=True, cache=True)
def accumulate(total, matrix, scalars, begin, end):
    """Add ``matrix[s, :] * scalars[n, s]`` to ``total[n, :]``, s ascending, zero scalars skipped, for n in a range.

    `total` is float32, (N, panels, WIDTH), `scalars` float32, (N, terms), both in C order.
    """
    for first in range(begin, end, CHUNK):
        last = min(first + CHUNK, end)
        _accumulate_chunk(total[first:last], matrix, scalars[first:last])


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


@njit(nogil=True, cache=True)
def _accumulate_gradient(total, matrix, delta, order, begin, end):
    """Set the rows `begin` to `end` of :func:`gradient_sums`; a chunk's δ are transposed at a time."""
    for first in range(begin, end, CHUNK):
        last = min(first + CHUNK, end)
        scalars = np.empty((last - first, order.size), np.float32)
        copy_rows_across(delta[:, first:last], order, scalars)
        total[first:last] = MINUS_ZERO
        _accumulate_chunk(total[first:last], matrix, scalars)
        finish_empty(total[first:last], scalars, 0, last - first)


def mac_sums(start, matrix, scalars):
    """Do what :func:`etalstm.golden.product.mac_sums` does, bit for bit."""
    return _columns(packed_sums(start, matrix_of(matrix), np.ascontiguousarray(scalars)), matrix.shape[1])


def packed_sums(start, matrix: Matrix, scalars):
    """Do the same and leave the sums in panels: array, float32, (N, panels, WIDTH); scalars in C order."""
    total = np.empty((len(scalars), len(matrix.panels), WIDTH), np.float32)
    flat = total.reshape(len(scalars), -1)

    def piece(begin, end):
        if start is None:
            total[begin:end] = MINUS_ZERO
        else:
            flat[begin:end, : start.shape[1]], flat[begin:end, start.shape[1] :] = start[begin:end], ZERO
        accumulate(total, matrix, scalars, begin, end)
        if start is None:
            finish_empty(total, scalars, begin, end)

    CREW.run(len(total), total.size * scalars.shape[1], piece)
    return total


def gradient_sums(x, h, rows, delta, order):
    """Do what :func:`mac_sums` does for dW, without arrays of [x, h] and δ in the order of the terms.

    Parameters
    ----------
    x, h : arrays, float32, (N of all steps, I) and (the same, H), C order
    rows : array, int64, (terms,)       the row of x and h of each term
    delta : array, float32, (N of the real steps, 4H), C order
    order : array, int64, (terms,)      the row of δ of each term

    Returns float32, (4H, I + H): a sum starts from its first term, δ of zero are skipped.
    """
    matrix = matrix_of_rows(x, h, rows)
    total = np.empty((delta.shape[1], len(matrix.panels), WIDTH), np.float32)
    products = total.size * order.size
    CREW.run(len(total), products, lambda *piece: _accumulate_gradient(total, matrix, delta, order, *piece))
    return _columns(total, x.shape[1] + h.shape[1])


def _columns(total, columns: int):
    """Take sums out of their panels."""
    return np.ascontiguousarray(total.reshape(len(total), -1)[:, :columns])


ADD_PRODUCTS = 16
"""Products that take as long as an element-wise sum of words that come from memory."""


@njit(nogil=True, cache=True)
def _add_delta(delta, order, db, begin, end):
    """Add the columns `begin` to `end` of those rows of delta (N, 4H) that `order` numbers, one after the other."""
    total = db[begin:end]
    for n in order:
        row = delta[n, begin:end]
        for r in range(total.size):
            total[r] = plus(total[r], row[r])


def bias_gradient(delta, order):
    """Add those rows of delta, float32, (N, 4H), that `order` numbers, one after the other, from +0; float32, (4H,)."""
    db = np.zeros(delta.shape[1], np.float32)
    CREW.run(db.size, order.size * db.size * ADD_PRODUCTS, lambda *piece: _add_delta(delta, order, db, *piece))
    return db


@njit(nogil=True, cache=True)
def add_arrays(a, b):
    """Add two contiguous arrays of one shape, element by element."""
    total, left, right = np.empty_like(a), a.reshape(-1), b.reshape(-1)
    flat = total.reshape(-1)
    for n in range(flat.size):
        flat[n] = plus(left[n], right[n])
    return total


@njit(nogil=True, cache=True)
def _add_squares(dw, norms, begin, end):
    """Add the squares of the columns `begin` to `end` of dW."""
    total = norms[begin:end]
    for r in range(dw.shape[0]):
        row = dw[r, begin:end]
        for k in range(total.size):
            total[k] = plus(total[k], times(row[k], row[k]))


def column_norms(dw):
    """Add the squares of each column of dW, r ascending from +0; float32, (K,)."""
    norms = np.zeros(dw.shape[1], np.float32)
    CREW.run(norms.size, dw.size * ADD_PRODUCTS, lambda *piece: _add_squares(dw, norms, *piece))
    return norms
