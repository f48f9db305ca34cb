import hashlib
import math
from fractions import Fraction

import numpy as np

from etalstm_hw.contract import activation_tables as tables


def test_coefficients_fit_their_fields():
    for column, size in zip(zip(*tables.coefficients(), strict=True), tables.COEFFICIENT_BITS, strict=True):
        assert min(column) >= 0 and max(column) < 1 << size


def test_slope_never_turns_negative():
    # The hardware subtracts without a sign.
    assert all(c1 >= c2 for _, c1, c2 in tables.coefficients())


def test_tanh_never_exceeds_one():
    # One unit more would make the sigmoid of a large negative number negative.
    last = (1 << tables.OFFSET_BITS) - 1
    saturating = tables.coefficients()[-tables.FIRST * tables.SEGMENTS :]
    ends = [c0 + ((c1 - (c2 * last >> tables.OFFSET_BITS)) * last >> tables.OFFSET_BITS) for c0, c1, c2 in saturating]
    assert max(ends) <= 1 << tables.FRACTION_BITS


def test_reference_agrees_with_the_c_library():
    for y in (Fraction(1, 4096), Fraction(1, 3), Fraction(5, 4), Fraction(12)):
        assert math.isclose(tables.hyperbolic_tangent(y), math.tanh(y), rel_tol=1e-15)


def test_coefficients_are_the_same_on_every_machine():
    # Changing them changes the bits of every training run: that is to be a decision, not an accident.
    digest = hashlib.sha256(np.array(tables.coefficients(), "<u4").tobytes()).hexdigest()
    assert digest[:16] == "7b1b076ceec1e4ee"
