"""The reference's training pass, compiled: the same bits, fast enough to train with.

The x part of every step's gate sums, and dx, are done for all steps at once: a sum over k ascending has its x terms
first, and dx feeds nothing inside the layer. Sequences of a batch meet only in dW and db, so a thread takes its
sequences through all steps without waiting for another.

No product is spent on padding, and no array is laid out with it where the API does not ask for it. A *term* is a real
step (t, b). Terms are numbered as :func:`etalstm.golden.passes.without_padding` lists them: those of a step follow one
another, and so do those of neighbouring sequences within the step.
"""

import numpy as np
from numba import njit

from etalstm.formats.codec import is_kept, rounded
from etalstm.golden.activation import activation_of
from etalstm.golden.arithmetic import finish, plus, times
from etalstm.golden.fast.delta import Sender, add_before, collect, collect_inputs, send, send_inputs, x_starts
from etalstm.golden.fast.packing import matrix_of
from etalstm.golden.fast.sums import (
    MINUS_ZERO,
    ZERO,
    accumulate,
    add_arrays,
    bias_gradient,
    finish_empty,
    gradient_sums,
    mac_sums,
    packed_sums,
)
from etalstm.golden.passes import LayerBackward, LayerPass, skipped_steps, term_numbers, with_padding, without_padding
from etalstm.golden.reference import DENSE
from etalstm.host.crew import CREW
from etalstm.network.delta_inputs import OFF
from etalstm.network.slices import slice_ranges, tree_total

ONE = np.float32(1)


@njit(nogil=True, cache=True)
def _activate(sums, gates):
    """Apply the gates' functions to one sequence's sums: i, f, g, o of each unit in turn."""
    for u in range(gates.size // 4):  # four calls, each with a constant: these become vector instructions
        gates[4 * u] = activation_of(sums[4 * u], False)
        gates[4 * u + 1] = activation_of(sums[4 * u + 1], False)
        gates[4 * u + 2] = activation_of(sums[4 * u + 2], True)
        gates[4 * u + 3] = activation_of(sums[4 * u + 3], False)


@njit(nogil=True, cache=True)
def _cell_forward(gates, before, c, h, bent):
    """Run the cells of one sequence: the equations of :data:`~etalstm.network.cells.lstm.LSTM`. `bent` gets tanh(c)."""
    for u in range(c.size):
        c[u] = plus(times(gates[4 * u + 1], before[u]), times(gates[4 * u], gates[4 * u + 2]))
    for u in range(c.size):
        bent[u] = activation_of(c[u], True)
    for u in range(c.size):
        h[u] = times(gates[4 * u + 3], bent[u])


@njit(nogil=True, cache=True)
def _local_gradients(gates, before, bent, kept, n):
    """Compute the local gradients of one term's cells."""
    p_i, p_f, p_g, p_o, p_s, p_r = kept[0, n], kept[1, n], kept[2, n], kept[3, n], kept[4, n], kept[5, n]
    for u in range(bent.size):
        i, f, g, o = gates[4 * u], gates[4 * u + 1], gates[4 * u + 2], gates[4 * u + 3]
        p_i[u] = times(times(g, i), plus(ONE, -i))
        p_f[u] = times(times(before[u], f), plus(ONE, -f))
        p_g[u] = times(i, plus(ONE, -times(g, g)))
        p_o[u] = times(times(bent[u], o), plus(ONE, -o))
        p_s[u] = times(o, plus(ONE, -times(bent[u], bent[u])))
        p_r[u] = f


@njit(nogil=True, cache=True)
def _compress(kept, n, storage):
    """Drop what a stream drops of a term's local gradients, round the rest: :func:`etalstm.golden.cell.stored`."""
    compressed, bf16, thresholds = storage
    for p in range(len(thresholds) if compressed else 0):
        kind, threshold = kept[p, n], thresholds[p]
        for u in range(kind.size):
            value = kind[u] if is_kept(kind[u], threshold) else ZERO
            kind[u] = rounded(value) if bf16 else value


@njit(nogil=True, cache=True)
def _terms_of_step(numbers, begin, end):
    """Give the terms of the sequences `begin` to `end` at one step: the first one's number, and one past the last's."""
    first, count = 0, 0
    for b in range(begin, end):
        if numbers[b] >= 0:
            first = numbers[b] - count
            count += 1
    return first, first + count


@njit(nogil=True, cache=True)
def _cells_forward(sums, t, numbers, skipped, storage, h, c, kept, begin, end):
    """Run the cells of step t, sequence by sequence."""
    gates, bent = np.empty(4 * h.shape[2], np.float32), np.empty(h.shape[2], np.float32)
    for b in range(begin, end):
        n = numbers[t, b]
        if n < 0:
            h[t + 1, b], c[t + 1, b] = h[t, b], c[t, b]
            continue
        _activate(sums[n], gates)
        _cell_forward(gates, c[t, b], c[t + 1, b], h[t + 1, b], bent)
        if skipped[t]:
            kept[:, n] = ZERO
        else:
            _local_gradients(gates, c[t, b], bent, kept, n)
            _compress(kept, n, storage)


@njit(nogil=True, cache=True)
def _steps_forward(z, recurrent, numbers, skipped, storage, sender, x_moved, h, c, kept, begin, end):
    """Take the sequences `begin` to `end` through all steps; z holds the x part of the gate sums and gets the rest."""
    sums = z.reshape(z.shape[0], z.shape[1] * z.shape[2])
    states, broadcast = np.empty(h.shape[1:], np.float32), np.empty((end - begin, h.shape[2]), np.float32)
    for t in range(numbers.shape[0]):
        first, stop = _terms_of_step(numbers[t], begin, end)
        send(h[t], numbers[t - 1] >= 0, t, sender, states, begin, end)
        for b in range(begin, end):
            if numbers[t, b] >= 0:
                broadcast[numbers[t, b] - first] = states[b]
        accumulate(z[first:stop], recurrent, broadcast, 0, stop - first)
        if not sender.refreshed[t]:
            add_before(sums, numbers[t - 1 : t + 1], x_moved, states, begin, end)
        _cells_forward(sums, t, numbers, skipped, storage, h, c, kept, begin, end)


@njit(nogil=True, cache=True)
def _cell_backward(kept, n, dh, dc, delta):
    """Go back through the cells of one sequence: dc becomes dc_prev, δ is filled, four gates of each unit in turn."""
    p_i, p_f, p_g, p_o, p_s, p_r = kept[0, n], kept[1, n], kept[2, n], kept[3, n], kept[4, n], kept[5, n]
    for u in range(dh.size):
        through = plus(dc[u], times(dh[u], p_s[u]))
        delta[4 * u] = times(through, p_i[u])
        delta[4 * u + 1] = times(through, p_f[u])
        delta[4 * u + 2] = times(through, p_g[u])
        delta[4 * u + 3] = times(dh[u], p_o[u])
        dc[u] = times(through, p_r[u])


@njit(nogil=True, cache=True)
def _cells_backward(kept, numbers, dy, dh, dc, whole, begin, end):
    """Go back through the cells of a step: dh becomes dy + dh, dc becomes dc_prev, δ is filled."""
    for b in range(begin, end):
        n = numbers[b]
        for u in range(dh.shape[1]):
            dh[b, u] = plus(dy[b, u], dh[b, u])
        if n >= 0:
            _cell_backward(kept, n, dh[b], dc[b], whole[n])


@njit(nogil=True, cache=True)
def _prune(whole, threshold, delta, first, stop):
    """Do what :func:`etalstm.golden.cell.pruned` does with the δ of some terms."""
    for n in range(first, stop):
        for r in range(whole.shape[1]):
            delta[n, r] = whole[n, r] if is_kept(whole[n, r], threshold) else ZERO


@njit(nogil=True, cache=True)
def _steps_backward(recurrent, kept, numbers, skipped, threshold, sender, dy, dh, dc, whole, delta, begin, end):
    """Take the sequences `begin` to `end` back through all steps; dh and dc become those of the initial state.

    With a threshold above 0 `delta` gets what is left of `whole`; without one they are the same array. `sender` sent h.
    """
    collected, always_sent = np.full(dh.shape, MINUS_ZERO), sender.refreshed.all()
    below = np.empty((end - begin, len(recurrent.panels), recurrent.panels.shape[2]), np.float32)
    sums = below.reshape(len(below), below.shape[1] * below.shape[2])
    for t in range(numbers.shape[0] - 1, -1, -1):
        first, stop = _terms_of_step(numbers[t], begin, end)
        if skipped[t]:
            dh[begin:end], dc[begin:end], whole[first:stop], delta[first:stop] = ZERO, ZERO, ZERO, ZERO
            collected[begin:end] = MINUS_ZERO
            continue
        _cells_backward(kept, numbers[t], dy[t], dh, dc, whole, begin, end)
        if threshold > ZERO:
            _prune(whole, threshold, delta, first, stop)
        below[: stop - first] = MINUS_ZERO
        accumulate(below, recurrent, delta[first:stop], 0, stop - first)
        finish_empty(below, delta[first:stop], 0, stop - first)
        if not always_sent:
            collect(sums, numbers[t] - first, t, sender, collected, begin, end)
        for b in range(begin, end):
            if numbers[t, b] >= 0:
                dh[b] = sums[numbers[t, b] - first, : dh.shape[1]]


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
    value, before, slope = (np.ascontiguousarray(a, np.float32).reshape(-1) for a in (values, velocity, gradient))
    moved, speed = np.empty_like(value), np.empty_like(value)
    scalars = rule.scale, np.float32(weight_decay), rule.momentum, rule.learning_rate

    def update(begin, end):
        piece = slice(begin, end)
        _descend(value[piece], before[piece], slope[piece], *scalars, moved[piece], speed[piece])

    CREW.run(moved.size, moved.size, update)
    return moved.reshape(np.shape(values)), speed.reshape(np.shape(values))


def layer_forward(weights, bias, x, h0, c0, active, storage=DENSE, skipped=None, delta_inputs=OFF, shared=None):
    """Do what :func:`etalstm.golden.reference.layer_forward` does, bit for bit."""
    steps, batch, width = x.shape
    h = np.empty((steps + 1, *h0.shape), np.float32)
    c = np.empty_like(h)
    h[0], c[0] = h0, c0
    skipped, numbers = skipped_steps(skipped, steps), term_numbers(active)
    rule = storage.compressed, storage.bf16, np.array(storage.thresholds, np.float32)
    broadcast, x_sent = send_inputs(x, active, delta_inputs)
    real = without_padding(broadcast, active)
    of_x = matrix_of(weights[:, :width].T)
    if shared:
        z = packed_sums(np.broadcast_to(bias, (shared.count, bias.size)), of_x, shared.x)[shared.numbers[active]]
    else:
        z = packed_sums(x_starts(bias, active, delta_inputs), of_x, real)
    recurrent, kept = matrix_of(weights[:, width:].T), np.empty((6, len(real), h0.shape[1]), np.float32)
    h_sent = h[:-1] if delta_inputs.off else np.empty_like(h[:-1])
    sender = Sender(delta_inputs.refreshed(steps), np.float32(delta_inputs.h), h_sent)
    x_moved = _moved(real, delta_inputs)

    def piece(begin, end):
        _steps_forward(z, recurrent, numbers, skipped, rule, sender, x_moved, h, c, kept, begin, end)

    CREW.run(batch, z.size * h0.shape[1], piece, active.sum(axis=0))
    return LayerPass(x, h, c, kept, active, skipped, x_sent, h_sent, delta_inputs)


def layer_backward(weights, forward, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Do what :func:`etalstm.golden.reference.layer_backward` does, bit for bit."""
    batch, inputs = forward.x.shape[1:]
    recurrent, numbers = matrix_of(weights[:, inputs:]), term_numbers(forward.active)
    whole = np.empty((forward.kept.shape[1], weights.shape[0]), np.float32)
    delta = np.empty_like(whole) if delta_threshold > 0 else whole
    threshold = np.float32(delta_threshold)
    dy, dh, dc = np.ascontiguousarray(dy), np.array(dh, order="C"), np.array(dc, order="C")
    sender = Sender(forward.delta_inputs.refreshed(len(dy)), np.float32(forward.delta_inputs.h), forward.h_sent)

    def piece(begin, end):
        _steps_backward(
            recurrent, forward.kept, numbers, forward.skipped, threshold, sender, dy, dh, dc, whole, delta, begin, end
        )

    CREW.run(batch, delta.size * dh.shape[1], piece, forward.active.sum(axis=0))
    dx = with_padding(mac_sums(None, weights[:, :inputs], delta), forward.active)
    dx = collect_inputs(dx, forward)
    ranges = slice_ranges(batch, slices)
    dw = tree_total((_weight_gradient(forward, delta, numbers, sequences) for sequences in ranges), slices, add_arrays)
    db = tree_total((bias_gradient(whole, _order_of_sums(numbers, each)) for each in ranges), slices, add_arrays)
    return LayerBackward(dx, dh, dc, dw, db, delta, forward.active)


def _moved(broadcast, delta_inputs):
    """Tell of which real steps an element of x was broadcast; without delta inputs nobody asks."""
    return np.ones(len(broadcast), bool) if delta_inputs.off else broadcast.any(axis=1)


def _order_of_sums(numbers, sequences):
    """Give the terms of some sequences in the order in which dW and db add them: t descending, then b ascending."""
    chosen = numbers[::-1, sequences.start : sequences.stop].ravel()
    return chosen[chosen >= 0]


def _weight_gradient(forward, delta, numbers, sequences):
    """Give dW of some sequences. Padding has no δ, so its terms are left out."""
    order = _order_of_sums(numbers, sequences)
    x, h = (array.reshape(-1, array.shape[2]) for array in (forward.x_sent, forward.h_sent))
    return gradient_sums(x, h, np.flatnonzero(forward.active)[order], delta, order)
