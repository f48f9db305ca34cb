"""A cell's element-wise work in the machine's float32, equation by equation, as the element-wise engine computes it."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from etalstm.formats.codec import round_bf16
from etalstm.golden.activation import sigmoid, tanh
from etalstm.golden.arithmetic import add, multiply
from etalstm.network.cells.operation import CONSTANTS, Operation
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
