"""Element-wise sums of the compiled trainer: the bias gradient, the columns' norms, the gradients of two slices."""

import numpy as np
from numba import njit

from etalstm.golden.arithmetic import plus, times
from etalstm.host.crew import CREW

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
    CREW.share(db.size, order.size * db.size * ADD_PRODUCTS, lambda *piece: _add_delta(delta, order, db, *piece))
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
    CREW.share(norms.size, dw.size * ADD_PRODUCTS, lambda *piece: _add_squares(dw, norms, *piece))
    return norms
