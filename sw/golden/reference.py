"""THE reference: one layer's training pass in plain NumPy, every sum a loop in the order the design fixes.

Slow on purpose. Rows are in canonical order r = 4*unit + gate. A term whose broadcast factor is zero takes no part in
a sum; a sum without a starting value starts from its first term, and an empty one is +0.
"""

import numpy as np

from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.cell import cell_backward, cell_forward, local_gradients, pruned, stored
from etalstm.golden.passes import LayerBackward, LayerPass, skipped_steps
from etalstm.slices import slice_ranges, tree_total
from etalstm.storage import LayerStorage

DENSE = LayerStorage()


def mac_sums(start, matrix, scalars):
    """Add ``matrix[s, :] * scalars[n, s]`` over s ascending, for every n.

    Parameters
    ----------
    start : array, float32, (N, R), or None    where the sums start; None: from their first term
    matrix : array, float32, (S, R)
    scalars : array, float32, (N, S)           the broadcast factors; zeros are skipped

    Returns
    -------
    array, float32, (N, R)
    """
    count, (terms, rows) = scalars.shape[0], matrix.shape
    started = np.full((count, 1), start is not None)
    total = np.zeros((count, rows), np.float32) if start is None else start.copy()
    for s in range(terms):
        scalar = scalars[:, s : s + 1]
        taken = scalar != 0
        term = multiply(matrix[s], scalar)
        total = np.where(taken, np.where(started, add(total, term), term), total)
        started |= taken
    return total


def layer_forward(weights, bias, x, h0, c0, active, storage=DENSE, skipped=None):
    """Run one layer forward over T steps.

    Parameters
    ----------
    weights, bias : arrays, float32, (4H, K) and (4H,), canonical rows
    x : array, float32, (T, B, I)
    h0, c0 : arrays, float32, (B, H)
    active : array, bool, (T, B)          False at padded steps, where the state does not change
    storage : LayerStorage                what becomes of the local gradients, see :func:`stored`
    skipped : array, bool, (T,), or None  True at cells that keep nothing

    Returns
    -------
    LayerPass
    """
    steps, batch, _ = x.shape
    h, c = [h0], [c0]
    intermediates = []
    for t in range(steps):
        xh = np.concatenate([x[t], h[t]], axis=1)
        z = mac_sums(np.broadcast_to(bias, (batch, bias.size)), weights.T, xh)
        gates, c_new, tanh_c, h_new = cell_forward(np.moveaxis(z.reshape(batch, -1, 4), 2, 0), c[t])
        local = stored(local_gradients(gates, c[t], tanh_c), storage)
        live = active[t][:, None]
        kept = live & (skipped is None or not skipped[t])
        h.append(np.where(live, h_new, h[t]))
        c.append(np.where(live, c_new, c[t]))
        intermediates.append(np.where(kept, np.stack(local), np.float32(0)))
    intermediates = np.stack(intermediates, axis=1)
    return LayerPass(x, np.stack(h), np.stack(c), intermediates, active, skipped_steps(skipped, steps))


def layer_backward(weights, forward, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Run one layer backward over T steps.

    A skipped cell contributes nothing and passes nothing on, whoever's sequence it is: the dy, dh and dc that reach it
    are dropped, its δ and dx are +0, and the cell before it receives dh and dc of +0.

    Parameters
    ----------
    weights : array, float32, (4H, K), canonical rows
    forward : LayerPass
    dy : array, float32, (T, B, H)
    dh, dc : arrays, float32, (B, H)      gradients of the final states
    delta_threshold : float               if above 0, what is below it of δ is not broadcast; db adds all of δ
    slices : int                          see :mod:`etalstm.slices`

    Returns
    -------
    LayerBackward
    """
    steps, batch, inputs = forward.x.shape
    dx = np.zeros_like(forward.x)
    whole = np.zeros((steps, batch, weights.shape[0]), np.float32)
    delta = np.zeros_like(whole) if delta_threshold > 0 else whole
    for t in reversed(range(steps)):
        if forward.skipped[t]:
            dh, dc = np.zeros_like(dh), np.zeros_like(dc)
            continue
        live = forward.active[t][:, None]
        dh = add(dy[t], dh)
        deltas, dc_prev = cell_backward(forward.intermediates[:, t], dh, dc)
        whole[t] = np.where(live, np.stack(deltas, axis=2).reshape(batch, -1), np.float32(0))
        if delta_threshold > 0:
            delta[t] = pruned(whole[t], delta_threshold)
        dxh = mac_sums(None, weights, delta[t])
        dx[t] = dxh[:, :inputs]
        dh = np.where(live, dxh[:, inputs:], dh)
        dc = np.where(live, dc_prev, dc)
    xh = np.concatenate([forward.x, forward.h[:-1]], axis=2)
    ranges = [slice(r.start, r.stop) for r in slice_ranges(batch, slices)]
    parts = [weight_gradients(delta[:, r], whole[:, r], xh[:, r]) for r in ranges]
    dw, db = (tree_total(terms, slices, add) for terms in zip(*parts, strict=True))
    return LayerBackward(dx, dh, dc, dw, db, column_norms(dw), delta)


def weight_gradients(delta, whole, xh):
    """Add up dW and db of one slice: t descending, then b ascending.

    Parameters
    ----------
    delta : array, float32, (T, B, 4H)    broadcast in dW, so its zeros are skipped there
    whole : array, float32, (T, B, 4H)    before it was pruned; db adds all of it, zeros too
    xh : array, float32, (T, B, K)

    Returns
    -------
    dW, db : arrays, float32, (4H, K) and (4H,)
    """
    steps, batch, rows = delta.shape
    dw = np.zeros((rows, xh.shape[2]), np.float32)
    db = np.zeros(rows, np.float32)
    started = np.zeros((rows, 1), bool)
    for t in reversed(range(steps)):
        for b in range(batch):
            scalar = delta[t, b][:, None]
            taken = scalar != 0
            term = multiply(scalar, xh[t, b])
            dw = np.where(taken, np.where(started, add(dw, term), term), dw)
            started |= taken
            db = add(db, whole[t, b])
    return dw, db


def descend(values, velocity, gradient, rule, weight_decay):
    """Take one step of SGD with momentum; arguments as in :func:`etalstm.golden.trainer.descend`.

    Exactness: ``g = scale*gradient; g = g + decay*w; v = momentum*v + g; w = w + -(rate*v)``, every product and sum
    rounded, also where a factor is 0 or 1; bit-identical to the element-wise engine.
    """
    clipped = add(multiply(rule.scale, gradient), multiply(weight_decay, values))
    velocity = add(multiply(rule.momentum, velocity), clipped)
    return add(values, -multiply(rule.learning_rate, velocity)), velocity


def column_norms(dw):
    """Add the squares of each column of dW, r ascending from +0; float32, (K,)."""
    total = np.zeros(dw.shape[1], np.float32)
    for row in dw:
        total = add(total, multiply(row, row))
    return total
