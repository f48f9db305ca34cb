"""Delta inputs, compiled: the bits of :mod:`etalstm.golden.cell`.

Without delta inputs every step is a refresh step. Then the values last sent are the values themselves: one array.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.formats.codec import is_kept
from etalstm.golden.arithmetic import plus
from etalstm.golden.fast.sums import MINUS_ZERO, ZERO
from etalstm.host.crew import CREW


class Sender(NamedTuple):
    """How a layer broadcasts x or h.

    At steps that are `refreshed`, bool, (T,), everything is sent; Θ of the others is `threshold`. `sent`, float32,
    (T, B, N), is what each element was last sent as.
    """

    refreshed: np.ndarray
    threshold: np.float32
    sent: np.ndarray


@njit(nogil=True, cache=True)
def send(values, real, t, sender, broadcast, begin, end):
    """Broadcast some sequences' values of step t; fills in what they were sent as.

    `values` are float32, (B, N). `real`, bool, (B,), is False where they are padding, of which only a refresh step
    sends anything. `broadcast`, (B, N), gets the values at a refresh step, else by how much they moved.
    """
    for b in range(begin, end):
        now = sender.sent[t, b]
        if sender.refreshed[t]:
            for n in range(now.size):  # assigning whole rows takes Numba seconds to compile
                broadcast[b, n] = now[n] = values[b, n]
            continue
        before = sender.sent[t - 1, b]
        for n in range(now.size):
            moved = plus(values[b, n], -before[n])
            taken = real[b] and is_kept(moved, sender.threshold)
            broadcast[b, n] = moved if taken else ZERO
            now[n] = values[b, n] if taken else before[n]


@njit(nogil=True, cache=True)
def _send_steps(x, active, sender, broadcast, begin, end):
    for t in range(len(x)):
        send(x[t], active[t], t, sender, broadcast[t], begin, end)


def send_inputs(x, active, delta_inputs):
    """Broadcast the x of all steps; gives what was broadcast, and what x was last sent as: float32, (T, B, I)."""
    if delta_inputs.off:
        return x, x
    x = np.ascontiguousarray(x)
    broadcast = np.empty_like(x)
    sender = Sender(delta_inputs.refreshed(len(x)), np.float32(delta_inputs.x), np.empty_like(x))
    CREW.run(x.shape[1], x.size, lambda begin, end: _send_steps(x, active, sender, broadcast, begin, end))
    return broadcast, sender.sent


def x_starts(bias, active, delta_inputs):
    """Give where the sums of the real steps start: from the bias at refresh steps, elsewhere from their first term.

    The result is float32, (real steps of all sequences, 4H).
    """
    if delta_inputs.off:
        return np.broadcast_to(bias, (int(np.count_nonzero(active)), bias.size))
    refreshed = delta_inputs.refreshed(len(active))[np.nonzero(active)[0]]
    return np.where(refreshed[:, None], bias, MINUS_ZERO)


@njit(nogil=True, cache=True)
def add_before(sums, numbers, x_moved, broadcast, begin, end):
    """Add the gate sums of the step before to what the elements that moved since have added up to.

    Parameters
    ----------
    sums : array, float32, (N, 4H or more)   of the N real steps of all sequences
    numbers : array, int64, (2, B)           where in `sums` the step before is, and the step; below 0: padding
    x_moved : array, bool, (N,)              False where nothing of x was broadcast
    broadcast : array, float32, (B, H)       what was broadcast of h
    """
    for b in range(begin, end):
        if numbers[1, b] < 0:
            continue
        now, before = sums[numbers[1, b]], sums[numbers[0, b]]
        if not x_moved[numbers[1, b]] and not broadcast[b].any():
            now[:] = ZERO  # it started from -0 and met no term
        for r in range(now.size):
            now[r] = plus(now[r], before[r])


@njit(nogil=True, cache=True)
def collect(sums, rows, t, sender, collected, begin, end):
    """Turn the sums Wᵀδ of step t into the gradients of the elements that were sent at t. Those of all others are +0.

    Parameters
    ----------
    sums : array, float32, (rows, N or more)
    rows : array, int64, (B,)              which row of `sums` is that of a sequence; below 0: padding, its sums are 0
    collected : array, float32, (B, N)     the gradients that wait for the step at which their element was sent
    """
    for b in range(begin, end):
        now, before = sender.sent[t, b], sender.sent[t - 1, b]  # no step before the first matters: all is sent there
        row = rows[b]
        for n in range(now.size):
            whole = plus(collected[b, n], sums[row, n] if row >= 0 else ZERO)
            taken = sender.refreshed[t] or plus(now[n], -before[n]) != 0
            collected[b, n] = MINUS_ZERO if taken else whole
            if row >= 0:
                sums[row, n] = whole if taken else ZERO


@njit(nogil=True, cache=True)
def _collect_steps(dx, skipped, sender, begin, end):
    collected, rows = np.full(dx.shape[1:], MINUS_ZERO), np.arange(dx.shape[1])
    for t in range(len(dx) - 1, -1, -1):
        if skipped[t]:
            collected[begin:end] = MINUS_ZERO
        else:
            collect(dx[t], rows, t, sender, collected, begin, end)


def collect_inputs(dx, forward):
    """Turn the sums Wᵀδ of all steps, (T, B, I), into the gradients of x, in place; they are +0 at skipped steps."""
    if forward.delta_inputs.off:
        return dx
    sender = Sender(forward.delta_inputs.refreshed(len(dx)), np.float32(forward.delta_inputs.x), forward.x_sent)
    CREW.run(dx.shape[1], dx.size, lambda begin, end: _collect_steps(dx, forward.skipped, sender, begin, end))
    return dx
