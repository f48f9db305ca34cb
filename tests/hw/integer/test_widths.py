"""The widths of hardware and of the definition are the same numbers."""

from etalstm.network.arithmetic import DELTA_BITS, DIGIT, DIGIT_BITS, INT8, most
from etalstm_hw.integer import widths


def test_widths_are_those_of_the_definition():
    assert INT8.bits == widths.WEIGHT_BITS
    assert widths.SCALAR_BITS == DIGIT_BITS
    assert 1 << widths.DIGIT_SHIFT == DIGIT
    assert widths.WIDE.width == INT8.sum_bits


def test_fields_hold_what_they_must():
    largest = most(widths.WEIGHT_BITS)
    assert widths.CHUNK * largest * largest < 1 << (widths.FIELD_BITS - 1)
    assert most(DELTA_BITS[-1]) < 1 << (widths.MANTISSA_BITS - 1)
    assert most(DELTA_BITS[-1]) == (largest << widths.DIGIT_SHIFT) + (1 << (widths.DIGIT_SHIFT - 1)) - 1
