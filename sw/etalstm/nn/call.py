"""One layer and direction of a network, as an engine computes it.

Dimensions: B sequences, T steps, I inputs, H units.
"""

import ctypes
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from etalstm.golden.passes import with_padding, without_padding
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import Execution
from etalstm.network.shape import GATES, LayerGradients, LayerParameters

_compare = ctypes.CDLL(None).memcmp  # several times as fast as NumPy's comparison, which writes an array
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


@dataclass(frozen=True, eq=False)
class Call(ABC):
    """The inputs of a layer's pass; subclasses add the weights of a kind of cell."""

    x: np.ndarray  # (T, B, I): steps in the order in which the layer reads them
    lengths: np.ndarray | None  # int64, (B,): steps of each sequence; None: T for all
    # h0, c0: (B, H)
    h0: np.ndarray
    c0: np.ndarray
    execution: Execution  # of this one layer; a batch of fewer sequences has as many slices as sequences
    cell: ClassVar[str]  # name of the layer's cell

    @property
    def inputs(self) -> tuple[np.ndarray | None, ...]:
        """The arrays that change from call to call: x, lengths, h0, c0."""
        return self.x, self.lengths, self.h0, self.c0

    @property
    @abstractmethod
    def weights(self) -> tuple[np.ndarray, ...]:
        """The arrays that stay on a device between two calls; the second is w_hh."""

    @staticmethod
    @abstractmethod
    def parameters(weights: tuple[np.ndarray, ...]) -> list[LayerParameters]:
        """Give weights, or velocities, in the form that a session loads."""

    @staticmethod
    @abstractmethod
    def tensors(gradients: list[LayerGradients]) -> tuple[np.ndarray, ...]:
        """Give a session's gradients in the form of :attr:`weights`: new arrays."""


@dataclass(frozen=True, eq=False)
class LayerCall(Call):
    """A call of an LSTM layer."""

    w_ih: np.ndarray  # (4H, I)
    w_hh: np.ndarray  # (4H, H)
    bias: np.ndarray  # (4H,)
    cell = LSTM.name

    @property
    def weights(self):
        """Give w_ih, w_hh, bias."""
        return self.w_ih, self.w_hh, self.bias

    @staticmethod
    def parameters(weights):
        """Give the one matrix and its bias."""
        w_ih, w_hh, bias = weights
        return [LayerParameters(np.concatenate([w_ih, w_hh], axis=1), bias)]

    @staticmethod
    def tensors(gradients):
        """Give the gradients of w_ih, w_hh, bias."""
        return gradients[0].tensors()


@dataclass(frozen=True, eq=False)
class HLSTMCall(Call):
    """A call of an H-LSTM layer."""

    # w_ih, w_hh, hidden_bias: (4H, I), (4H, H), (4H,): of the hidden layers of i, f, g, o
    w_ih: np.ndarray
    w_hh: np.ndarray
    hidden_bias: np.ndarray
    # w_gates, gates_bias: (4H, H), (4H,): of the gates, each with its hidden layer
    w_gates: np.ndarray
    gates_bias: np.ndarray
    cell = HLSTM.name

    @property
    def weights(self):
        """Give w_ih, w_hh, hidden_bias, w_gates, gates_bias."""
        return self.w_ih, self.w_hh, self.hidden_bias, self.w_gates, self.gates_bias

    @staticmethod
    def parameters(weights):
        """Give the hidden layers' matrix, and one for each gate."""
        w_ih, w_hh, hidden_bias, *of_gates = weights
        hidden = LayerParameters(np.concatenate([w_ih, w_hh], axis=1), hidden_bias)
        pairs = zip(*(np.split(array, GATES) for array in of_gates), strict=True)
        return [hidden, *(LayerParameters(matrix, bias, gates=1) for matrix, bias in pairs)]

    @staticmethod
    def tensors(gradients):
        """Give the gradients of w_ih, w_hh, hidden_bias, w_gates, gates_bias."""
        hidden, *of_gates = gradients
        matrices, biases = ([getattr(each, name) for each in of_gates] for name in ("weights", "bias"))
        return *hidden.tensors(), np.concatenate(matrices), np.concatenate(biases)


@dataclass(frozen=True, eq=False)
class LayerStep:
    """One step of SGD of a layer, as the host took it."""

    # weights, gradients, new_weights: w_ih (4H, I), w_hh (4H, H), bias (4H,): before, their gradients, and after
    weights: tuple[np.ndarray, ...]
    gradients: tuple[np.ndarray, ...]
    new_weights: tuple[np.ndarray, ...]
    # velocities, new_velocities: of the momentum, before and after
    velocities: tuple[np.ndarray, ...]
    new_velocities: tuple[np.ndarray, ...]
    # learning_rate, momentum, weight_decay: see :class:`etalstm.network.update_rule.UpdateRule`
    learning_rate: float
    momentum: float
    weight_decay: float


class Packing:
    """Converts between packed and padded batches; `lengths` are those of the sequences, int64, (B,).

    `batch_sizes`, int64, (T,), counts the sequences of each step, as in a ``PackedSequence``: the longest sequence is
    the first. Raises ``ValueError`` if they are not above 0 and descending.
    """

    def __init__(self, batch_sizes: np.ndarray):
        if not len(batch_sizes) or batch_sizes[-1] < 1 or (np.diff(batch_sizes) > 0).any():
            raise ValueError(f"batch_sizes must be above 0 and descend, got {batch_sizes.tolist()}")
        self._active = np.arange(batch_sizes[0]) < batch_sizes[:, None]
        self.lengths = self._active.sum(axis=0)

    def pad(self, data: np.ndarray) -> np.ndarray:
        """Give the padded array (T, B, N) of the packed one (steps of all sequences, N); padding is zero."""
        if len(data) != self.lengths.sum():
            raise ValueError(f"there must be {self.lengths.sum()} steps, as batch_sizes say, got {len(data)}")
        return with_padding(data, self._active)

    def pack(self, steps: np.ndarray) -> np.ndarray:
        """Give the packed array of a padded one: the inverse of :meth:`pad`."""
        return without_padding(steps, self._active)


def in_reading_order(steps: np.ndarray, lengths: np.ndarray | None, reverse: bool) -> np.ndarray:
    """Reverse each sequence of (T, B, N) if the layer reads it backwards; padding stays at its end.

    The function is its own inverse.
    """
    if not reverse:
        return steps
    if lengths is None:
        return steps[::-1].copy()  # NumPy takes a view of one reversed step for contiguous; PyTorch refuses its stride
    step = np.arange(len(steps))[:, None]
    source = np.where(step < lengths, lengths - 1 - step, step)
    return np.take_along_axis(steps, source[:, :, None], axis=0)


def same_bits(mine: tuple, others: tuple) -> bool:
    """Tell whether two tuples of arrays (or None) are equal bit by bit: -0 is not +0, and NaN equals itself."""
    return all(_same_words(a, b) for a, b in zip(mine, others, strict=True))


def _same_words(a, b) -> bool:
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return _compare(a.ctypes.data, b.ctypes.data, a.nbytes) == 0
