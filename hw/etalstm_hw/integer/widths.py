"""Widths of the integer machine, those of the contract and what follows from them."""

from amaranth.hdl import signed

from etalstm_hw.contract import integers

WEIGHT_BITS, SCALAR_BITS = integers.WEIGHT_BITS, integers.DIGIT_BITS
"""Bits of a weight, and of a scalar that it is multiplied by, with the sign. Neither is -128."""

CHUNK = integers.CHUNK
"""Products that are added up in a PE at most, before its two sums are taken apart."""

FIELD_BITS = 19
"""Bits of each of the two sums: CHUNK · 127² < 2^18, and the sign."""

WIDE = signed(integers.SUM_BITS)
"""Shape of a sum of any length that a plan accepts."""

MANTISSA_BITS = integers.MANTISSA_BITS
"""Bits of an element of one or two digits, with its sign."""

DIGIT_SHIFT = SCALAR_BITS - 1
"""An element of two digits is the upper one times 2^DIGIT_SHIFT plus the lower one."""

EXPONENT_BITS = 10
"""Bits of the exponents that integers share, and of their sums, with the sign."""
