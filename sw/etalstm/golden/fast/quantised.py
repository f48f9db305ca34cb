"""Whole matrices and passes of integers, compiled: weights are quantised, sums become gradients.

A pass of :mod:`etalstm.golden.fast.integers` leaves mantissas; their values are made when they are read.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

from etalstm.golden.integers import IntegerProduct, QuantisedMatrix
from etalstm.golden.passes import StoredPass, with_padding
from etalstm.host.crew import COPY_PRODUCTS, CREW
from etalstm.network.arithmetic import DIGIT, LEAST_EXPONENT, SMALLEST, most
from etalstm.network.arithmetic import scaled as values_of
from etalstm.network.delta_inputs import LayerInputs


@njit(nogil=True, cache=True)
def scaled(total, factor):
    """Do what :func:`etalstm.network.arithmetic.scaled` does with one integer; `factor` is a power of two, float64."""
    exact = np.float64(np.float32(total)) * factor
    return np.float32(0.0) if abs(exact) < SMALLEST else np.float32(exact)


@njit(nogil=True, cache=True)
def count_digits(numbers):
    """Count the digits that all mantissas of δ are sent as: :func:`etalstm.network.arithmetic.digits`."""
    count = 0
    for n in range(numbers.shape[0]):
        for number in numbers[n]:
            size = abs(np.int32(number))
            count += (size != 0) + (size >= DIGIT and size % DIGIT != 0)
    return count


def powers(exponents) -> np.ndarray:
    """Give two to the power of some exponents, float64."""
    return np.ldexp(1.0, np.asarray(exponents))


@njit(nogil=True, cache=True)
def _quantise_matrix(weights, bits, limit, numbers, exponents, begin, end):
    """Do what :meth:`QuantisedMatrix.of` does with some rows."""
    for r in range(begin, end):
        largest = np.float32(0)
        for k in range(weights.shape[1]):
            largest = max(largest, abs(weights[r, k]))
        exponents[r] = LEAST_EXPONENT if largest == 0 else max(math.frexp(largest)[1], LEAST_EXPONENT)
        scale = 2.0 ** (bits - 1 - exponents[r])
        for k in range(weights.shape[1]):
            exact = np.rint(np.float64(weights[r, k]) * scale)
            numbers[r, k] = np.int16(min(max(exact, -limit), limit))


def quantised(weights, bias, arithmetic) -> QuantisedMatrix:
    """Do what :meth:`QuantisedMatrix.of` does."""
    numbers, exponents = np.empty(weights.shape, np.int16), np.empty(len(weights), np.int32)
    limit = float(most(arithmetic.bits))
    CREW.run(len(weights), weights.size * COPY_PRODUCTS, lambda *piece: _quantise_matrix(
        weights, arithmetic.bits, limit, numbers, exponents, *piece))  # fmt: skip
    return QuantisedMatrix(numbers, exponents, bias)


@njit(nogil=True, cache=True)
def _scale_rows(sums, of_rows, of_columns, results, begin, end):
    """Fill some rows of float32 from integer sums."""
    for r in range(begin, end):
        for k in range(sums.shape[1]):
            results[r, k] = scaled(sums[r, k], of_rows[r] * of_columns[k])


def from_sums(product: IntegerProduct, weights, bias) -> tuple[np.ndarray, np.ndarray]:
    """Do what :meth:`IntegerProduct.from_sums` does."""
    by_row, of_columns = powers(product.by_row), powers(product.of_columns - (product.arithmetic.bits - 1))
    results = np.empty(weights.shape, np.float32)
    CREW.run(len(weights), weights.size * COPY_PRODUCTS, lambda *piece: _scale_rows(
        weights, by_row, of_columns, results, *piece))  # fmt: skip
    of_bias = np.empty((len(bias), 1), np.float32)
    _scale_rows(bias[:, None], by_row, np.ones(1), of_bias, 0, len(bias))
    return results, of_bias[:, 0]


@dataclass(frozen=True)
class IntegerPass(StoredPass):
    """One LSTM layer's forward pass with integers, with N real steps of all sequences.

    Members
    -------
    delta_inputs : LayerInputs                 what was sent when
    product : IntegerProduct                   the layer's matrix, and the exponents of the pass
    x_numbers, h_numbers : arrays, int16, (N, I) and (N, H)    the mantissas that the real steps have acted on
    """

    delta_inputs: LayerInputs
    product: IntegerProduct
    x_numbers: np.ndarray
    h_numbers: np.ndarray

    @property
    def sent(self) -> tuple[np.ndarray, np.ndarray]:
        """The mantissas that x and h were last sent as, int16, (T, B, I) and (T, B, H); 0 at padding."""
        return with_padding(self.x_numbers, self.active), with_padding(self.h_numbers, self.active)

    @property
    def x_sent(self) -> np.ndarray:
        """The values that x was last sent as, float32, (T, B, I); +0 at padding."""
        return self._values(self.x_numbers, 0)

    @property
    def h_sent(self) -> np.ndarray:
        """The values that the h of the step before was last sent as, float32, (T, B, H); +0 at padding."""
        return self._values(self.h_numbers, 1)

    def _values(self, numbers: np.ndarray, operand: int) -> np.ndarray:
        exponent = self.product.operand_exponents[operand] - (self.product.arithmetic.bits - 1)
        return with_padding(values_of(numbers, exponent), self.active)


@dataclass(frozen=True)
class IntegerBackward:
    """One LSTM layer's backward pass with integers; rows in canonical order ``4*unit + gate``.

    Members
    -------
    dx, dh0, dc0 : arrays, float32
    product : IntegerProduct
    numbers : array, int16, (N, 4H)         D, in the order of :func:`etalstm.golden.passes.without_padding`
    active : array, bool, (T, B)
    weight_sums, bias_sums : arrays, int64, (4H, K) and (4H,)    of D·m and D' over all real steps
    """

    dx: np.ndarray
    dh0: np.ndarray
    dc0: np.ndarray
    product: IntegerProduct
    numbers: np.ndarray
    active: np.ndarray
    weight_sums: np.ndarray
    bias_sums: np.ndarray

    @cached_property
    def _gradients(self) -> tuple[np.ndarray, np.ndarray]:
        return from_sums(self.product, self.weight_sums, self.bias_sums)

    @property
    def weights(self) -> np.ndarray:
        """dW, float32, (4H, K)."""
        return self._gradients[0]

    @property
    def bias(self) -> np.ndarray:
        """db, float32, (4H,)."""
        return self._gradients[1]

    @property
    def broadcast(self) -> np.ndarray:
        """D, as :attr:`numbers`: where it is zero, δ is not broadcast."""
        return self.numbers

    @property
    def gates(self) -> int:
        """Rows of each unit."""
        return len(self.bias_sums) // self.dh0.shape[1]

    @property
    def products(self) -> tuple["IntegerBackward"]:
        """The gradients of the layer's one product."""
        return (self,)

    @property
    def delta(self) -> np.ndarray:
        """The values of δ as broadcast, with padding: float32, (T, B, 4H)."""
        return with_padding(self.product.delta_values(self.numbers), self.active)
