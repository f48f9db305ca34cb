"""The machine's sigmoid and hyperbolic tangent: the same integers as `Activation` in :mod:`etalstm_hw.fp`."""

import numpy as np
from numba import njit

from etalstm.golden.arithmetic import NAN
from etalstm_hw.contract.activation_tables import FIRST, FRACTION_BITS, LAST, OFFSET_BITS, coefficients

BOUND_ULP = 2
"""How far results may be from the function, in units of the last place of the exact value ..."""
BOUND_ABSOLUTE = 2.0**-23
"""... or absolutely, whichever is larger: what the gates' sums, of terms around 1, can tell apart."""
BOUND_RELATIVE_TANH = 2.0**-20
"""And for tanh of every normal number: a state that starts tiny keeps its sign and scale."""

_C0, _C1, _C2 = (np.array(column, np.uint32) for column in zip(*coefficients(), strict=True))
_ONE = 1 << FRACTION_BITS


@njit
def _tangent(exponent, fraction):
    """Evaluate tanh(y) / 2^min(e, 0) of y = 2^e · (1 + fraction / 2^23), with ``FRACTION_BITS`` places."""
    offset = fraction & (1 << OFFSET_BITS) - 1
    n = (min(max(exponent, FIRST), LAST) - FIRST << 23) + fraction >> OFFSET_BITS
    c0, c1, c2 = np.int64(_C0[n]), np.int64(_C1[n]), np.int64(_C2[n])
    inside = c0 + ((c1 - (c2 * offset >> OFFSET_BITS)) * offset >> OFFSET_BITS)
    small = (fraction | 1 << 23) << FRACTION_BITS - 23
    return small if exponent < FIRST else (_ONE if exponent > LAST else inside)


@njit
def _activate(word, is_tanh):
    """Evaluate either function on the int64 value of a word; gives a float32.

    There are no branches, so that loops over it become vector instructions. The last step makes a float64 of an integer
    below 2^31, which is exact, and rounds it once, to nearest even.
    """
    sign, biased, fraction = word >> 31, word >> 23 & 0xFF, word & 0x7FFFFF
    exponent = biased - (127 if is_tanh else 128)  # sigmoid(x) = (1 + tanh(x / 2)) / 2
    tangent = _tangent(exponent, fraction)
    half = tangent >> min(max(-exponent, 0), 31)
    number = tangent if is_tanh else (_ONE - half if sign else _ONE + half)
    scale = (1023 - FRACTION_BITS) + (min(exponent, 0) if is_tanh else -1)
    size = np.float32(np.float64(number) * np.int64(scale << 52).view(np.float64))
    size = np.float32(0) if is_tanh and biased == 0 else size
    result = -size if is_tanh and sign else size
    return NAN if biased == 255 and fraction != 0 else result


@njit
def activation_of(x, is_tanh):
    """Evaluate the hyperbolic tangent or the sigmoid of a float32 in compiled code; bit-identical to `Activation`."""
    return _activate(np.int64(np.float32(x).view(np.uint32)), is_tanh)


@njit(nogil=True)
def _each(x, is_tanh):
    results = np.empty_like(x)
    for n in range(len(x)):
        results[n] = activation_of(x[n], is_tanh)
    return results


def _elementwise(x, is_tanh):
    return _each(np.ascontiguousarray(x, np.float32).reshape(-1), is_tanh).reshape(np.shape(x))


def sigmoid(x):
    """Evaluate the sigmoid of a float32 array element by element.

    Exactness: bit-identical to `Activation`; within ``BOUND_ULP`` or ``BOUND_ABSOLUTE`` of the function, whichever is
    larger (found: 0.85 ulp above 1/2).
    """
    return _elementwise(x, False)


def tanh(x):
    """Evaluate the hyperbolic tangent of a float32 array element by element.

    Exactness: bit-identical to `Activation`; within ``BOUND_ULP`` or ``BOUND_ABSOLUTE`` of the function, whichever is
    larger (found: 1.2 ulp), and within ``BOUND_RELATIVE_TANH`` for every normal number. Odd.
    """
    return _elementwise(x, True)
