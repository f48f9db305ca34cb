"""Coefficients of the activation functions, computed once for hardware and golden reference, in exact arithmetic.

For y > 0 with exponent e (y in [2^e, 2^(e+1))) the tables give v with tanh(y) = v · 2^min(e, 0), in fixed point with
``FRACTION_BITS`` places, so that a relative error stays relative in every binade. A binade has ``SEGMENTS`` segments,
and inside one v is a quadratic in the remaining bits d of the significand (binary32: 17 bits)::

    v = c0 + (c1 - (c2 · d >> 17)) · d >> 17          0 <= d < 2^17

Below 2^FIRST, tanh(y) = y is within 0.2 ulp; from 2^(LAST + 1) on, 1 is. The sigmoid is (1 + tanh(x/2)) / 2.

Error of the quadratic: with h the width of a segment, max |tanh'''| h³/192, at worst 2^-24.4 at y = 2 (h = 2^-5).
"""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

SIGMOID, TANH, PACK = 0, 1, 2
"""Numbers of the functions. PACK has no table."""
FIRST = -12
"""Exponent of the first binade with a table."""
LAST = 3
"""Exponent of the last one."""
SEGMENT_BITS = 6
"""Bits of the significand that choose the segment."""
SEGMENTS = 1 << SEGMENT_BITS
"""Segments of a binade."""
OFFSET_BITS = 23 - SEGMENT_BITS
"""Bits of the significand inside a segment."""
FRACTION_BITS = 29
"""Places of v and of all coefficients: three below the last of a binary32 in [1/2, 1), for two truncations."""
COEFFICIENT_BITS = (FRACTION_BITS + 1, FRACTION_BITS - SEGMENT_BITS, 16)
"""Sizes of c0, c1 and c2, all unsigned: with 69 bits together a row is two block RAMs wide."""

NODES = (Fraction(66987, 10**6), Fraction(1, 2), Fraction(933013, 10**6))
"""Where the quadratic meets the function: the zeros of the Chebyshev polynomial, so that the error is spread evenly."""


def hyperbolic_tangent(y):
    """Evaluate tanh of a positive Fraction to more than 40 digits, on any machine the same ones.

    ``decimal`` is software arithmetic and its exp is correctly rounded; the C library's tanh is neither.
    """
    with localcontext(Context(prec=60)):
        square = (Decimal(2 * y.numerator) / Decimal(y.denominator)).exp()
        return Fraction((square - 1) / (square + 1))


def quadratic(exponent, segment):
    """Fit one segment.

    Parameters
    ----------
    exponent, segment : int
        Binade, and place in it.

    Returns
    -------
    3 ints, c0, c1 and c2.
    """
    scale = Fraction(2) ** (FRACTION_BITS - min(exponent, 0))
    points = [Fraction(2) ** exponent * (1 + (segment + node) / SEGMENTS) for node in NODES]
    v0, v1, v2 = (scale * hyperbolic_tangent(y) for y in points)
    n0, n1, n2 = NODES
    slope = (v1 - v0) / (n1 - n0)
    bend = ((v2 - v1) / (n2 - n1) - slope) / (n2 - n0)
    # Truncation loses half a place of the product on average, which c0 gives back.
    c0 = round(v0 - slope * n0 + bend * n0 * n1 + Fraction(1, 2))
    # The steepest segments have tanh(y) = y to all places, and a slope one too large for its field.
    c1 = min(round(slope - bend * (n0 + n1)), (1 << COEFFICIENT_BITS[1]) - 1)
    c2 = min(max(round(-bend), 0), c1)
    if exponent >= 0:  # tanh stays at most 1, or the sigmoid of a large negative number would be below 0
        c0 = min(c0, (1 << FRACTION_BITS) - (c1 - c2))
    return c0, c1, c2


def coefficients():
    """Compute all segments, binade after binade.

    Returns
    -------
    list of (c0, c1, c2), (LAST - FIRST + 1) · SEGMENTS of them; the same on every machine.
    """
    return [quadratic(e, segment) for e in range(FIRST, LAST + 1) for segment in range(SEGMENTS)]
