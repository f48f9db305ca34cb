"""Widths of the integers that products are made of, which definition and machine share."""

WEIGHT_BITS = 8  # of a weight and of an input, with the sign
DIGIT_BITS = 8  # of a digit, as δ is sent, with the sign
SUM_BITS = 40  # of a sum, with the sign
