"""The reference's training pass, compiled: the same bits, fast enough to train with.

The x part of every step's gate sums, and dx, are done for all steps at once: a sum over k ascending has its x terms
first, and dx feeds nothing inside the layer. Sequences of a batch meet only in dW and db, so a thread takes its
sequences through all steps without waiting for another.

No product is spent on padding: x and δ are laid out without it, and the h of a sequence that has ended is broadcast as
zeros.
"""

import numpy as np
from numba import njit

from etalstm.codec import is_kept, rounded
from etalstm.golden.activation import activation_of
from etalstm.golden.arithmetic import finish, plus, times
from etalstm.golden.crew import CREW
from etalstm.golden.packing import matrix_of
from etalstm.golden.passes import LayerBackward, LayerPass, skipped_steps
from etalstm.golden.reference import DENSE
from etalstm.golden.sums import MINUS_ZERO, ZERO, accumulate, finish_empty, gradient_sums, mac_sums, packed_sums
from etalstm.slices import slice_ranges, tree_total

ONE = np.float32(1)


@njit(nogil=True, cache=True)
def _activate(sums, gates):
    """Apply the gates' functions to one sequence's sums: i, f, g, o of each unit in turn."""
    for n in range(gates.size):
        gates[n] = activation_of(sums[n], n & 3 == 2)


@njit(nogil=True, cache=True)
def _cell_forward(gates, before, c, h, bent):
    """Run the cells of one sequence: the equations of :data:`etalstm.cells.lstm.LSTM`; `bent` gets tanh of c."""
    for u in range(c.size):
        c[u] = plus(times(gates[4 * u + 1], before[u]), times(gates[4 * u], gates[4 * u + 2]))
    for u in range(c.size):
        bent[u] = activation_of(c[u], True)
    for u in range(c.size):
        h[u] = times(gates[4 * u + 3], bent[u])


@njit(nogil=True, cache=True)
def _local_gradients(gates, before, bent, intermediates, t, b):
    """Compute the local gradients of one sequence's cells."""
    p_i, p_f, p_g = intermediates[0, t, b], intermediates[1, t, b], intermediates[2, t, b]
    p_o, p_s, p_r = intermediates[3, t, b], intermediates[4, t, b], intermediates[5, t, b]
    for u in range(bent.size):
        i, f, g, o = gates[4 * u], gates[4 * u + 1], gates[4 * u + 2], gates[4 * u + 3]
        p_i[u] = times(times(g, i), plus(ONE, -i))
        p_f[u] = times(times(before[u], f), plus(ONE, -f))
        p_g[u] = times(i, plus(ONE, -times(g, g)))
        p_o[u] = times(times(bent[u], o), plus(ONE, -o))
        p_s[u] = times(o, plus(ONE, -times(bent[u], bent[u])))
        p_r[u] = f


@njit(nogil=True, cache=True)
def _compress(intermediates, t, b, storage):
    """Leave of one sequence's local gradients what a stream keeps: :func:`etalstm.golden.cell.stored`."""
    compressed, bf16, thresholds = storage
    for p in range(len(thresholds) if compressed else 0):
        kept, threshold = intermediates[p, t, b], thresholds[p]
        for u in range(kept.size):
            value = kept[u] if is_kept(kept[u], threshold) else ZERO
            kept[u] = rounded(value) if bf16 else value


@njit(nogil=True, cache=True)
def _cells_forward(z, t, active, skipped, storage, h, c, intermediates, begin, end):
    """Run the cells of step t, whose sums are z, sequence by sequence."""
    gates, bent = np.empty(4 * h.shape[2], np.float32), np.empty(h.shape[2], np.float32)
    for b in range(begin, end):
        if not active[t, b]:
            h[t + 1, b], c[t + 1, b] = h[t, b], c[t, b]
            intermediates[:, t, b] = ZERO
            continue
        _activate(z[b], gates)
        _cell_forward(gates, c[t, b], c[t + 1, b], h[t + 1, b], bent)
        if skipped[t]:
            intermediates[:, t, b] = ZERO
        else:
            _local_gradients(gates, c[t, b], bent, intermediates, t, b)
            _compress(intermediates, t, b, storage)


@njit(nogil=True, cache=True)
def _steps_forward(z, recurrent, active, skipped, storage, h, c, intermediates, begin, end):
    """Take the sequences `begin` to `end` through all steps; z holds the x part of the gate sums and gets the rest."""
    broadcast = np.zeros(h.shape[1:], np.float32)
    for t in range(z.shape[0]):
        for b in range(begin, end):
            if active[t, b]:
                broadcast[b] = h[t, b]
            else:
                broadcast[b] = ZERO
        accumulate(z[t], recurrent, broadcast, begin, end)
        sums = z[t].reshape(z.shape[1], z.shape[2] * z.shape[3])
        _cells_forward(sums, t, active, skipped, storage, h, c, intermediates, begin, end)


@njit(nogil=True, cache=True)
def _cell_backward(intermediates, t, b, dh, dc, delta):
    """Go back through the cells of one sequence: dc becomes dc_prev, δ is filled, four gates of each unit in turn."""
    p_i, p_f, p_g = intermediates[0, t, b], intermediates[1, t, b], intermediates[2, t, b]
    p_o, p_s, p_r = intermediates[3, t, b], intermediates[4, t, b], intermediates[5, t, b]
    for u in range(dh.size):
        through = plus(dc[u], times(dh[u], p_s[u]))
        delta[4 * u] = times(through, p_i[u])
        delta[4 * u + 1] = times(through, p_f[u])
        delta[4 * u + 2] = times(through, p_g[u])
        delta[4 * u + 3] = times(dh[u], p_o[u])
        dc[u] = times(through, p_r[u])


@njit(nogil=True, cache=True)
def _cells_backward(intermediates, t, active, dy, dh, dc, whole, begin, end):
    """Go back through the cells of step t: dh becomes dy + dh, dc becomes dc_prev, δ is filled."""
    for b in range(begin, end):
        for u in range(dh.shape[1]):
            dh[b, u] = plus(dy[t, b, u], dh[b, u])
        if active[t, b]:
            _cell_backward(intermediates, t, b, dh[b], dc[b], whole[t, b])
        else:
            whole[t, b] = ZERO


@njit(nogil=True, cache=True)
def _prune(whole, threshold, delta, begin, end):
    """Do what :func:`etalstm.golden.cell.pruned` does with the δ of one step."""
    for b in range(begin, end):
        for r in range(whole.shape[1]):
            delta[b, r] = whole[b, r] if is_kept(whole[b, r], threshold) else ZERO


@njit(nogil=True, cache=True)
def _steps_backward(recurrent, intermediates, active, skipped, threshold, dy, dh, dc, whole, delta, begin, end):
    """Take the sequences `begin` to `end` back through all steps; dh and dc become those of the initial state.

    With a threshold above 0 `delta` gets what is left of `whole`; without one they are the same array.
    """
    below = np.empty((len(dh), len(recurrent.panels), recurrent.panels.shape[2]), np.float32)
    sums = below.reshape(len(dh), below.shape[1] * below.shape[2])
    for t in range(delta.shape[0] - 1, -1, -1):
        if skipped[t]:
            dh[begin:end], dc[begin:end], whole[t, begin:end], delta[t, begin:end] = ZERO, ZERO, ZERO, ZERO
            continue
        _cells_backward(intermediates, t, active, dy, dh, dc, whole, begin, end)
        if threshold > ZERO:
            _prune(whole[t], threshold, delta[t], begin, end)
        below[begin:end] = MINUS_ZERO
        accumulate(below, recurrent, delta[t], begin, end)
        finish_empty(below, delta[t], begin, end)
        for b in range(begin, end):
            if active[t, b]:
                dh[b] = sums[b, : dh.shape[1]]


@njit(nogil=True, cache=True)
def _bias_gradient(delta, begin, end):
    """Add the δ (T, B, 4H) of the sequences `begin` to `end` from +0: t descending, then b ascending."""
    db = np.zeros(delta.shape[2], np.float32)
    for t in range(delta.shape[0] - 1, -1, -1):
        for b in range(begin, end):
            for r in range(db.size):
                db[r] = plus(db[r], delta[t, b, r])
    return db


@njit(nogil=True, cache=True)
def _add(a, b):
    """Add two contiguous arrays of one shape, element by element."""
    total, left, right = np.empty_like(a), a.reshape(-1), b.reshape(-1)
    flat = total.reshape(-1)
    for n in range(flat.size):
        flat[n] = plus(left[n], right[n])
    return total


@njit(nogil=True, cache=True)
def column_norms(dw):
    """Add the squares of each column of dW, r ascending from +0; float32, (K,)."""
    total = np.zeros(dw.shape[1], np.float32)
    for r in range(dw.shape[0]):
        for k in range(dw.shape[1]):
            total[k] = plus(total[k], times(dw[r, k], dw[r, k]))
    return total


@njit(nogil=True, cache=True)
def _descend(values, velocity, gradient, scale, decay, momentum, rate, moved, speed):
    """Update elements; operands come from the host too, so they are flushed first.

    The loop runs over whole arrays: of a piece of them, the compiler would not know that no index wraps, and would not
    vectorise.
    """
    for n in range(values.size):
        value = finish(values[n])
        clipped = plus(times(scale, finish(gradient[n])), times(decay, value))
        faster = plus(times(momentum, finish(velocity[n])), clipped)
        speed[n] = faster
        moved[n] = plus(value, -times(rate, faster))


def descend(values, velocity, gradient, rule, weight_decay):
    """Do what :func:`etalstm.golden.reference.descend` does, bit for bit."""
    flat = [np.ascontiguousarray(array, np.float32).reshape(-1) for array in (values, velocity, gradient)]
    moved, speed = np.empty_like(flat[0]), np.empty_like(flat[0])
    scalars = rule.scale, np.float32(weight_decay), rule.momentum, rule.learning_rate

    def piece(begin, end):
        _descend(*(array[begin:end] for array in flat), *scalars, moved[begin:end], speed[begin:end])

    CREW.share(moved.size, moved.size, piece)
    return moved.reshape(np.shape(values)), speed.reshape(np.shape(values))


def layer_forward(weights, bias, x, h0, c0, active, storage=DENSE, skipped=None):
    """Do what :func:`etalstm.golden.reference.layer_forward` does, bit for bit."""
    steps, batch, inputs = x.shape
    h = np.empty((steps + 1, *h0.shape), np.float32)
    c = np.empty_like(h)
    h[0], c[0] = h0, c0
    intermediates = np.empty((6, steps, *h0.shape), np.float32)
    active, skipped = np.ascontiguousarray(active), skipped_steps(skipped, steps)
    rule = storage.compressed, storage.bf16, np.array(storage.thresholds, np.float32)
    x = np.ascontiguousarray(x)
    starts = np.broadcast_to(bias, (np.count_nonzero(active), bias.size))
    z = packed_sums(starts, matrix_of(weights[:, :inputs].T), _without_padding(x, active))
    z, recurrent = _with_padding(z, active), matrix_of(weights[:, inputs:].T)

    def piece(begin, end):
        _steps_forward(z, recurrent, active, skipped, rule, h, c, intermediates, begin, end)

    CREW.share(batch, z.size * h0.shape[1], piece, active.sum(axis=0))
    return LayerPass(x, h, c, intermediates, active, skipped)


def layer_backward(weights, forward, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Do what :func:`etalstm.golden.reference.layer_backward` does, bit for bit."""
    steps, batch, inputs = forward.x.shape
    rows = weights.shape[0]
    recurrent = matrix_of(weights[:, inputs:])
    whole = np.empty((steps, batch, rows), np.float32)
    delta = np.empty_like(whole) if delta_threshold > 0 else whole
    threshold = np.float32(delta_threshold)
    dy, dh, dc = np.ascontiguousarray(dy), np.array(dh, order="C"), np.array(dc, order="C")

    def piece(begin, end):
        _steps_backward(
            recurrent, forward.intermediates, forward.active, forward.skipped, threshold,
            dy, dh, dc, whole, delta, begin, end,
        )  # fmt: skip

    CREW.share(batch, delta.size * dh.shape[1], piece, forward.active.sum(axis=0))
    dx = mac_sums(None, weights[:, :inputs], _without_padding(delta, forward.active))
    dx = _with_padding(dx, forward.active)
    ranges = slice_ranges(batch, slices)
    dw = tree_total((_weight_gradient(forward, delta, sequences) for sequences in ranges), slices, _add)
    db = tree_total((_bias_gradient(whole, sequences.start, sequences.stop) for sequences in ranges), slices, _add)
    return LayerBackward(dx, dh, dc, dw, db, column_norms(dw), delta)


def _weight_gradient(forward, delta, sequences):
    """Give dW of one slice: t descending, then b ascending. Padding has no δ, so its terms may be left out."""
    given = forward.x, forward.h[:-1], delta, forward.active
    x, h, delta, active = (array[::-1, sequences.start : sequences.stop] for array in given)
    if active.all():
        return gradient_sums(x, h, delta)
    return gradient_sums(*(array[active][np.newaxis] for array in (x, h, delta)))


def _without_padding(array, active):
    """Give the active (t, b) of (T, B, N), which is in C order, one after the other."""
    return array.reshape(-1, array.shape[2]) if active.all() else array[active]


def _with_padding(terms, active):
    """Undo :func:`_without_padding`, whatever the shape of a term; padding is +0."""
    if active.all():
        return terms.reshape(*active.shape, *terms.shape[1:])
    array = np.zeros((*active.shape, *terms.shape[1:]), np.float32)
    array[active] = terms
    return array
