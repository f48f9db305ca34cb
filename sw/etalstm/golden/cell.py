"""What the reference does in a step: a cell's element-wise work, and the sums over what a stage broadcasts.

The element-wise work is in the machine's float32, equation by equation, as the element-wise engine computes it. The
sums are forward those of a stage's gates, backward those of its operands. With delta inputs an operand is broadcast as
its difference from what was last sent, and its gradient collects over the steps for which that was used. The page
``docs/delta.md`` defines both.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from etalstm.formats.codec import round_bf16
from etalstm.golden.activation import sigmoid, tanh
from etalstm.golden.arithmetic import add, multiply
from etalstm.network.cells.operation import CONSTANTS, Operation
from etalstm.network.delta_inputs import LayerInputs
from etalstm.network.shared_tokens import SharedTokens
from etalstm.network.storage import LayerStorage
from etalstm_hw.contract import VectorOp

_COMPUTE: dict[VectorOp, Callable[..., np.ndarray]] = {
    VectorOp.MULTIPLY: multiply,
    VectorOp.ADD: add,
    VectorOp.SUBTRACT: lambda a, b: add(a, -b),
    VectorOp.SIGMOID: sigmoid,
    VectorOp.TANH: tanh,
    VectorOp.SELECT: lambda a, b: np.where(a != 0, b, np.float32(0)),
    VectorOp.ADD_POSITIVE: lambda a, b: np.where((a != 0) & ~np.signbit(a), add(a, b), np.float32(0)),
}


def evaluate(operations: tuple[Operation, ...], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a cell's operations, one after the other, on vectors by name: float32 arrays, all of one shape.

    Gives `values`, and the last result of each name. Exactness: every result is rounded once; bit-identical to the
    element-wise engine.
    """
    found: dict[str, Any] = values | {name: np.float32(name) for name in CONSTANTS}
    for operation in operations:
        found[operation.d] = _COMPUTE[operation.op](*(found[name] for name in operation.operands))
    return found


def stored(intermediates: Iterable[np.ndarray], storage: LayerStorage) -> tuple[np.ndarray, ...]:
    """Give the local gradients, one float32 array for each kind, as the backward pass finds them.

    Dense storage leaves them untouched. With compressed storage they have gone through a stream: zeros, -0 too, and
    what is below its kind's threshold are +0; with bf16 the rest is rounded.

    Exactness: what :func:`etalstm.formats.codec.decode` makes of :func:`etalstm.formats.codec.encode`.
    """
    if not storage.compressed:
        return tuple(intermediates)
    kept = [pruned(p, threshold) for p, threshold in zip(intermediates, storage.thresholds, strict=True)]
    return tuple(map(round_bf16, kept) if storage.bf16 else kept)


def pruned(x: np.ndarray, threshold: float | np.ndarray) -> np.ndarray:
    """Give an array with +0 for its zeros and for what is below the threshold; NaNs stay."""
    return np.where((x != 0) & ~(np.abs(x) < np.float32(threshold)), x, np.float32(0))


MINUS_ZERO = np.float32(-0.0)
"""The neutral element of addition: a sum that starts from it starts from its first term."""


def mac_sums(start: np.ndarray | None, matrix: np.ndarray, scalars: np.ndarray) -> np.ndarray:
    """Add ``matrix[s, :] * scalars[n, s]`` over s ascending, for every n; the terms of zero scalars are skipped.

    `start`, (N, R), is where the sums start, None: from their first term. `matrix` is (S, R), `scalars`, the broadcast
    factors, (N, S), the result (N, R), all float32.
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


class GateSums:
    """The sums of a stage's gates, from step to step, and what each element of its operands was last sent as.

    `active` is bool, (T, B). `width` counts the columns of x, the others being those of h; it matters with delta inputs
    and tokens only. `shared` are the distinct tokens of x, the first of the operands.
    """

    def __init__(self, delta_inputs: LayerInputs, active: np.ndarray, width: int, shared: SharedTokens | None = None):
        self._delta_inputs, self._active, self._width, self._shared = delta_inputs, active, width, shared
        self._z = self._sent = np.empty(0, np.float32)  # of the step before; step 0 sends everything
        self._of_tokens: np.ndarray | None = None  # the sums of each token, once a step has needed them

    def step(
        self, t: int, weights: np.ndarray, bias: np.ndarray, operands: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give the sums of step t, float32, (B, G*H), and what the operands were last sent as, float32, (B, K)."""
        if self._shared:
            self._z, self._sent = self._go_on(self._shared, t, weights, bias, operands), operands
        elif self._delta_inputs.refreshes(t):
            self._z = mac_sums(np.broadcast_to(bias, (len(operands), bias.size)), weights.T, operands)
            self._sent = operands
        else:
            differences = self._differences(t, operands)
            self._z = add(mac_sums(None, weights.T, differences), self._z)
            self._sent = np.where(differences != 0, operands, self._sent)
        return self._z, self._sent

    def _go_on(self, shared: SharedTokens, t, weights, bias, operands):
        """Give sums that go on from those of the step's tokens; at padding from any."""
        of_x, others = np.split(weights, [self._width], axis=1)
        if self._of_tokens is None:
            start = np.broadcast_to(bias, (shared.count, bias.size))
            self._of_tokens = mac_sums(start, of_x.T, shared.x)
        return mac_sums(self._of_tokens[shared.numbers[t]], others.T, operands[:, self._width :])

    def _differences(self, t, operands):
        """Give by how much operands differ from what was last sent; +0 below the threshold, and of padding."""
        of_x = np.arange(operands.shape[1]) < self._width
        thresholds = np.where(of_x, self._delta_inputs.x, self._delta_inputs.h)
        real = np.where(of_x, self._active[t][:, None], self._active[t - 1][:, None])
        return np.where(real, pruned(add(operands, -self._sent), thresholds), np.float32(0))


class CollectedGradients:
    """The gradients of a stage's operands: they collect down to the step at which an element was sent.

    `sent`, bool, (T, B, K), tells where the forward pass sent each element.
    """

    def __init__(self, sent: np.ndarray):
        self._sent = sent
        self.drop()

    def drop(self) -> None:
        """Pass nothing on of what has been collected."""
        self._collected = np.full(self._sent.shape[1:], MINUS_ZERO)

    def step(self, t: int, sums: np.ndarray) -> np.ndarray:
        """Collect the sums of step t; gives the gradient of what was sent there, and +0 for what was not."""
        collected = add(self._collected, sums)
        self._collected = np.where(self._sent[t], MINUS_ZERO, collected)
        return np.where(self._sent[t], collected, np.float32(0))
