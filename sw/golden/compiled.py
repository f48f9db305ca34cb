"""The reference's training pass, compiled: the same bits, fast enough to train with.

Parallel only over independent results; no sum is ever reordered, no multiply fused with an add. What makes it fast:

- the x part of every step's gate sums, and dx, are done for all steps at once: a sum over k ascending has its x terms
  first, and dx feeds nothing inside the layer;
- flushing costs more than the arithmetic, so before each block of sums the magnitudes of its operands are scanned, and
  where no product, no partial sum can be subnormal, infinite or no number, the plain loop runs (:func:`_is_plain`).
"""

import numpy as np
from numba import get_num_threads, njit, prange, set_num_threads

from etalstm.golden.activation import sigmoid_word, tanh_word
from etalstm.golden.arithmetic import plus, times
from etalstm.golden.passes import LayerBackward, LayerPass
from etalstm.golden.reference import NO_PRUNING

ROWS, TERMS, CHUNK = 256, 64, 16  # sums side by side, terms, and n of one block: 64 KiB of matrix stay in the cache
SERIAL_PRODUCTS, SERIAL_CELLS = 2_000_000, 4096  # below, waking the other threads costs more than they save
ONE, ZERO = np.float32(1), np.float32(0)
INFINITY_BITS = np.uint32(0x7F80_0000)
PLAIN_MINIMUM = 2.0**-102  # 24 bits above the smallest normal number
PLAIN_MAXIMUM = 2.0**126


class Threads:
    """Context in which compiled loops use all of numba's threads, or one; the bits do not depend on it."""

    def __init__(self, parallel: bool):
        self._parallel = parallel

    def __enter__(self):
        self._before = get_num_threads()
        if not self._parallel:
            set_num_threads(1)

    def __exit__(self, *_):
        set_num_threads(self._before)


@njit(cache=True)
def _magnitudes(bits):
    """Give the smallest nonzero and the largest magnitude among words, as words; (0xffffffff, 0) if all are zero."""
    low, high = np.uint32(0xFFFF_FFFF), np.uint32(0)
    for n in range(bits.size):
        word = np.uint32(bits[n] & np.uint32(0x7FFF_FFFF))
        low = min(low, np.uint32(word - np.uint32(1)))  # zero wraps to the top, out of the way
        high = max(high, word)
    return low, high


def magnitudes(array):
    """Give the smallest nonzero and the largest magnitude of a float32 array as floats; (inf, 0) if all are zero.

    Infinity and NaN count as an infinite maximum.
    """
    low, high = _magnitudes(np.ascontiguousarray(array).reshape(-1).view(np.uint32))
    if high >= INFINITY_BITS:
        return 0.0, np.inf
    if high == 0:
        return np.inf, 0.0
    return float(np.uint32(low + 1).view(np.float32)), float(np.uint32(high).view(np.float32))


def _is_plain(terms, matrix, scalars, start):
    """Tell whether sums of `terms` products can do without flushing, given (smallest, largest) magnitudes.

    A product of at least 2^-102 is, after rounding, a multiple of 2^-125, and so is a starting value of at least
    2^-102; a sum of multiples of 2^-125, rounded, is again one, hence zero or a normal number.
    """
    smallest = min(matrix[0] * scalars[0], start[0])
    return smallest >= PLAIN_MINIMUM and terms * matrix[1] * scalars[1] + start[1] < PLAIN_MAXIMUM


# The folds slice contiguous rows and run j from 0: only so does the compiler know that no index wraps, and vectorises.


@njit(cache=True)
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


@njit(cache=True)
def _fold_flushing(total, matrix, scalars, picked, first, last):
    """Do the same with every product and sum flushed."""
    for p in range(picked.size):
        row, x = matrix[picked[p], first:last], scalars[picked[p]]
        for j in range(total.size):
            total[j] = plus(total[j], times(row[j], x))


@njit(parallel=True, cache=True)
def _accumulate(total, matrix, scalars, plain):
    """Add ``matrix[s, :] * scalars[n, s]`` to ``total[n, :]`` over s ascending, skipping zero scalars."""
    count, terms = scalars.shape
    rows = total.shape[1]
    blocks = (rows + ROWS - 1) // ROWS
    for task in prange(blocks * ((count + CHUNK - 1) // CHUNK)):
        first = task % blocks * ROWS
        last = min(first + ROWS, rows)
        begin = task // blocks * CHUNK
        picked = np.empty(TERMS, np.intp)
        for block in range(0, terms, TERMS):
            for n in range(begin, min(begin + CHUNK, count)):
                taken = 0
                for s in range(block, min(block + TERMS, terms)):
                    if scalars[n, s] != 0:
                        picked[taken] = s
                        taken += 1
                if plain:
                    _fold_plain(total[n, first:last], matrix, scalars[n], picked[:taken], first, last)
                else:
                    _fold_flushing(total[n, first:last], matrix, scalars[n], picked[:taken], first, last)


def mac_sums(start, matrix, scalars, matrix_magnitudes=None):
    """Do what :func:`etalstm.golden.reference.mac_sums` does, bit for bit.

    Parameters
    ----------
    start, matrix, scalars : arrays, float32    as there
    matrix_magnitudes : pair of float, optional
        :func:`magnitudes` of `matrix`, if it is known.

    Returns
    -------
    array, float32, (N, R)
    """
    if start is None:
        # -0 is the neutral element of addition: -0 + t is t for every t, +0 and -0 included
        total = np.full((scalars.shape[0], matrix.shape[1]), np.float32(-0.0))
        start_magnitudes = (np.inf, 0.0)
    else:
        total = np.array(start, np.float32, order="C")
        start_magnitudes = magnitudes(total)
    matrix_magnitudes = matrix_magnitudes or magnitudes(matrix)
    scalars = np.ascontiguousarray(scalars)
    plain = _is_plain(matrix.shape[0], matrix_magnitudes, magnitudes(scalars), start_magnitudes)
    with Threads(total.size * matrix.shape[0] > SERIAL_PRODUCTS):
        _accumulate(total, matrix, scalars, plain)
    if start is None:
        total[~scalars.any(axis=1)] = ZERO
    return total


@njit
def _sigmoid(x):
    return np.uint32(sigmoid_word(np.float32(x).view(np.uint32))).view(np.float32)


@njit
def _tanh(x):
    return np.uint32(tanh_word(np.float32(x).view(np.uint32))).view(np.float32)


@njit(parallel=True, cache=True)
def _cells_forward(z, active, thresholds, h_prev, c_prev, h, c, intermediates):
    """Run the B × H cells of one step: :func:`etalstm.golden.cell.cell_forward` and what follows it."""
    batch, units = h.shape
    for n in prange(batch * units):
        b = n // units
        u = n - b * units
        if not active[b]:
            h[b, u] = h_prev[b, u]
            c[b, u] = c_prev[b, u]
            for p in range(6):
                intermediates[p, b, u] = ZERO
            continue
        i, f = _sigmoid(z[b, 4 * u]), _sigmoid(z[b, 4 * u + 1])
        g, o = _tanh(z[b, 4 * u + 2]), _sigmoid(z[b, 4 * u + 3])
        before = c_prev[b, u]
        after = plus(times(f, before), times(i, g))
        bent = _tanh(after)
        c[b, u] = after
        h[b, u] = times(o, bent)
        intermediates[0, b, u] = times(times(g, i), plus(ONE, -i))
        intermediates[1, b, u] = times(times(before, f), plus(ONE, -f))
        intermediates[2, b, u] = times(i, plus(ONE, -times(g, g)))
        intermediates[3, b, u] = times(times(bent, o), plus(ONE, -o))
        intermediates[4, b, u] = times(o, plus(ONE, -times(bent, bent)))
        intermediates[5, b, u] = f
        for p in range(6):
            if abs(intermediates[p, b, u]) < thresholds[p]:
                intermediates[p, b, u] = ZERO


@njit(cache=True)
def _cells_backward(intermediates, active, dy, dh, dc, delta):
    """Go back through the cells of one step: dh becomes dy + dh, dc becomes dc_prev, delta is filled."""
    batch, units = dh.shape
    for b in range(batch):
        for u in range(units):
            dh[b, u] = plus(dy[b, u], dh[b, u])
            if not active[b]:
                delta[b, 4 * u : 4 * u + 4] = ZERO
                continue
            through = plus(dc[b, u], times(dh[b, u], intermediates[4, b, u]))
            for gate in range(3):
                delta[b, 4 * u + gate] = times(through, intermediates[gate, b, u])
            delta[b, 4 * u + 3] = times(dh[b, u], intermediates[3, b, u])
            dc[b, u] = times(through, intermediates[5, b, u])


@njit(cache=True)
def _bias_gradient(delta):
    """Add delta (T·B, 4H), already in the order of the sum, from +0."""
    db = np.zeros(delta.shape[1], np.float32)
    for n in range(delta.shape[0]):
        for r in range(delta.shape[1]):
            db[r] = plus(db[r], delta[n, r])
    return db


@njit(cache=True)
def column_norms(dw):
    """Add the squares of each column of dW, r ascending from +0; float32, (K,)."""
    total = np.zeros(dw.shape[1], np.float32)
    for r in range(dw.shape[0]):
        for k in range(dw.shape[1]):
            total[k] = plus(total[k], times(dw[r, k], dw[r, k]))
    return total


def layer_forward(weights, bias, x, h0, c0, active, thresholds=NO_PRUNING):
    """Do what :func:`etalstm.golden.reference.layer_forward` does, bit for bit."""
    steps, batch, inputs = x.shape
    rows = bias.size
    h = np.empty((steps + 1, *h0.shape), np.float32)
    c = np.empty_like(h)
    h[0], c[0] = h0, c0
    intermediates = np.empty((6, steps, *h0.shape), np.float32)
    thresholds = np.asarray(thresholds, np.float32)
    matrix = np.ascontiguousarray(weights.T)
    recurrent, size = matrix[inputs:], magnitudes(matrix[inputs:])
    x = np.ascontiguousarray(x)
    starts = np.broadcast_to(bias, (steps * batch, rows))
    z_x = mac_sums(starts, matrix[:inputs], x.reshape(-1, inputs)).reshape(steps, batch, rows)
    for t in range(steps):
        z = mac_sums(z_x[t], recurrent, h[t], size)
        with Threads(h0.size > SERIAL_CELLS):
            _cells_forward(z, active[t], thresholds, h[t], c[t], h[t + 1], c[t + 1], intermediates[:, t])
    return LayerPass(x, h, c, intermediates, active)


def layer_backward(weights, forward, dy, dh, dc):
    """Do what :func:`etalstm.golden.reference.layer_backward` does, bit for bit."""
    steps, batch, inputs = forward.x.shape
    rows = weights.shape[0]
    recurrent = np.ascontiguousarray(weights[:, inputs:])
    size = magnitudes(recurrent)
    delta = np.empty((steps, batch, rows), np.float32)
    dh, dc = dh.copy(), dc.copy()
    for t in reversed(range(steps)):
        _cells_backward(forward.intermediates[:, t], forward.active[t], dy[t], dh, dc, delta[t])
        dh_prev = mac_sums(None, recurrent, delta[t], size)
        dh = np.where(forward.active[t][:, None], dh_prev, dh)
    dx = mac_sums(None, np.ascontiguousarray(weights[:, :inputs]), delta.reshape(-1, rows)).reshape(forward.x.shape)
    # terms of dW and db in the order of their sum: t descending, then b ascending
    terms = np.ascontiguousarray(delta[::-1]).reshape(-1, rows)
    xh = np.concatenate([forward.x[::-1], forward.h[-2::-1]], axis=2).reshape(steps * batch, -1)
    dw = mac_sums(None, xh, np.ascontiguousarray(terms.T))
    return LayerBackward(dx, dh, dc, dw, _bias_gradient(terms), column_norms(dw))
