"""A product of the reference in float32: a matrix, its bias, and the sums over what is broadcast, in their order.

The sums are forward those of a stage's gates, backward those of its operands. With delta inputs an operand is broadcast
as its difference from what was last sent, and its gradient collects over the steps for which that was used. The page
``docs/delta.md`` defines both, and ``docs/concepts/order.md`` the order.
"""

from dataclasses import dataclass

import numpy as np

from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.cell import pruned
from etalstm.network.delta_inputs import LayerInputs
from etalstm.network.shared_tokens import SharedTokens
from etalstm.network.slices import slice_ranges, tree_total

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
    """The sums of a product's gates, from step to step, and what each element of its operands was last sent as.

    `active` is bool, (T, B). `width` counts the columns of x, the others being those of h; it matters with delta inputs
    and tokens only. `shared` are the distinct tokens of x, the first of the operands.
    """

    def __init__(
        self, product: "FloatProduct", delta_inputs: LayerInputs, active: np.ndarray, width: int,
        shared: SharedTokens | None = None,
    ):  # fmt: skip
        self._weights, self._bias = product.weights, product.bias
        self._delta_inputs, self._active, self._width, self._shared = delta_inputs, active, width, shared
        self._z = self._sent = np.empty(0, np.float32)  # of the step before; step 0 sends everything
        self._of_tokens: np.ndarray | None = None  # the sums of each token, once a step has needed them

    def step(self, t: int, operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the sums of step t, float32, (B, G*H), and what the operands were last sent as, float32, (B, K)."""
        if self._shared:
            self._z, self._sent = self._go_on(self._shared, t, operands), operands
        elif self._delta_inputs.refreshes(t):
            start = np.broadcast_to(self._bias, (len(operands), self._bias.size))
            self._z, self._sent = mac_sums(start, self._weights.T, operands), operands
        else:
            differences = self._differences(t, operands)
            self._z = add(mac_sums(None, self._weights.T, differences), self._z)
            self._sent = np.where(differences != 0, operands, self._sent)
        return self._z, self._sent

    def _go_on(self, shared: SharedTokens, t, operands):
        """Give sums that go on from those of the step's tokens; at padding from any."""
        of_x, others = np.split(self._weights, [self._width], axis=1)
        if self._of_tokens is None:
            start = np.broadcast_to(self._bias, (shared.count, self._bias.size))
            self._of_tokens = mac_sums(start, of_x.T, shared.x)
        return mac_sums(self._of_tokens[shared.numbers[t]], others.T, operands[:, self._width :])

    def _differences(self, t, operands):
        """Give by how much operands differ from what was last sent; +0 below the threshold, and of padding."""
        of_x = np.arange(operands.shape[1]) < self._width
        thresholds = np.where(of_x, self._delta_inputs.x, self._delta_inputs.h)
        real = np.where(of_x, self._active[t][:, None], self._active[t - 1][:, None])
        return np.where(real, pruned(add(operands, -self._sent), thresholds), np.float32(0))


class CollectedGradients:
    """The gradients of a product's operands: they collect down to the step at which an element was sent.

    `sent`, bool, (T, B, K), tells where the forward pass sent each element.
    """

    def __init__(self, product: "FloatProduct", sent: np.ndarray):
        self._weights, self._sent = product.weights, sent
        self.drop()

    def drop(self) -> None:
        """Pass nothing on of what has been collected."""
        self._collected = np.full(self._sent.shape[1:], MINUS_ZERO)

    def step(self, t: int, delta: np.ndarray) -> np.ndarray:
        """Collect the sums over δ of step t; gives the gradient of what was sent there, and +0 for what was not."""
        collected = add(self._collected, mac_sums(None, self._weights, delta))
        self._collected = np.where(self._sent[t], MINUS_ZERO, collected)
        return np.where(self._sent[t], collected, np.float32(0))


@dataclass(frozen=True)
class FloatProduct:
    """A matrix, float32, (G*H, K), and its bias, (G*H,), in canonical row order."""

    weights: np.ndarray
    bias: np.ndarray

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return len(self.weights)

    def gate_sums(
        self, delta_inputs: LayerInputs, active: np.ndarray, width: int, shared: SharedTokens | None
    ) -> GateSums:
        """Give what adds up the gates' sums of a pass."""
        return GateSums(self, delta_inputs, active, width, shared)

    def broadcast(self, delta: np.ndarray, threshold: float) -> np.ndarray:
        """Give the δ of a step as it is broadcast."""
        return pruned(delta, threshold) if threshold > 0 else delta

    def collected(self, delta_inputs: LayerInputs, _: np.ndarray, sent: np.ndarray) -> CollectedGradients:
        """Give what collects the gradients of the operands, which were last sent as `sent`, (T, B, K)."""
        return CollectedGradients(self, delta_inputs.sends(sent))

    def gradients(
        self, delta: np.ndarray, whole: np.ndarray, sent: np.ndarray, slices: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give dW and db, float32: see :func:`sliced_gradients`."""
        return sliced_gradients(delta, whole, sent, slices)


def sliced_gradients(delta, whole, xh, slices):
    """Add up dW and db of each slice, then the slices' as a tree; arguments as in :func:`weight_gradients`."""
    ranges = [slice(r.start, r.stop) for r in slice_ranges(delta.shape[1], slices)]
    parts = [weight_gradients(delta[:, r], whole[:, r], xh[:, r]) for r in ranges]
    return tuple(tree_total(terms, slices, add) for terms in zip(*parts, strict=True))


def weight_gradients(delta, whole, xh):
    """Add up dW, (4H, K), and db, (4H,), of one slice: t descending, then b ascending.

    `delta`, (T, B, 4H), is broadcast in dW, so its zeros are skipped there. `whole` is the same before it was pruned;
    db adds all of it, zeros too. `xh` is (T, B, K).
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
