"""A network's cell, sizes and parameters, checked once for all devices.

B sequences, T steps, I inputs, H hidden units, L layers, K = I + H (the layer's input and its own h).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from etalstm.host.computer import check_host_memory
from etalstm.host.crew import flushed
from etalstm.network.cells import cell_named
from etalstm.network.cells.cell import Cell
from etalstm.network.cells.lstm import LSTM

GATES = len(LSTM.stages[0].gates)  # rows of each unit in the matrix of an LSTM layer
LARGEST_SIZE = 1 << 48
WORD_BYTES = 4  # of a float32


def flush_subnormals(values: ArrayLike) -> np.ndarray:
    """Copy float32 `values`, every subnormal replaced by a zero of its sign, as the machine reads them."""
    return flushed(np.asarray(values, np.float32))[0]


def check_size(name: str, value: object) -> int:
    """Give `value` as a Python int; ``ValueError`` unless it is an integer above 0 and at most ``LARGEST_SIZE``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value <= 0:
        raise ValueError(f"{name} must be above 0, got {value}")
    if value > LARGEST_SIZE:
        raise ValueError(f"{name} must be at most {LARGEST_SIZE:,}, the addresses of any memory, got {value:,}")
    return int(value)


def check_sizes(**sizes: object) -> None:
    """Check values by their names; raises as :func:`check_size`."""
    for name, value in sizes.items():
        check_size(name, value)


def check_unmasked(name: str, values: object) -> None:
    """Raise ``ValueError`` for an array of :mod:`numpy.ma`, whose mask would be ignored."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} must be a plain NumPy array, got a masked one, whose mask would be lost: fill it")


def check_float32(name: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Check an array that enters the machine and flush its subnormals; gives a copy, float32, contiguous.

    Raises ``ValueError``, naming the array `name`, if it is no plain NumPy array, not float32, of another shape, or not
    finite; the last message gives the first such index.
    """
    check_unmasked(name, values)
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{name} must be a NumPy array of float32, got {type(values).__name__}")
    if values.dtype != np.float32:
        raise ValueError(f"{name} must be float32, got {values.dtype}")
    if values.shape != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {values.shape}")
    copy, finite = flushed(values)
    if not finite:
        index = tuple(int(n) for n in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"{name} must be finite, got {values[index]} at index {index}")
    return copy


@dataclass(frozen=True)
class MatrixShape:
    """One of the matrices of a network, with `gates` rows of each unit, and `rows` in all.

    `name` names the layer, and the product if its cell has several.
    """

    name: str
    gates: int
    rows: int
    columns: int


@dataclass(frozen=True)
class NetworkShape:
    """Cell and sizes of a stack of recurrent layers.

    ``ValueError`` if a size is not an integer above zero, or there is no such cell.

    Parameters
    ----------
    input_size : int
        Inputs I of the first layer.
    hidden_size : int
        Units H of every layer.
    layers : int
        Layers L; each above the first takes the h of the one below.
    cell : str
        Name of the cell of all layers, see :mod:`etalstm.network.cells`.
    """

    input_size: int
    hidden_size: int
    layers: int = 1
    cell: str = LSTM.name

    def __post_init__(self) -> None:
        cell_named(self.cell)
        for name in ("input_size", "hidden_size", "layers"):
            object.__setattr__(self, name, check_size(name, getattr(self, name)))

    def inputs_of(self, layer: int) -> int:
        """Inputs I of one layer."""
        return self.input_size if layer == 0 else self.hidden_size

    def columns_of(self, layer: int) -> int:
        """Columns K = I + H of one layer's matrix."""
        return self.inputs_of(layer) + self.hidden_size

    def of_layers(self, layers: range) -> "NetworkShape":
        """Give the network of some consecutive layers."""
        return replace(self, input_size=self.inputs_of(layers[0]), layers=len(layers))

    @property
    def rows(self) -> int:
        """Rows 4H of every layer's matrix."""
        return GATES * self.hidden_size

    @property
    def declared(self) -> Cell:
        """The cell's declaration."""
        return cell_named(self.cell)

    @cached_property
    def matrices(self) -> list[MatrixShape]:
        """The matrices of all layers: a layer's in the order of its cell's products."""
        products, found = self.declared.products, []
        for layer in range(self.layers):
            sizes = self.declared.matrices(self.inputs_of(layer), self.hidden_size)
            for product, size in zip(products, sizes, strict=True):
                name = f"layer {layer}" if len(products) == 1 else f"layer {layer}, {', '.join(product.gates)}"
                found.append(MatrixShape(name, len(product.gates), *size))
        return found

    def weights(self, cell: Cell | None = None) -> int:
        """Count the elements of all layers' matrices; if `cell` is given, as if that were the network's."""
        cell = cell or self.declared
        inner = cell.weights(self.hidden_size, self.hidden_size)
        return cell.weights(self.input_size, self.hidden_size) + (self.layers - 1) * inner

    @property
    def is_lstm(self) -> bool:
        """Whether the cell is the LSTM."""
        return self.cell == LSTM.name

    def require_lstm(self, what: str) -> None:
        """Raise ``ValueError`` if the cell is no LSTM; `what` names the feature that needs one."""
        if not self.is_lstm:
            raise ValueError(f"{what}: only for cell {LSTM.name}, got cell {self.cell}")


@dataclass(frozen=True)
class LayerParameters:
    """A matrix of a layer and its bias, in PyTorch's row order. An LSTM layer has one.

    Parameters
    ----------
    weights : array, float32, (G*H, K)    row ``gate*H + unit``; an LSTM's acts on ``[x, h]``, with the gates i, f, g, o
    bias : array, float32, (G*H,)         of an LSTM PyTorch's two biases, added
    gates : int                           rows G of each unit

    Subnormals are flushed; the arrays are copies. Raises ``ValueError`` on a wrong shape or dtype, or a value that is
    not finite.
    """

    weights: np.ndarray
    bias: np.ndarray
    gates: int = GATES

    def __post_init__(self) -> None:
        shape = np.shape(self.weights)
        rows, columns = shape if len(shape) == 2 else (0, 0)
        if self.gates == GATES and (not rows or rows % GATES or columns <= rows // GATES):
            raise ValueError(f"weights must have shape (4H, I + H) with H, I above 0, got {shape}")
        if not rows or not columns or rows % self.gates:
            raise ValueError(f"weights of {self.gates} gates must have as many rows for each unit, got shape {shape}")
        object.__setattr__(self, "weights", check_float32("weights", self.weights, shape))
        object.__setattr__(self, "bias", check_float32("bias", self.bias, shape[:1]))

    @property
    def hidden_size(self) -> int:
        """Units H."""
        return self.weights.shape[0] // self.gates

    @property
    def input_size(self) -> int:
        """Inputs I."""
        return self.weights.shape[1] - self.hidden_size


class LayerGradients:
    """One layer's gradients, in the same row order as :class:`LayerParameters`.

    `weights` is float32, (4H, K), `bias` (4H,). `in_order` gives a contiguous array in PyTorch's row order, for either
    or for some columns of `weights`. Default: they are in this order. An array is reordered only when it is read.

    Nothing is checked: if a gradient has overflowed, :func:`etalstm.network.update_rule.gradient_norm` raises.
    """

    def __init__(
        self, weights: np.ndarray, bias: np.ndarray, in_order: Callable[[np.ndarray], np.ndarray] = np.ascontiguousarray
    ):
        self._weights, self._bias, self._in_order = weights, bias, in_order

    @cached_property
    def weights(self) -> np.ndarray:
        """Gradient of the matrix."""
        return self._in_order(self._weights)

    @cached_property
    def bias(self) -> np.ndarray:
        """Gradient of the bias."""
        return self._in_order(self._bias)

    def tensors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give the gradients of PyTorch's w_ih (4H, I), w_hh (4H, H) and bias (4H,): new arrays."""
        inputs = self._weights.shape[1] - self._weights.shape[0] // GATES
        w_ih, w_hh = self._weights[:, :inputs], self._weights[:, inputs:]
        return self._in_order(w_ih), self._in_order(w_hh), self.bias.copy()


def canonical_rows(array: np.ndarray, gates: int = GATES) -> np.ndarray:
    """Reorder a leading axis of G*H rows from PyTorch's ``gate*H + unit`` to the machine's ``G*unit + gate``."""
    rows = np.asarray(array)
    return np.ascontiguousarray(rows.reshape(gates, -1, *rows.shape[1:]).swapaxes(0, 1)).reshape(rows.shape)


def pytorch_rows(array: np.ndarray, gates: int = GATES) -> np.ndarray:
    """Reorder a leading axis of G*H rows from ``G*unit + gate`` to PyTorch's ``gate*H + unit``."""
    rows = np.asarray(array)
    return np.ascontiguousarray(rows.reshape(-1, gates, *rows.shape[1:]).swapaxes(0, 1)).reshape(rows.shape)


def check_parameters(
    shape: NetworkShape, parameters: Iterable[LayerParameters], name: str = "parameters"
) -> list[LayerParameters]:
    """Check that `parameters` (or velocities) fit a network of `shape`, and give them as a list.

    There is one entry for each of :attr:`NetworkShape.matrices`. Raises ``ValueError`` if the number of entries or a
    matrix has another size, or an entry is no :class:`LayerParameters`.
    """
    parameters = list(parameters)
    if len(parameters) != len(shape.matrices):
        what = "layers" if len(shape.matrices) == shape.layers else f"matrices, of {shape.layers} layers"
        raise ValueError(f"{name} must have {len(shape.matrices)} {what}, got {len(parameters)}")
    for matrix, entry in zip(shape.matrices, parameters, strict=True):
        if not isinstance(entry, LayerParameters):
            raise ValueError(f"{name} of {matrix.name} must be LayerParameters, got {type(entry).__name__}")
        expected = (matrix.rows, matrix.columns)
        got = entry.weights.shape
        if got != expected:
            raise ValueError(f"weights of {matrix.name} in {name} must have shape {expected}, got {got}")
        if entry.gates != matrix.gates:
            raise ValueError(f"weights of {matrix.name} in {name} must have {matrix.gates} gates, got {entry.gates}")
    return parameters


def initial_parameters(shape: NetworkShape, seed: int) -> list[LayerParameters]:
    """Draw a network's first weights and biases, uniform in ±1/sqrt(H).

    The generator is PCG64 of `seed`; matrices in order, each its weights row by row, then its bias. Equal seeds give
    equal bits on every machine. :class:`HostMemoryError` if this computer's memory cannot hold them.
    """
    check_host_memory("the network's weights", WORD_BYTES * shape.weights())
    generator = np.random.Generator(np.random.PCG64(seed))
    bound = np.float32(1.0 / np.sqrt(shape.hidden_size))

    def draw(*size: int) -> np.ndarray:
        return (generator.random(size, np.float32) * np.float32(2) - np.float32(1)) * bound

    return [LayerParameters(draw(m.rows, m.columns), draw(m.rows), m.gates) for m in shape.matrices]


def zero_velocities(shape: NetworkShape) -> list[LayerParameters]:
    """Give the velocities of a network that has not been updated yet."""
    zeros = partial(np.zeros, dtype=np.float32)
    return [LayerParameters(zeros((m.rows, m.columns)), zeros(m.rows), m.gates) for m in shape.matrices]


def operations(shape: NetworkShape, batch: int, steps: int) -> int:
    """Count the multiplications and additions of the three matrix products of an iteration, first dx included."""
    return 2 * 3 * shape.weights() * batch * steps
