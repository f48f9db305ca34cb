"""The machine's sigmoid and hyperbolic tangent: the same integers as `Activation` in :mod:`etalstm.hw.fp`."""

import numpy as np
from numba import njit

from etalstm.hw.fp.tables import FIRST, FRACTION_BITS, LAST, OFFSET_BITS, SIGMOID, TANH, coefficients

BOUND_ULP = 2
"""How far results may be from the function, in units of the last place of the exact value ..."""
BOUND_ABSOLUTE = 2.0**-23
"""... or absolutely, whichever is larger: what the gates' sums, of terms around 1, can tell apart."""
BOUND_RELATIVE_TANH = 2.0**-20
"""And for tanh of every normal number: a state that starts tiny keeps its sign and scale."""

_C0, _C1, _C2 = (np.array(column, np.int64) for column in zip(*coefficients(), strict=True))
_ONE = 1 << FRACTION_BITS
_TOP = FRACTION_BITS + 1
_DROPPED = _TOP - 23
_NAN = 0x7FC00000


@njit
def _tangent(exponent, fraction):
    """Evaluate tanh(y) / 2^min(e, 0) of y = 2^e · (1 + fraction / 2^23), with ``FRACTION_BITS`` places."""
    if exponent < FIRST:
        return (fraction | 1 << 23) << FRACTION_BITS - 23
    if exponent > LAST:
        return _ONE
    offset = fraction & (1 << OFFSET_BITS) - 1
    n = (exponent - FIRST << 23) + fraction >> OFFSET_BITS
    return _C0[n] + ((_C1[n] - (_C2[n] * offset >> OFFSET_BITS)) * offset >> OFFSET_BITS)


@njit
def _round(sign, exponent, number):
    """Make the word of ``number`` · 2^exponent, rounded to nearest even; ``number`` has ``FRACTION_BITS`` places."""
    if number == 0:
        return sign << 31
    exponent += 128
    while number >> _TOP == 0:
        number <<= 1
        exponent -= 1
    kept = number >> _DROPPED
    lost = number & (1 << _DROPPED) - 1
    half = 1 << _DROPPED - 1
    up = 1 if lost > half or (lost == half and kept & 1) else 0
    return (sign << 31) + (exponent - 1 << 23) + kept + up


@njit
def _activate(word, function):
    """Evaluate either function on the int64 value of a word."""
    sign, exponent, fraction = word >> 31, word >> 23 & 0xFF, word & 0x7FFFFF
    if exponent == 255 and fraction != 0:
        return np.int64(_NAN)
    if function == TANH:
        if exponent == 0:
            return sign << 31
        return _round(sign, min(exponent - 127, 0), _tangent(exponent - 127, fraction))
    # sigmoid(x) = (1 + tanh(x / 2)) / 2
    exponent -= 128
    tangent = _tangent(exponent, fraction) >> min(max(-exponent, 0), 31)
    return _round(np.int64(0), np.int64(-1), _ONE - tangent if sign else _ONE + tangent)


@njit
def sigmoid_word(word):
    """Evaluate the sigmoid of a binary32 word (uint32) in compiled code; returns a word.

    Exactness: bit-identical to `Activation`.
    """
    return np.uint32(_activate(np.int64(word), SIGMOID))


@njit
def tanh_word(word):
    """Evaluate the hyperbolic tangent of a binary32 word (uint32) in compiled code; returns a word.

    Exactness: bit-identical to `Activation`.
    """
    return np.uint32(_activate(np.int64(word), TANH))


@njit
def sigmoid_of(x):
    """Evaluate the sigmoid of a float32 in compiled code: :func:`sigmoid` of a scalar."""
    return np.uint32(sigmoid_word(np.float32(x).view(np.uint32))).view(np.float32)


@njit
def tanh_of(x):
    """Evaluate the hyperbolic tangent of a float32 in compiled code: :func:`tanh` of a scalar."""
    return np.uint32(tanh_word(np.float32(x).view(np.uint32))).view(np.float32)


@njit(nogil=True)
def _each(words, function):
    results = np.empty_like(words)
    for n in range(len(words)):
        results[n] = np.uint32(_activate(np.int64(words[n]), function))
    return results


def _elementwise(x, function):
    words = np.ascontiguousarray(x, np.float32).reshape(-1).view(np.uint32)
    return _each(words, function).view(np.float32).reshape(np.shape(x))


def sigmoid(x):
    """Evaluate the sigmoid element by element.

    Parameters
    ----------
    x : array, float32, any shape

    Returns
    -------
    array, float32, same shape

    Exactness: bit-identical to `Activation`; within ``BOUND_ULP`` or ``BOUND_ABSOLUTE`` of the function,
    whichever is larger (found: 0.85 ulp above 1/2).
    """
    return _elementwise(x, SIGMOID)


def tanh(x):
    """Evaluate the hyperbolic tangent element by element.

    Parameters
    ----------
    x : array, float32, any shape

    Returns
    -------
    array, float32, same shape

    Exactness: bit-identical to `Activation`; within ``BOUND_ULP`` or ``BOUND_ABSOLUTE`` of the function,
    whichever is larger (found: 1.2 ulp), and within ``BOUND_RELATIVE_TANH`` for every normal number. Odd.
    """
    return _elementwise(x, TANH)
