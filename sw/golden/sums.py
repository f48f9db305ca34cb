"""The MAC sums, compiled: the order of the reference, as fast as memory gives.

Threads share out independent sums only; no sum is ever reordered, no multiply fused with an add. Flushing costs more
than the arithmetic, so before each block of sums the magnitudes of its operands are scanned, and where no product, no
partial sum can be subnormal, infinite or no number, the plain loop runs (:func:`is_plain`).
"""

import numpy as np
from numba import njit

from etalstm.golden.arithmetic import plus, times
from etalstm.golden.cache import drop_stale
from etalstm.golden.crew import CREW

ROWS, TERMS, CHUNK = 256, 64, 64  # sums side by side, terms, and n of one block: 64 KiB of matrix stay in the cache
ZERO, MINUS_ZERO = np.float32(0), np.float32(-0.0)
INFINITY_BITS = np.uint32(0x7F80_0000)
PLAIN_MINIMUM = 2.0**-102  # 24 bits above the smallest normal number
PLAIN_MAXIMUM = 2.0**126

drop_stale()


@njit(nogil=True, cache=True)
def magnitudes(array):
    """Give the smallest nonzero and the largest magnitude of a contiguous float32 array; (inf, 0) if all are zero.

    Infinity and NaN give (0, inf).
    """
    bits = array.reshape(-1).view(np.uint32)
    low, high = np.uint32(0xFFFF_FFFF), np.uint32(0)
    for n in range(bits.size):
        word = np.uint32(bits[n] & np.uint32(0x7FFF_FFFF))
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


# The folds slice contiguous rows and run j from 0: only so does the compiler know that no index wraps, and vectorises.


@njit(nogil=True, cache=True)
def _fold_plain(total, matrix, scalars, picked, first, last):
    """Add columns `first` to `last` of the picked rows of `matrix`, times their scalars, to `total`, four at a time."""
    n = 0
    while n + 4 <= picked.size:
        s0, s1, s2, s3 = picked[n], picked[n + 1], picked[n + 2], picked[n + 3]
        m0, m1, m2, m3 = matrix[s0, first:last], matrix[s1, first:last], matrix[s2, first:last], matrix[s3, first:last]
        x0, x1, x2, x3 = scalars[s0], scalars[s1], scalars[s2], scalars[s3]
        for j in range(total.size):
            total[j] = (((total[j] + m0[j] * x0) + m1[j] * x1) + m2[j] * x2) + m3[j] * x3
        n += 4
    for p in range(n, picked.size):
        row, x = matrix[picked[p], first:last], scalars[picked[p]]
        for j in range(total.size):
            total[j] = total[j] + row[j] * x


@njit(nogil=True, cache=True)
def _fold_four(total, matrix, scalars, begin, end, first, last):
    """Do the same for four sums at once, n = 0 to 3, taking all terms `begin` to `end`: a matrix row is loaded once."""
    t0, t1, t2, t3 = total[0, first:last], total[1, first:last], total[2, first:last], total[3, first:last]
    s = begin
    while s + 4 <= end:
        m0, m1, m2, m3 = (matrix[s, first:last], matrix[s + 1, first:last], matrix[s + 2, first:last],
                          matrix[s + 3, first:last])  # fmt: skip
        a0, a1, a2, a3 = scalars[0, s], scalars[0, s + 1], scalars[0, s + 2], scalars[0, s + 3]
        b0, b1, b2, b3 = scalars[1, s], scalars[1, s + 1], scalars[1, s + 2], scalars[1, s + 3]
        c0, c1, c2, c3 = scalars[2, s], scalars[2, s + 1], scalars[2, s + 2], scalars[2, s + 3]
        d0, d1, d2, d3 = scalars[3, s], scalars[3, s + 1], scalars[3, s + 2], scalars[3, s + 3]
        for j in range(t0.size):
            w0, w1, w2, w3 = m0[j], m1[j], m2[j], m3[j]
            t0[j] = (((t0[j] + w0 * a0) + w1 * a1) + w2 * a2) + w3 * a3
            t1[j] = (((t1[j] + w0 * b0) + w1 * b1) + w2 * b2) + w3 * b3
            t2[j] = (((t2[j] + w0 * c0) + w1 * c1) + w2 * c2) + w3 * c3
            t3[j] = (((t3[j] + w0 * d0) + w1 * d1) + w2 * d2) + w3 * d3
        s += 4
    for rest in range(s, end):
        row = matrix[rest, first:last]
        a0, b0, c0, d0 = scalars[0, rest], scalars[1, rest], scalars[2, rest], scalars[3, rest]
        for j in range(t0.size):
            t0[j] = t0[j] + row[j] * a0
            t1[j] = t1[j] + row[j] * b0
            t2[j] = t2[j] + row[j] * c0
            t3[j] = t3[j] + row[j] * d0


@njit(nogil=True, cache=True)
def _fold_flushing(total, matrix, scalars, picked, first, last):
    """Do the same with every product and sum flushed."""
    for p in range(picked.size):
        row, x = matrix[picked[p], first:last], scalars[picked[p]]
        for j in range(total.size):
            total[j] = plus(total[j], times(row[j], x))


@njit(nogil=True, cache=True)
def _all_nonzero(scalars, n, begin, end):
    """Tell whether the scalars `begin` to `end` of four sums from n on are all nonzero."""
    zeros = 0
    for m in range(n, n + 4):
        for s in range(begin, end):
            zeros += scalars[m, s] == 0
    return zeros == 0


@njit(nogil=True, cache=True)
def accumulate(total, matrix, scalars, plain, begin, end):
    """Add ``matrix[s, :] * scalars[n, s]`` to ``total[n, :]``, s ascending, zero scalars skipped, for n in a range."""
    terms, rows = matrix.shape
    picked = np.empty(TERMS, np.intp)
    for chunk in range(begin, end, CHUNK):
        chunk_end = min(chunk + CHUNK, end)
        for first in range(0, rows, ROWS):
            last = min(first + ROWS, rows)
            for block in range(0, terms, TERMS):
                stop = min(block + TERMS, terms)
                n = chunk
                while n < chunk_end:
                    if plain and n + 4 <= chunk_end and _all_nonzero(scalars, n, block, stop):
                        _fold_four(total[n : n + 4], matrix, scalars[n : n + 4], block, stop, first, last)
                        n += 4
                        continue
                    taken = 0
                    for s in range(block, stop):
                        if scalars[n, s] != 0:
                            picked[taken] = s
                            taken += 1
                    if plain:
                        _fold_plain(total[n, first:last], matrix, scalars[n], picked[:taken], first, last)
                    else:
                        _fold_flushing(total[n, first:last], matrix, scalars[n], picked[:taken], first, last)
                    n += 1


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
    matrix, scalars = np.ascontiguousarray(matrix), np.ascontiguousarray(scalars)
    if start is None:
        total = np.full((scalars.shape[0], matrix.shape[1]), MINUS_ZERO)
        start_magnitudes = (np.inf, 0.0)
    else:
        total = np.array(start, np.float32, order="C")
        start_magnitudes = magnitudes(total)
    plain = is_plain(matrix.shape[0], magnitudes(matrix), magnitudes(scalars), start_magnitudes)

    def piece(begin, end):
        accumulate(total, matrix, scalars, plain, begin, end)
        if start is None:
            finish_empty(total, scalars, begin, end)

    CREW.share(total.shape[0], total.size * matrix.shape[0], piece)
    return total
