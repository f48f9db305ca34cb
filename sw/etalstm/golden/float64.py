"""One layer's training pass in float64 and ordinary mathematics: the standard the float32 trainer is measured with.

An engine for :mod:`etalstm.golden.trainer` (canonical rows ``4*unit + gate``), derived on its own: it keeps the gates
and differentiates the cell's equations, where the float32 engines keep the products P.
"""

from dataclasses import dataclass

import numpy as np

from etalstm.golden.passes import LayerBackward, skipped_steps, without_padding
from etalstm.golden.reference import DENSE
from etalstm.network.delta_inputs import OFF

FLOAT32_GRADIENT_BOUND = 1e-5
"""Largest 2-norm of a float32 tensor's error over the tensor's 2-norm, against float64 or another float32 framework:
about 2^-24 for each rounding, grown over chains of a few hundred terms and tens of steps."""


@dataclass(frozen=True)
class Float64Pass:
    """One layer's forward pass; c and the members of the same name are as in :class:`etalstm.golden.passes.LayerPass`.

    Members
    -------
    gates : array, (4, T, B, H)         activated i, f, g, o
    xh_sent : array, (T, B, K)          what each element of x and of the h of the step before was last sent as
    sent : array, bool, (T, B, K)       where it was sent
    """

    x: np.ndarray
    h: np.ndarray
    c: np.ndarray
    gates: np.ndarray
    active: np.ndarray
    skipped: np.ndarray
    xh_sent: np.ndarray
    sent: np.ndarray

    @property
    def y(self) -> np.ndarray:
        """The layer's output, (T, B, H)."""
        return self.h[1:]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Give 1/(1 + exp(-x)) without overflow for any x."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def layer_forward(weights, bias, x, h0, c0, active, storage=DENSE, skipped=None, delta_inputs=OFF, shared=None):
    """Run one layer forward; arguments as in :func:`etalstm.golden.reference.layer_forward`, but float64.

    With delta inputs the gates' sums are ``b + W v`` with v what was last sent: the differences add up to that. An
    element close to its threshold may be sent where float32 does not send it. `shared` tokens have no effect: each sum
    is computed anew.

    Raises ``ValueError`` unless the storage is dense: pruning belongs to the machine, not to the mathematics.
    """
    if storage.compressed:
        raise ValueError(f"the float64 engine does not prune, got {storage}")
    states, cells, gates = [h0], [c0], []
    sent: list[np.ndarray] = []  # of each step, as `xh_sent`
    xh_sent: list[np.ndarray] = []
    for t in range(x.shape[0]):
        xh = np.concatenate([x[t], states[t]], axis=1)
        sent.append(_moved(xh, xh_sent, x.shape[2], delta_inputs))
        xh_sent.append(xh if sent[t].all() else np.where(sent[t], xh, xh_sent[-1]))
        z = (xh_sent[t] @ weights.T + bias).reshape(*h0.shape, 4)
        i, f, o = (sigmoid(z[..., gate]) for gate in (0, 1, 3))
        g = np.tanh(z[..., 2])
        live = active[t][:, None]
        cells.append(np.where(live, f * cells[t] + i * g, cells[t]))
        states.append(np.where(live, o * np.tanh(cells[t + 1]), states[t]))
        gates.append([i, f, g, o])
    return Float64Pass(
        x,
        h=np.stack(states),
        c=np.stack(cells),
        gates=np.stack(gates, axis=1),
        active=active,
        skipped=skipped_steps(skipped, x.shape[0]),
        xh_sent=np.stack(xh_sent),
        sent=np.stack(sent),
    )


def _moved(xh, before, width, delta_inputs):
    """Tell which elements of a step are sent; `before` is what the steps before it were sent as, `width` that of x."""
    if delta_inputs.refreshes(len(before)):
        return np.ones(xh.shape, bool)
    moved = np.abs(xh - before[-1])
    return (moved != 0) & ~(moved < np.where(np.arange(xh.shape[1]) < width, delta_inputs.x, delta_inputs.h))


def layer_backward(weights, forward, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Run one layer backward; arguments and result as in :func:`etalstm.golden.reference.layer_backward`.

    The order of sums is no part of the mathematics: `slices` changes nothing. Raises ``ValueError`` if δ is to be
    pruned: a threshold would fall between other numbers.
    """
    if delta_threshold:
        raise ValueError(f"the float64 engine does not prune: delta_threshold must be 0, got {delta_threshold}")
    steps, batch, inputs = forward.x.shape
    dx = np.zeros_like(forward.x)
    dw = np.zeros_like(weights)
    db = np.zeros(weights.shape[0])
    deltas = np.zeros((steps, batch, weights.shape[0]))
    collected = np.zeros(forward.sent.shape[1:])  # gradients of what is still to be reached, where it was sent
    for t in reversed(range(steps)):
        if forward.skipped[t]:
            dh, dc, collected = np.zeros_like(dh), np.zeros_like(dc), np.zeros_like(collected)
            continue
        live = forward.active[t][:, None]
        i, f, g, o = forward.gates[:, t]
        dh = dy[t] + dh
        tanh_c = np.tanh(forward.c[t + 1])
        through = dc + dh * o * (1 - tanh_c**2)
        dz = [through * g * i * (1 - i), through * forward.c[t] * f * (1 - f), through * i * (1 - g**2)]
        delta = np.stack([*dz, dh * tanh_c * o * (1 - o)], axis=2).reshape(batch, -1) * live
        deltas[t] = delta
        collected = collected + delta @ weights
        dxh, collected = np.where(forward.sent[t], collected, 0), np.where(forward.sent[t], 0, collected)
        dx[t] = dxh[:, :inputs]
        dw += delta.T @ forward.xh_sent[t]
        db += delta.sum(axis=0)
        dh = np.where(live, dxh[:, inputs:], dh)
        dc = np.where(live, through * f, dc)
    return LayerBackward(dx, dh, dc, dw, db, without_padding(deltas, forward.active), forward.active)
