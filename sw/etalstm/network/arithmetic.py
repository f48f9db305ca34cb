"""The arithmetic of products and their sums: float32, or integers with exponents that many elements share.

With ``float32`` operands are what they are, and every product and sum is rounded in a fixed order. With ``int16`` and
``int8`` a product's operands are integers, *mantissas*, of so many bits, and within a sum nothing is rounded. So a sum
has no order. Element-wise work, biases, gradients and the weights that an update changes are float32 with either.

This module is the definition. `RNE` rounds to the nearest integer, ties to even. Exponents are integers from -126 on.

- ``E(a)``: the least exponent e with a < 2^e, for a >= 0; -126 for 0. See :func:`exponent_of`.
- ``Q(v, e, n) = clamp(RNE(v * 2^(n-1-e)), -M(n), M(n))`` with ``M(n) = 2^(n-1) - 1``, but ``M(15) = 16319``: what two
  digits can hold, see :func:`digits`. A mantissa that is clamped is *saturated*. See :func:`quantise`.
- ``f(s)``: an integer rounded to float32, once. ``scaled(s, e) = f(s) * 2^e``: exact, infinity if it is too large,
  +0 if it is below 2^-126. See :func:`scaled`.

With p bits of weights and of inputs (`bits`) and n of δ (`delta_bits`), for row r of a matrix and column k:

- Weights: ``e_r = E(max_k |W[r,k]|)``, ``w = Q(W, e_r, p)``.
- Inputs: ``m = Q(x, e_x, p)``, with one e_x for each operand of a product. It is 0 for an operand that its cell keeps
  within ±1, as h is. For x of the first layer it is E(max |x|) of the iteration's batch. For any other it is state: E
  of the largest in the iteration before, plus 1.
- δ: ``D = Q(δ[r] * 2^e_r, e_δ, n)``. e_δ is state of a product: E of the largest ``|δ[r] * 2^e_r|`` in the iteration
  before, plus 1. With the row's exponent in D one exponent holds for a sum over rows.

The sums, over what is not padding:

- Forward: ``z[r] = b[r]``, then for each operand in order
  ``z[r] = z[r] + scaled(Σ_k w*m, e_r + e_x - 2*(p-1))``, a float32 addition.
- Backward: ``dxh[k] = scaled(Σ_r w*D, e_δ - (n-1) - (p-1))``.
- Weights: ``dW[r,k] = scaled(Σ D*m, e_δ - (n-1) - e_r + e_x - (p-1))`` over all steps and sequences of the batch, and
  ``db[r] = scaled(Σ D', e_δ - (n-1) - e_r)``, where D' is of δ before any was pruned.

State of an iteration that has none yet is -126. If more than :data:`MOST_SATURATED` of the elements of a matrix's δ or
of an operand saturate, and in the first iteration if any does, the pass is run again with the exponents that follow.
"""

from dataclasses import dataclass, replace

import numpy as np

from etalstm.network.shape import check_size
from etalstm_hw.contract.integers import DELTA_BITS, DIGIT_BITS, SUM_BITS, WEIGHT_BITS
from etalstm_hw.contract.integers import largest_mantissa as most

LEAST_EXPONENT = -126
SMALLEST = 2.0**LEAST_EXPONENT  # the smallest normal float32
DIGIT = 1 << (DIGIT_BITS - 1)  # weight of the second digit
MOST_SATURATED = 2.0**-10
HEADROOM = 1  # of an exponent that follows from the iteration before: twice the largest fits


@dataclass(frozen=True)
class Arithmetic:
    """How operands of products are represented.

    Members
    -------
    name : str
        One of ``ARITHMETICS``.
    bits : int
        Bits p of weights and inputs; 0: they are float32.
    delta_bits : int
        Bits n of δ, one of ``DELTA_BITS``; 0 with float32.
    sum_bits : int
        Bits of a sum, with its sign.

    ``ValueError`` if `delta_bits` are others.
    """

    name: str
    bits: int = 0
    delta_bits: int = 0
    sum_bits: int = 0

    def __post_init__(self) -> None:
        if self.exact and self.delta_bits not in DELTA_BITS:
            raise ValueError(f"delta_bits must be from {DELTA_BITS[0]} to {DELTA_BITS[-1]}, got {self.delta_bits!r}")

    @property
    def exact(self) -> bool:
        """Whether operands are integers, so that sums are exact."""
        return self.bits > 0

    @property
    def most_terms(self) -> int:
        """The terms that a sum can have, whatever they are: more could overflow it."""
        return ((1 << (self.sum_bits - 1)) - 1) // (most(self.bits) * most(max(self.bits, self.delta_bits)))

    def with_delta_bits(self, bits: int) -> "Arithmetic":
        """Give the same arithmetic with other bits of δ; ``ValueError`` with float32."""
        if not self.exact:
            raise ValueError(f"delta_bits: only for an arithmetic of integers, got {bits} with {self.name}")
        return replace(self, delta_bits=check_size("delta_bits", bits))

    def check_terms(self, **terms: int) -> None:
        """Raise ``ValueError``, naming the first sum that has more terms than fit."""
        for name, count in terms.items():
            if self.exact and count > self.most_terms:
                raise ValueError(
                    f"{name.replace('_', ' ')}: a sum of {self.name} holds {self.most_terms:,} terms, got {count:,}"
                )


FLOAT32 = Arithmetic("float32")
INT16 = Arithmetic("int16", bits=16, delta_bits=15, sum_bits=48)
INT8 = Arithmetic("int8", bits=WEIGHT_BITS, delta_bits=12, sum_bits=SUM_BITS)
ARITHMETICS = {arithmetic.name: arithmetic for arithmetic in (FLOAT32, INT16, INT8)}


def arithmetic_named(name: str, delta_bits: int | None = None) -> Arithmetic:
    """Give an arithmetic by its name, with other bits of δ if they are given.

    Raises ``ValueError`` if there is none of that name, or it cannot have these bits.
    """
    if name not in ARITHMETICS:
        raise ValueError(f"arithmetic must be one of {', '.join(ARITHMETICS)}, got {name!r}")
    return ARITHMETICS[name] if delta_bits is None else ARITHMETICS[name].with_delta_bits(delta_bits)


def exponent_of(largest: np.ndarray | float) -> np.ndarray:
    """Give E of finite numbers of at least 0, element by element: int32."""
    return np.where(largest > 0, np.maximum(np.frexp(largest)[1], LEAST_EXPONENT), LEAST_EXPONENT)


def quantise(values: np.ndarray, exponents: np.ndarray | int, bits: int) -> tuple[np.ndarray, int]:
    """Give Q of finite float32, int16, and how many of the mantissas are saturated; shapes broadcast."""
    # Any float32 times 2^254 at most is exact in float64.
    rounded, limit = np.rint(np.ldexp(values.astype(np.float64), bits - 1 - np.asarray(exponents))), most(bits)
    return np.clip(rounded, -limit, limit).astype(np.int16), int(np.count_nonzero(np.abs(rounded) > limit))


def scaled(sums: np.ndarray, exponents: np.ndarray | int) -> np.ndarray:
    """Give integer sums as float32, times two to the power of `exponents`; shapes broadcast."""
    exact = np.ldexp(sums.astype(np.float32).astype(np.float64), exponents)
    with np.errstate(over="ignore"):
        return np.where(np.abs(exact) < SMALLEST, 0.0, exact).astype(np.float32)


def split(mantissas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give upper and lower digits, D1 and D0, int32: see :func:`digits`."""
    whole = mantissas.astype(np.int32)
    half = DIGIT // 2
    lower = np.where(np.abs(whole) < DIGIT, whole, (whole + half) % DIGIT - half)
    return (whole - lower) // DIGIT, lower


def digits(mantissas: np.ndarray) -> np.ndarray:
    """Count the digits of 8 bits that D is sent as: ``D = 128*D1 + D0``. One that is zero is not sent.

    A D of at most 127 in size is D0. Of any other, D0 is from -64 to 63.
    """
    magnitude = np.abs(mantissas.astype(np.int32))
    two = (magnitude >= DIGIT) & (magnitude % DIGIT != 0)
    return (magnitude != 0).astype(np.int32) + two
