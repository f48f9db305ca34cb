"""The reference's training pass, compiled: the same bits, fast enough to train with.

The x part of every step's gate sums, and dx, are done for all steps at once: a sum over k ascending has its x terms
first, and dx feeds nothing inside the layer. Sequences of a batch meet only in dW and db, so a thread takes its
sequences through all steps without waiting for another.

No product is spent on padding where sequences are in descending order of their lengths. In another order, a sequence
that has ended costs products as long as one behind it goes on; nobody reads their results.
"""

import numpy as np
from numba import njit

from etalstm.codec import is_kept, rounded
from etalstm.golden.activation import sigmoid_word, tanh_word
from etalstm.golden.arithmetic import finish, plus, times
from etalstm.golden.crew import CREW
from etalstm.golden.passes import LayerBackward, LayerPass, skipped_steps
from etalstm.golden.reference import DENSE
from etalstm.golden.sums import MINUS_ZERO, ZERO, accumulate, finish_empty, is_plain, mac_sums, magnitudes
from etalstm.slices import slice_ranges, tree_total

ONE = np.float32(1)


@njit
def _sigmoid(x):
    return np.uint32(sigmoid_word(np.float32(x).view(np.uint32))).view(np.float32)


@njit
def _tanh(x):
    return np.uint32(tanh_word(np.float32(x).view(np.uint32))).view(np.float32)


@njit(nogil=True, cache=True)
def _store(p, threshold, bf16):
    """Give one local gradient as a stream leaves it: :func:`etalstm.golden.cell.stored`."""
    if not is_kept(p, threshold):
        return ZERO
    return rounded(p) if bf16 else p


@njit(nogil=True, cache=True)
def _cells_forward(z, t, active, skipped, storage, h, c, intermediates, begin, end):
    """Run the cells of step t: the equations of :data:`etalstm.cells.lstm.LSTM`."""
    compressed, bf16, thresholds = storage
    for b in range(begin, end):
        if not active[t, b]:
            h[t + 1, b], c[t + 1, b] = h[t, b], c[t, b]
            intermediates[:, t, b] = ZERO
            continue
        for u in range(h.shape[2]):
            i, f = _sigmoid(z[t, b, 4 * u]), _sigmoid(z[t, b, 4 * u + 1])
            g, o = _tanh(z[t, b, 4 * u + 2]), _sigmoid(z[t, b, 4 * u + 3])
            before = c[t, b, u]
            after = plus(times(f, before), times(i, g))
            bent = _tanh(after)
            c[t + 1, b, u] = after
            h[t + 1, b, u] = times(o, bent)
            if skipped[t]:
                intermediates[:, t, b, u] = ZERO
                continue
            intermediates[0, t, b, u] = times(times(g, i), plus(ONE, -i))
            intermediates[1, t, b, u] = times(times(before, f), plus(ONE, -f))
            intermediates[2, t, b, u] = times(i, plus(ONE, -times(g, g)))
            intermediates[3, t, b, u] = times(times(bent, o), plus(ONE, -o))
            intermediates[4, t, b, u] = times(o, plus(ONE, -times(bent, bent)))
            intermediates[5, t, b, u] = f
            if compressed:
                for p in range(6):
                    intermediates[p, t, b, u] = _store(intermediates[p, t, b, u], thresholds[p], bf16)


@njit(nogil=True, cache=True)
def _active_end(active, begin, end):
    """Give where the active ones of the sequences `begin` to `end` end."""
    while end > begin and not active[end - 1]:
        end -= 1
    return end


@njit(nogil=True, cache=True)
def _steps_forward(z, recurrent, active, skipped, storage, h, c, intermediates, begin, end):
    """Take the sequences `begin` to `end` through all steps; z holds the x part of the gate sums and gets the rest."""
    size = magnitudes(recurrent)
    for t in range(z.shape[0]):
        last = _active_end(active[t], begin, end)
        if last > begin:
            plain = is_plain(recurrent.shape[0], size, magnitudes(h[t, begin:last]), magnitudes(z[t, begin:last]))
            accumulate(z[t], recurrent, h[t], plain, begin, last)
        _cells_forward(z, t, active, skipped, storage, h, c, intermediates, begin, end)


@njit(nogil=True, cache=True)
def _cells_backward(intermediates, t, active, dy, dh, dc, whole, begin, end):
    """Go back through the cells of step t: dh becomes dy + dh, dc becomes dc_prev, δ is filled."""
    for b in range(begin, end):
        for u in range(dh.shape[1]):
            dh[b, u] = plus(dy[t, b, u], dh[b, u])
            if not active[t, b]:
                whole[t, b, 4 * u : 4 * u + 4] = ZERO
                continue
            through = plus(dc[b, u], times(dh[b, u], intermediates[4, t, b, u]))
            for gate in range(3):
                whole[t, b, 4 * u + gate] = times(through, intermediates[gate, t, b, u])
            whole[t, b, 4 * u + 3] = times(dh[b, u], intermediates[3, t, b, u])
            dc[b, u] = times(through, intermediates[5, t, b, u])


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
    size, nothing = magnitudes(recurrent), (np.inf, 0.0)
    below = np.empty_like(dh)
    for t in range(delta.shape[0] - 1, -1, -1):
        if skipped[t]:
            dh[begin:end], dc[begin:end], whole[t, begin:end], delta[t, begin:end] = ZERO, ZERO, ZERO, ZERO
            continue
        _cells_backward(intermediates, t, active, dy, dh, dc, whole, begin, end)
        if threshold > ZERO:
            _prune(whole[t], threshold, delta[t], begin, end)
        last = _active_end(active[t], begin, end)
        below[begin:last] = MINUS_ZERO
        plain = is_plain(recurrent.shape[0], size, magnitudes(delta[t, begin:last]), nothing)
        accumulate(below, recurrent, delta[t], plain, begin, last)
        finish_empty(below, delta[t], begin, last)
        for b in range(begin, last):
            if active[t, b]:
                dh[b] = below[b]


@njit(nogil=True, cache=True)
def _bias_gradient(delta):
    """Add delta (T·B, 4H), already in the order of the sum, from +0."""
    db = np.zeros(delta.shape[1], np.float32)
    for n in range(delta.shape[0]):
        for r in range(delta.shape[1]):
            db[r] = plus(db[r], delta[n, r])
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
    z = _with_padding(mac_sums(starts, weights[:, :inputs].T, _without_padding(x, active)), active)
    recurrent = np.ascontiguousarray(weights[:, inputs:].T)

    def piece(begin, end):
        _steps_forward(z, recurrent, active, skipped, rule, h, c, intermediates, begin, end)

    CREW.share(batch, z.size * h0.shape[1], piece, active.sum(axis=0))
    return LayerPass(x, h, c, intermediates, active, skipped)


def layer_backward(weights, forward, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Do what :func:`etalstm.golden.reference.layer_backward` does, bit for bit."""
    steps, batch, inputs = forward.x.shape
    rows = weights.shape[0]
    recurrent = np.ascontiguousarray(weights[:, inputs:])
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
    db = tree_total((_bias_gradient(_terms(whole, sequences)) for sequences in ranges), slices, _add)
    return LayerBackward(dx, dh, dc, dw, db, column_norms(dw), delta)


def _weight_gradient(forward, delta, sequences):
    """Give dW of one slice. Padding has no δ, so its terms may be left out."""
    x, h, delta = (_terms(array, sequences, forward.active) for array in (forward.x, forward.h[:-1], delta))
    return mac_sums(None, np.concatenate([x, h], axis=1), delta.T)


def _terms(array, sequences, active=None):
    """Give some sequences of (T, B, N) in the order in which dW and db add them: t descending, then b ascending."""
    chosen = slice(sequences.start, sequences.stop)
    if active is None:
        return np.ascontiguousarray(array[::-1, chosen]).reshape(-1, array.shape[2])
    return _without_padding(array[::-1, chosen], active[::-1, chosen])


def _without_padding(array, active):
    """Give the active (t, b) of (T, B, N) one after the other."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[2]) if active.all() else array[active]


def _with_padding(terms, active):
    """Undo :func:`_without_padding`; padding is +0."""
    if active.all():
        return terms.reshape(*active.shape, -1)
    array = np.zeros((*active.shape, terms.shape[1]), np.float32)
    array[active] = terms
    return array
