import numpy as np
import pytest
from numba import njit

from etalstm.golden import arithmetic

NAN = 0x7FC00000


def floats(words):
    return np.array(words, np.uint32).view(np.float32)


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32).tolist()


@njit
def compiled(a, b):
    products, sums = np.empty_like(a), np.empty_like(a)
    for n in range(len(a)):
        products[n] = arithmetic.times(a[n], b[n])
        sums[n] = arithmetic.plus(a[n], b[n])
    return products, sums


def hard_words(count, seed):
    """Words whose exponents lie where products and sums overflow, vanish or cancel."""
    rng = np.random.default_rng(seed)
    exponents = rng.choice([0, 1, 2, 24, 25, 62, 63, 64, 102, 103, 126, 127, 128, 190, 191, 253, 254, 255], count)
    fractions = np.where(rng.random(count) < 0.5, rng.integers(0, 1 << 23, count), rng.choice([0, 1, 0x7FFFFF], count))
    return (rng.integers(0, 2, count) << 31 | exponents << 23 | fractions).astype(np.uint32)


def test_flush_keeps_the_sign_of_what_it_zeroes():
    assert bits(arithmetic.flush(floats([1, 0x80000001, 0x007FFFFF, 0x807FFFFF]))) == [0, 0x80000000, 0, 0x80000000]


def test_flush_keeps_normal_numbers_and_infinities():
    words = [0x00800000, 0x80800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000]
    assert bits(arithmetic.flush(floats(words))) == words


def test_flush_makes_every_nan_the_one():
    assert bits(arithmetic.flush(floats([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF]))) == [NAN] * 4


def test_multiply_rounds_to_the_smallest_before_it_flushes():
    smallest = floats([0x00800000] * 2)
    assert bits(arithmetic.multiply(smallest, floats([0x3F7FFFFF, 0x3F7FFFFE]))) == [0x00800000, 0]


def test_multiply_of_infinity_and_a_subnormal_is_nan():
    assert bits(arithmetic.multiply(floats([0x7F800000]), floats([1]))) == [NAN]


def test_add_reads_subnormal_operands_as_zeros():
    # Two of them would otherwise make a normal number.
    assert bits(arithmetic.add(floats([0x007FFFFF]), floats([0x007FFFFF]))) == [0]


def test_add_of_opposite_infinities_is_the_one_nan():
    assert bits(arithmetic.add(floats([0x7F800000]), floats([0xFF800000]))) == [NAN]


def test_results_stay_float32():
    x = np.ones((2, 3), np.float32)
    assert arithmetic.multiply(x, x).dtype == arithmetic.add(x, x[0]).dtype == np.float32


@pytest.mark.filterwarnings("error")
def test_overflow_and_nan_pass_without_a_warning():
    x = floats([0x7F7FFFFF, 0x7F800000, 0x7F800001])
    arithmetic.multiply(x, x)
    arithmetic.add(x, -x)


def test_compiled_scalars_give_the_bits_of_the_arrays():
    a, b = (arithmetic.flush(hard_words(200_000, seed).view(np.float32)) for seed in (1, 2))
    a[::7] = -b[::7]  # exact cancellation
    for name, scalar in zip(("multiply", "add"), compiled(a, b), strict=True):
        expected = getattr(arithmetic, name)(a, b)
        wrong = np.flatnonzero(scalar.view(np.uint32) != expected.view(np.uint32))
        first = wrong[:1]
        assert not len(wrong), f"{name} of {a[first]}, {b[first]}: got {scalar[first]}, expected {expected[first]}"
