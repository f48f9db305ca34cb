"""A whole network's passes and its update, in the machine's arithmetic, over either engine.

An engine is a module with ``layer_forward`` and ``layer_backward``: :mod:`etalstm.golden.reference` or
:mod:`etalstm.golden.compiled`. Rows are in canonical order ``4*unit + gate`` throughout.
"""

from dataclasses import dataclass

import numpy as np

from etalstm.golden import compiled
from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.passes import LayerBackward, LayerPass, active_steps
from etalstm.golden.reference import NO_PRUNING
from etalstm.network import LayerParameters, canonical_rows, pytorch_rows
from etalstm.optimizer import UpdateRule


@dataclass(frozen=True)
class Rows:
    """One layer's matrix (4H, K) and bias (4H,), or their velocities, float32 in canonical row order."""

    weights: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, parameters: LayerParameters) -> "Rows":
        """Reorder a layer's parameters from PyTorch's row order."""
        return cls(canonical_rows(parameters.weights), canonical_rows(parameters.bias))

    def parameters(self) -> LayerParameters:
        """Reorder back to PyTorch's row order."""
        return LayerParameters(pytorch_rows(self.weights), pytorch_rows(self.bias))


def network_forward(layers, x, lengths, h0, c0, engine=compiled, thresholds=NO_PRUNING) -> list[LayerPass]:
    """Run all layers forward; layer l + 1 reads layer l's h, which is frozen at padded steps.

    Parameters
    ----------
    layers : list of Rows
    x : array, float32, (T, B, I)
    lengths : array, integers, (B,)
    h0, c0 : arrays, float32, (L, B, H)
    thresholds : 6 float32              per kind of local gradient

    Returns
    -------
    list of LayerPass
    """
    active = active_steps(lengths, x.shape[0])
    passes = []
    for layer, rows in enumerate(layers):
        passes.append(engine.layer_forward(rows.weights, rows.bias, x, h0[layer], c0[layer], active, thresholds))
        x = passes[-1].y
    return passes


def network_backward(layers, passes, dy, dh, dc, engine=compiled) -> list[LayerBackward]:
    """Run all layers backward, the top one first; layer l's dy is layer l + 1's dx.

    Parameters
    ----------
    layers : list of Rows
    passes : list of LayerPass
    dy : array, float32, (T, B, H)      +0 at padded steps
    dh, dc : arrays, float32, (L, B, H)

    Returns
    -------
    list of LayerBackward, the first layer first
    """
    results = []
    for layer in reversed(range(len(layers))):
        results.append(engine.layer_backward(layers[layer].weights, passes[layer], dy, dh[layer], dc[layer]))
        dy = results[-1].dx
    return results[::-1]


def descend(values, velocity, gradient, rule: UpdateRule, weight_decay):
    """Take one step of SGD with momentum, element by element.

    Parameters
    ----------
    values, velocity, gradient : arrays, float32, one shape
    rule : UpdateRule
    weight_decay : float32               the rule's, or 0 for a bias

    Returns
    -------
    values, velocity : arrays, float32

    Exactness: ``g = scale*gradient; g = g + decay*w; v = momentum*v + g; w = w + -(rate*v)``, every product and sum
    rounded, also where a factor is 0 or 1; bit-identical to the element-wise engine.
    """
    clipped = add(multiply(rule.scale, gradient), multiply(weight_decay, values))
    velocity = add(multiply(rule.momentum, velocity), clipped)
    return add(values, -multiply(rule.learning_rate, velocity)), velocity


def network_update(layers, velocities, gradients, rule: UpdateRule) -> tuple[list[Rows], list[Rows]]:
    """Update every layer; the bias does not decay.

    Parameters
    ----------
    layers, velocities : list of Rows
    gradients : list of LayerBackward
    rule : UpdateRule

    Returns
    -------
    layers, velocities : list of Rows, new arrays
    """
    moved, speeds = [], []
    for rows, speed, gradient in zip(layers, velocities, gradients, strict=True):
        weights = descend(rows.weights, speed.weights, gradient.weights, rule, rule.weight_decay)
        bias = descend(rows.bias, speed.bias, gradient.bias, rule, np.float32(0))
        moved.append(Rows(weights[0], bias[0]))
        speeds.append(Rows(weights[1], bias[1]))
    return moved, speeds
