"""Real steps taken out of padded batches and put back, by threads.

A batch is (T, B, W). N of its T·B steps are no padding. Their order is that of
:func:`etalstm.golden.passes.without_padding`.
"""

import numpy as np
from numba import njit

from etalstm.crew import COPY_PRODUCTS, CREW


@njit(nogil=True, cache=True)
def _take(rows, numbers, target, begin, end):
    """Set the rows `begin` to `end` of `target` to those that `numbers` gives, and to zero where it is below 0."""
    for n in range(begin, end):
        now = target[n]
        if numbers[n] < 0:
            now[:] = 0
            continue
        source = rows[numbers[n]]
        for k in range(now.size):
            now[k] = source[k]


def _taken(rows, numbers):
    """Give those of `rows`, (N, W), that `numbers` gives."""
    target = np.empty((len(numbers), rows.shape[1]), rows.dtype)
    CREW.share(len(target), target.size * COPY_PRODUCTS, lambda *piece: _take(rows, numbers, target, *piece))
    return target


def real_steps(array, active):
    """Do what :func:`etalstm.golden.passes.without_padding` does."""
    rows = np.ascontiguousarray(array).reshape(-1, array.shape[2])
    return rows if active.all() else _taken(rows, np.flatnonzero(active))


def padded_steps(terms, active):
    """Undo :func:`real_steps`: (T, B, W) for (N, W); padding is +0."""
    terms, shape = np.ascontiguousarray(terms), (*active.shape, terms.shape[1])
    return terms.reshape(shape) if active.all() else _taken(terms, term_numbers(active).ravel()).reshape(shape)


def term_numbers(active):
    """Number the real steps in their order: int64, (T, B), -1 where there is padding."""
    return np.where(active, active.cumsum().reshape(active.shape), 0) - 1
