"""A product of the reference in integers: what :mod:`etalstm.network.arithmetic` defines, with sums in float64.

Every number up to 2^53 is exact in float64, and no sum of :attr:`~etalstm.network.arithmetic.Arithmetic.most_terms`
terms reaches that. So any order of a sum, any BLAS, gives the same integers.
"""

from dataclasses import dataclass, field

import numpy as np

from etalstm.errors import DivergedError
from etalstm.golden.arithmetic import add
from etalstm.golden.cell import pruned
from etalstm.golden.product import FloatProduct
from etalstm.network.arithmetic import LEAST_EXPONENT, Arithmetic, exponent_of, quantise, scaled
from etalstm.network.delta_inputs import LayerInputs, least_change, moved


@dataclass(frozen=True)
class QuantisedMatrix:
    """A matrix as passes with integers read it, rows in canonical order, and its bias.

    Members
    -------
    numbers : array, int16, (G*H, K)    w
    exponents : array, int32, (G*H,)    e_r
    bias : array, float32, (G*H,)
    """

    numbers: np.ndarray
    exponents: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, product: FloatProduct, arithmetic: Arithmetic) -> "QuantisedMatrix":
        """Quantise a matrix row by row."""
        exponents = exponent_of(np.abs(product.weights).max(axis=1))
        return cls(quantise(product.weights, exponents[:, None], arithmetic.bits)[0], exponents, product.bias)


@dataclass
class Peak:
    """Of the numbers that were quantised with one exponent: the largest magnitude, and how many are saturated."""

    largest: float = 0.0
    saturated: int = 0

    def take(self, largest: float, saturated: int) -> None:
        """Note some numbers; :class:`DivergedError` if one is not finite."""
        if not np.isfinite(largest):
            raise DivergedError("a number to be quantised is not finite: training has diverged")
        self.largest = max(self.largest, float(largest))
        self.saturated += saturated


@dataclass
class IntegerProduct:
    """A matrix in a pass, with the exponents of its operands and of its δ.

    Members
    -------
    matrix : QuantisedMatrix
    arithmetic : Arithmetic
    widths : tuple of int           columns of each operand
    operand_exponents : tuple of int
    delta_exponent : int
    together : bool                 the operands, all of exponent 0, are one sum
    operand_peaks, delta_peak : Peak    of what has been quantised; δ times its row's 2^e_r
    """

    matrix: QuantisedMatrix
    arithmetic: Arithmetic
    widths: tuple[int, ...]
    operand_exponents: tuple[int, ...]
    delta_exponent: int = LEAST_EXPONENT
    operand_peaks: tuple[Peak, ...] = ()
    delta_peak: Peak = field(default_factory=Peak)
    together: bool = False

    def __post_init__(self):
        self.operand_peaks = self.operand_peaks or tuple(Peak() for _ in self.widths)

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return len(self.matrix.bias)

    @property
    def of_columns(self) -> np.ndarray:
        """The exponent of every column's operand, int, (K,)."""
        return np.repeat(self.operand_exponents, self.widths)

    @property
    def of_sums(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The columns of each of a gate's sums, and the exponents of their operands."""
        return ((sum(self.widths),), (0,)) if self.together else (self.widths, self.operand_exponents)

    @property
    def by_row(self) -> np.ndarray:
        """The exponent of every row's D, int, (G*H,)."""
        return self.delta_exponent - (self.arithmetic.delta_bits - 1) - self.matrix.exponents

    def gate_sums(self, delta_inputs: LayerInputs, active: np.ndarray, *_) -> "IntegerGateSums":
        """Give what adds up the gates' sums of a pass; equal tokens have equal sums by themselves."""
        return IntegerGateSums(self, delta_inputs, active)

    def broadcast(self, delta: np.ndarray, threshold: float) -> np.ndarray:
        """Give the values of the δ of a step as it is broadcast, float32: pruned, then quantised."""
        numbers, saturated = self._of_delta(delta)
        largest = np.abs(np.ldexp(delta.astype(np.float64), self.matrix.exponents)).max()
        self.delta_peak.take(largest, saturated)
        return np.where(pruned(delta, threshold) != 0, self.delta_values(numbers), np.float32(0))

    def collected(self, delta_inputs: LayerInputs, given: np.ndarray, sent: np.ndarray) -> "IntegerGradients":
        """Give what collects the gradients of operands that were `given` and last sent as `sent`, (T, B, K)."""
        own = delta_inputs.off or self.operand_numbers(given) == self.operand_numbers(sent)
        return IntegerGradients(self, np.broadcast_to(own, sent.shape))

    def gradients(
        self, delta: np.ndarray, whole: np.ndarray, sent: np.ndarray, slices: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give dW and db, float32; they are the same for any number of slices."""
        numbers, whole_numbers, operands = (
            array.reshape(-1, array.shape[2]).astype(np.float64)
            for array in (self._of_delta(delta)[0], self._of_delta(whole)[0], self.operand_numbers(sent))
        )
        return self.from_sums(numbers.T @ operands, whole_numbers.sum(axis=0))

    def from_sums(self, weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give dW and db, float32, from the sums of all steps and sequences of the batch."""
        of_operands = self.of_columns - (self.arithmetic.bits - 1)
        return scaled(weights, self.by_row[:, None] + of_operands), scaled(bias, self.by_row)

    def operand_numbers(self, values: np.ndarray) -> np.ndarray:
        """Give the mantissas of float32 operands, (..., K)."""
        return quantise(values, self.of_columns, self.arithmetic.bits)[0]

    def sums_below(self, delta: np.ndarray) -> np.ndarray:
        """Give Σ_r w·D for the δ of a step, (B, G*H): float64 with integers, (B, K)."""
        return self._of_delta(delta)[0].astype(np.float64) @ self.matrix.numbers

    @property
    def below(self) -> int:
        """The exponent of :meth:`sums_below`."""
        return self.delta_exponent - (self.arithmetic.delta_bits - 1) - (self.arithmetic.bits - 1)

    def _of_delta(self, delta: np.ndarray) -> tuple[np.ndarray, int]:
        exponents = self.delta_exponent - self.matrix.exponents
        return quantise(delta, exponents, self.arithmetic.delta_bits)

    def delta_numbers(self, delta: np.ndarray) -> np.ndarray:
        """Give the mantissas of δ, (..., G*H)."""
        return self._of_delta(delta)[0]

    def delta_values(self, numbers: np.ndarray) -> np.ndarray:
        """Give the values of mantissas of δ, (..., G*H)."""
        return scaled(numbers, self.by_row)


class IntegerGateSums:
    """The sums of a product's gates, from step to step, and what each element of its operands was last sent as.

    With delta inputs an element is sent if its mantissa has changed by at least Θ, rounded up to whole steps of its
    grid. The sums of all that was sent before stay, exactly. So a refresh step would send what is there already: R
    changes nothing. With a Θ of 0 every change is sent, and the sums are those without delta inputs.
    """

    def __init__(self, product: IntegerProduct, delta_inputs: LayerInputs, active: np.ndarray):
        self._product, self._active, self._off = product, active, delta_inputs.off
        of_operands = np.repeat([delta_inputs.x, delta_inputs.h][: len(product.widths)], product.widths)
        self._least = least_change(of_operands, product.arithmetic.bits, product.of_columns)
        self._sent = np.empty(0, np.int16)  # of the step before; step 0 sends everything

    def step(self, t: int, operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the sums of step t, float32, (B, G*H), and what the operands were last sent as, float32, (B, K)."""
        product, (columns, exponents) = self._product, self._product.of_sums
        edges, numbers = np.cumsum(columns), self._quantised(t, operands)
        if t and not self._off:
            numbers = np.where(self._sends(t, numbers), numbers, self._sent)
        self._sent, z = numbers, np.broadcast_to(product.matrix.bias, (len(operands), product.rows))
        parts = zip(np.split(numbers, edges[:-1], 1), np.split(product.matrix.numbers, edges[:-1], 1), strict=True)
        unit = product.arithmetic.bits - 1
        for (operand, weights), exponent in zip(parts, exponents, strict=True):
            sums = operand.astype(np.float64) @ weights.T
            z = add(z, scaled(sums, product.matrix.exponents + exponent - 2 * unit))
        return z, scaled(numbers, product.of_columns - unit)

    def _quantised(self, t: int, operands: np.ndarray) -> np.ndarray:
        """Give the mantissas of a step, and note their peaks; those of padding count for nothing."""
        product, first = self._product, 0
        numbers = product.operand_numbers(operands)
        for width, peak in zip(product.widths, product.operand_peaks, strict=True):
            columns = slice(first, first + width)
            given = operands[self._active[t], columns]
            exponent = product.of_columns[columns]
            peak.take(np.abs(given).max(initial=0), quantise(given, exponent, product.arithmetic.bits)[1])
            first += width
        return numbers

    def _sends(self, t: int, numbers: np.ndarray) -> np.ndarray:
        """Tell which elements have changed by at least their threshold; none of padding has."""
        product = self._product
        real = np.where(
            np.arange(numbers.shape[1]) < product.widths[0], self._active[t][:, None], self._active[t - 1][:, None]
        )
        return real & moved(numbers, self._sent, self._least)


class IntegerGradients:
    """The gradients of a product's operands: they collect, in float32, down to the step at which an element was sent.

    `own`, bool, (T, B, K), tells where the mantissa that was last sent is that of the element itself, whether it was
    sent there or is the same by chance.
    """

    def __init__(self, product: IntegerProduct, own: np.ndarray):
        self._product, self._own = product, own
        self.drop()

    def drop(self) -> None:
        """Pass nothing on of what has been collected."""
        self._collected = np.full(self._own.shape[1:], -0.0, np.float32)

    def step(self, t: int, delta: np.ndarray) -> np.ndarray:
        """Collect the sums over δ of step t; gives the gradient of elements of their own mantissa, and +0 else."""
        collected = add(self._collected, scaled(self._product.sums_below(delta), self._product.below))
        self._collected = np.where(self._own[t], np.float32(-0.0), collected)
        return np.where(self._own[t], collected, np.float32(0))
