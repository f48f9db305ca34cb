"""Widths of the integers that products are made of, which definition and machine share."""

WEIGHT_BITS = 8  # of a weight and of an input, with the sign
DIGIT_BITS = 8  # of a digit, as δ is sent, with the sign
WORD_BYTES = 4  # weights, inputs or digits of a word
PLANES = 2  # of an array of two digits, the upper ones first
CHUNK = 16  # products that are added up in a PE at most, before its two sums are taken apart
SUM_BITS = 40  # of a sum, with the sign
MANTISSA_BITS = 16  # of an integer of one or two digits, with its sign
DELTA_BITS = range(8, MANTISSA_BITS)  # of δ, with the sign


def largest_mantissa(bits: int) -> int:
    """Give the largest mantissa of so many bits: of 15 what two digits can hold, of others all bits but the sign."""
    digit = 1 << (DIGIT_BITS - 1)
    return (digit - 1) * digit + digit // 2 - 1 if bits == DELTA_BITS[-1] else (1 << (bits - 1)) - 1
