"""Binary32 products and sums in integers: a reference that shares no floating-point operation with the hardware.

A number is sign, significand and exponent; it is rounded to nearest even on the subnormal grid, then flushed: see
``docs/contract``.
"""

import numpy as np
from numba import njit

MANTISSA, BIAS = 23, 127
SIGN, INFINITY, NAN = 0x8000_0000, 0x7F80_0000, 0x7FC0_0000
IMPLIED = 1 << MANTISSA
SPARE = 36
"""Bits below a significand of a sum. The lowest is a sticky bit of all that was shifted out, far below any rounding."""


@njit(nogil=True, cache=True)
def _length(number):
    """Count the bits of a positive integer."""
    length = 0
    while number:
        number >>= 1
        length += 1
    return length


@njit(nogil=True, cache=True)
def _rounded(sign, significand, exponent):
    """Give the word of ±significand · 2^exponent, rounded; the significand is an integer from 0 to 2^62 - 1."""
    if significand == 0:
        return sign
    biased = max(exponent + _length(significand) - 1 + BIAS, 1)
    shift = biased - BIAS - MANTISSA - exponent
    if shift <= 0:
        units = significand << -shift
    elif shift > 62:
        units = 0
    else:
        units, rest, half = significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)
        units += rest > half or (rest == half and units & 1)
    word = units + ((biased - 1) << MANTISSA)
    return sign | (min(word, INFINITY) if word >= IMPLIED else 0)


@njit(nogil=True, cache=True)
def _significand(word):
    """Give the significand of a finite word; a subnormal number counts as zero."""
    return (word & (IMPLIED - 1)) | IMPLIED if word & INFINITY else 0


@njit(nogil=True, cache=True)
def product(a, b):
    """Give the word of the product of two binary32 words, all int64."""
    sign, x, y = (a ^ b) & SIGN, a & ~SIGN, b & ~SIGN
    if x > INFINITY or y > INFINITY:
        return NAN
    p, q = _significand(x), _significand(y)
    if x == INFINITY or y == INFINITY:
        return NAN if p == 0 or q == 0 else sign | INFINITY
    return _rounded(sign, p * q, (x >> MANTISSA) + (y >> MANTISSA) - 2 * (BIAS + MANTISSA))


@njit(nogil=True, cache=True)
def _sum_of_finite(a, b):
    """Add two finite words; the first has the larger magnitude."""
    distance = ((a & INFINITY) >> MANTISSA) - ((b & INFINITY) >> MANTISSA)
    large, small = _significand(a & ~SIGN) << SPARE, _significand(b & ~SIGN) << SPARE
    shifted = small >> min(distance, 62)
    shifted |= (shifted << min(distance, 62)) != small if distance < 62 else small != 0
    exponent = ((a & INFINITY) >> MANTISSA) - BIAS - MANTISSA - SPARE
    total = large - shifted if (a ^ b) & SIGN else large + shifted
    return _rounded(a & SIGN if total else a & b & SIGN, total, exponent)


@njit(nogil=True, cache=True)
def total(a, b):
    """Give the word of the sum of two binary32 words, all int64."""
    x, y = a & ~SIGN, b & ~SIGN
    if x > INFINITY or y > INFINITY or (x == y == INFINITY and a != b):
        return NAN
    if x == INFINITY or y == INFINITY:
        return a if x == INFINITY else b
    return _sum_of_finite(a, b) if x >= y else _sum_of_finite(b, a)


@njit(nogil=True, cache=True)
def products(a, b):
    """Multiply element by element: arrays, uint32, (N,)."""
    z = np.empty_like(a)
    for n in range(len(a)):
        z[n] = product(np.int64(a[n]), np.int64(b[n]))
    return z


@njit(nogil=True, cache=True)
def totals(a, b):
    """Add element by element: arrays, uint32, (N,)."""
    z = np.empty_like(a)
    for n in range(len(a)):
        z[n] = total(np.int64(a[n]), np.int64(b[n]))
    return z
