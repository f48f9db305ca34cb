"""The host's work in an update: the norm of the gradient and the scale that clips it, the same for every device.

A device reduces each column of dW to one float32 sum of squares, and later applies the update. Between the two the host
computes the scale, in float64 and in one fixed order, so that every device gets the same bits.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.errors import DeviceError, DivergedError
from etalstm.network.shape import flush_subnormals

PIECE = 1 << 14  # elements that are added at a time: a piece that stays in the cache is three times as fast
CLIP_EPSILON = 1e-6  # PyTorch's clip_grad_norm_ adds the same


@dataclass(frozen=True)
class UpdateRule:
    """One step of SGD with momentum, as the machine takes it: four float32 scalars, subnormals flushed.

    ``g = scale*dW + weight_decay*w; v = momentum*v + g; w = w - learning_rate*v``. The bias does not decay. `scale`
    clips the gradient, see :func:`clip_scale`.
    """

    learning_rate: np.float32
    momentum: np.float32
    weight_decay: np.float32
    scale: np.float32

    def __post_init__(self) -> None:
        for name in ("learning_rate", "momentum", "weight_decay", "scale"):
            object.__setattr__(self, name, np.float32(flush_subnormals(np.float32(getattr(self, name)))))


def check_hyperparameters(learning_rate: object, momentum: object, clip: object, weight_decay: object) -> None:
    """Raise ``ValueError`` naming the first value that is no number in its range."""
    ranges = {
        "learning_rate": (learning_rate, math.inf, "finite and at least 0"),
        "momentum": (momentum, 1.0, "at least 0 and below 1"),
        "clip": (0.0 if clip is None else clip, math.inf, "finite and at least 0 (0 or None: no clipping)"),
        "weight_decay": (weight_decay, math.inf, "finite and at least 0"),
    }
    for name, (value, below, expected) in ranges.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
            raise ValueError(f"{name} must be a number, got {value!r}")
        if not 0.0 <= float(value) < below:
            raise ValueError(f"{name} must be {expected}, got {value}")
        if np.float64(value) > np.finfo(np.float32).max:
            raise ValueError(f"{name} must fit float32, got {value}")


def gradient_norm(column_norms: Sequence[np.ndarray], bias_gradients: Sequence[np.ndarray]) -> float:
    """Give the 2-norm of the whole gradient: the square root of a float64 sum.

    The sum has each layer's columns in order, then each layer's squared db in order.

    Parameters
    ----------
    column_norms : one array per layer, float32, (K,)
        Per column k, the sum over r of ``dW[r, k]**2``, as the device added it.
    bias_gradients : one array per layer, float32, (4H,)
        db in canonical row order ``4*unit + gate``.

    Raises
    ------
    DivergedError
        If it is infinite or no number.
    DeviceError
        If a sum of squares is negative: the device's memory has changed.
    """
    total = 0.0
    _check_sums_of_squares(column_norms)
    for arrays, squared in ((column_norms, False), (bias_gradients, True)):
        for array in map(np.asarray, arrays):
            for first in range(0, array.size, PIECE):
                piece = array[first : first + PIECE].astype(np.float64)
                terms = np.concatenate([[total], np.square(piece) if squared else piece])
                # accumulate adds one after the other; np.sum would add pairwise, in an order that NumPy chooses
                total = float(np.add.accumulate(terms)[-1])
    if not math.isfinite(total):
        raise DivergedError(
            f"the gradient's squared norm is {total}: training has diverged; the weights are those before this update"
        )
    return math.sqrt(total)


def _check_sums_of_squares(layers: Iterable[np.ndarray]) -> None:
    for layer, sums in enumerate(layers):
        if np.min(sums, initial=0.0) < 0:
            column = int(np.argmin(sums))
            raise DeviceError(
                f"layer {layer}, column {column} of the gradient has the sum of squares {sums[column]}: "
                "the device's memory or hardware has failed"
            )


def contribution_norms(delta: np.ndarray, xh: np.ndarray) -> np.ndarray:
    """Give the 2-norm of each sequence's term of dW at each step, δ ⊗ xh: float64, (T, B).

    `delta` is float32, (T, B, 4H), `xh` (T, B, K).
    """
    squares = [np.einsum("tbn,tbn->tb", array, array, dtype=np.float64) for array in (delta, xh)]
    return np.sqrt(squares[0] * squares[1])


def clip_scale(norm: float, clip: float | None) -> np.float32:
    """Give the factor that scales a gradient of `norm` down to `clip`: 1 without a clip, or if `norm` is within it."""
    if not clip or norm <= clip:
        return np.float32(1.0)
    return np.float32(clip / (norm + CLIP_EPSILON))
