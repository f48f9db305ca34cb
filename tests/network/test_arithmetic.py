"""The numbers of integer arithmetic, one by one, and the exponents of a run."""

import numpy as np
import pytest

from etalstm.errors import DivergedError
from etalstm.network.arithmetic import (
    FLOAT32,
    INT8,
    INT16,
    LEAST_EXPONENT,
    MOST_SATURATED,
    digits,
    exponent_of,
    most,
    quantise,
    scaled,
)
from etalstm.network.cells import CELLS
from etalstm.network.cells.operation import bounds, equations
from etalstm.network.exponents import Exponents, Peaks
from etalstm.network.shape import NetworkShape


def test_an_exponent_is_the_least_above():
    values = np.array([0, 2.0**-126, 0.4999, 0.5, 0.75, 1, 1.5, 2, 3.4e38])
    assert exponent_of(values).tolist() == [LEAST_EXPONENT, -125, -1, 0, 0, 1, 1, 2, 128]


def test_halves_are_rounded_to_even_and_what_is_too_large_is_clamped_and_counted():
    grid = 2.0**-7
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 126.4, 127.4, 127.5, -127.4, -300], np.float32) * np.float32(grid)
    numbers, saturated = quantise(values, 0, 8)
    assert numbers.tolist() == [0, 2, 2, 0, -2, 126, 127, 127, -127, -127] and saturated == 2


@pytest.mark.parametrize("bits, limit", [(8, 127), (12, 2047), (14, 8191), (15, 16319), (16, 32767)])
def test_the_largest_mantissas(bits, limit):
    assert most(bits) == limit
    numbers, _ = quantise(np.array([1e9, -1e9], np.float32), 0, bits)
    assert numbers.tolist() == [limit, -limit]


def test_a_sum_becomes_float32_with_one_rounding_and_no_subnormals():
    assert scaled(np.array([2**24 + 1, 2**24 + 3, -(2**25 + 2)]), 0).tolist() == [2**24, 2**24 + 4, -(2**25)]
    tiny = scaled(np.array([3, -3, 4, 0]), -128)
    assert tiny.tolist() == [0, 0, 2.0**-126, 0] and not np.signbit(tiny).any()
    assert scaled(np.array([-1, 1]), 128).tolist() == [-np.inf, np.inf]


def test_digits_give_back_the_mantissa_and_a_zero_one_is_not_sent():
    numbers = np.arange(-16319, 16320)
    counts = digits(numbers)
    of_eight = np.abs(numbers) < 128
    high = np.where(of_eight, 0, (numbers + 64) >> 7)
    low = numbers - 128 * high
    assert np.abs(high).max() == 127 and low[~of_eight].min() == -64 and low[~of_eight].max() == 63
    np.testing.assert_array_equal(counts, (high != 0).astype(int) + (low != 0))


@pytest.mark.parametrize("arithmetic", [INT8, INT16, INT8.with_delta_bits(15), INT16.with_delta_bits(8)])
def test_no_sum_of_the_most_terms_overflows(arithmetic):
    largest = most(arithmetic.bits) * most(max(arithmetic.bits, arithmetic.delta_bits))
    assert arithmetic.most_terms * largest < 2 ** (arithmetic.sum_bits - 1) <= (arithmetic.most_terms + 1) * largest
    arithmetic.check_terms(columns=arithmetic.most_terms)
    with pytest.raises(ValueError, match=f"columns: a sum of {arithmetic.name} holds"):
        arithmetic.check_terms(columns=arithmetic.most_terms + 1)
    FLOAT32.check_terms(columns=10**12)


def test_bounds_follow_from_the_operations():
    found = bounds(
        equations("""
        a = sigmoid(z)
        b = tanh(z)
        c = a * b
        d = a - b
        e = relu(b)
        f = relu(z)
        g = c where z
        h = f + a
        u = 1 - a
    """)
    )
    assert [found[name] for name in "abcdegu"] == [(0, 1), (-1, 1), (-1, 1), (-1, 2), (0, 1), (-1, 1), (0, 1)]
    assert found["f"] == found["h"] == (0, np.inf)
    assert [cell.within_one for cell in CELLS.values()] == [{"h"}, {"h"}]


def peaks(*largest, saturated=0):
    return Peaks(np.array(largest), np.full(len(largest), saturated))


def test_the_first_iteration_is_tried_again_until_nothing_saturates_and_others_until_little_does():
    exponents, elements = Exponents(NetworkShape(3, 4, 2)), np.array([4096, 4096])
    assert exponents.first and exponents.operands.tolist() == [[0, 0], [0, 0]]
    assert not exponents.settle_delta(peaks(0.3, 5.0, saturated=1), elements)
    assert exponents.delta.tolist() == [0, 4] and exponents.first
    assert not exponents.settle_delta(peaks(0.3, 5.0, saturated=1), elements), "one is enough in every try"
    assert exponents.settle_delta(peaks(0.9, 3.0), elements)
    assert exponents.delta.tolist() == [1, 3] and not exponents.first
    assert exponents.settle_delta(peaks(64.0, 0.0, saturated=int(MOST_SATURATED * 4096)), elements)
    assert exponents.delta.tolist() == [8, 3], "an exponent stays where all is zero"
    assert not exponents.settle_delta(peaks(2.0, 1e6, saturated=5), elements)
    assert exponents.delta.tolist() == [8, 21], "none falls before the pass stands"
    with pytest.raises(DivergedError, match="not finite"):
        exponents.settle_delta(peaks(1.0, np.inf), elements)


def test_operands_that_may_be_large_have_exponents_of_their_own():
    exponents = Exponents(NetworkShape(3, 4, 2, "hlstm"))
    exponents.begin(2.5)
    given = [[2, 0], *[[LEAST_EXPONENT, 0]] * 4, [0, 0], *[[LEAST_EXPONENT, 0]] * 4]
    assert exponents.operands.tolist() == given
    large = Peaks(np.full((10, 2), 6.0), np.ones((10, 2), np.int64))
    assert not exponents.settle_operands(large, 100)
    assert exponents.operands[1:5, 0].tolist() == [4] * 4 and exponents.operands[5].tolist() == [0, 0]
    assert exponents.settle_operands(Peaks(np.full((10, 2), 3.0), np.zeros((10, 2), np.int64)), 100)
    assert exponents.settle_delta(peaks(*[1.0] * 10), np.full(10, 100))
    exponents.begin(0.1)
    assert exponents.operands[:5].tolist() == [[-3, 0], *[[3, 0]] * 4]
    state = exponents.state
    other = Exponents(NetworkShape(3, 4, 2, "hlstm"))
    other.state = state
    other.begin(0.1)
    assert np.array_equal(other.operands, exponents.operands) and np.array_equal(other.delta, exponents.delta)
    with pytest.raises(ValueError, match="exponents must be of"):
        Exponents(NetworkShape(3, 4)).state = state
    exponents.forget()
    assert exponents.first and exponents.state[1][1] == [LEAST_EXPONENT, 0]
