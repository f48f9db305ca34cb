from itertools import product

import numpy as np
import pytest

from etalstm.golden import arithmetic
from etalstm_hw.contract import BINARY32, FloatFormat
from etalstm_hw.fp.multiply import Multiplier

SIGN = 0x80000000
ONE, MINUS_ONE, ZERO = 0x3F800000, 0xBF800000, 0
INF, NAN = 0x7F800000, 0x7FC00000
SMALLEST, LARGEST = 0x00800000, 0x7F7FFFFF


def word(x):
    return int(np.float32(x).view(np.uint32))


def check(stream, cases):
    a, b, expected = zip(*cases, strict=True)
    for n, (z, e) in enumerate(zip(stream(Multiplier(BINARY32), a=a, b=b), expected, strict=True)):
        assert z == e, f"case {n}: {a[n]:#010x} * {b[n]:#010x} gave {z:#010x}, expected {e:#010x}"


def test_takes_three_cycles(stream):
    # The driver samples LATENCY cycles after the operands; distinct products would betray any other delay.
    assert Multiplier.LATENCY == 3
    check(stream, [(word(n), word(3), word(3 * n)) for n in range(1, 20)])


def test_rounds_to_nearest(stream):
    # (1 + n ulp)(1 + k ulp) leaves n + k ulp and n k ulp² to round away.
    cases = [(ONE + n, ONE + k) for n in (1, 2, 3, 1 << 11, 0x7FFFFF) for k in (1, 0x400000, 0x7FFFFF, 0x7FFFFE)]
    check(stream, [(a, b, word(np.uint32(a).view(np.float32) * np.uint32(b).view(np.float32))) for a, b in cases])


def test_rounds_ties_to_even(stream):
    half_way_above_even, half_way_above_odd = ONE + 2, ONE + 6
    check(
        stream,
        [
            (half_way_above_even, word(1.25), word(1.25) + 2),  # 1.25 ulp of 2: .5 over an even place
            (half_way_above_odd, word(1.25), word(1.25) + 8),
            (ONE + 1, word(1.5), word(1.5) + 2),
            (ONE + 3, word(1.5), word(1.5) + 4),
        ],
    )


def test_carries_from_the_fraction_into_the_exponent(stream):
    check(stream, [(0x3F7FFFFF, ONE + 1, ONE), (0x3FFFFFFF, 0x3FFFFFFF, 0x407FFFFE), (0x3FFFFFFE, ONE + 1, 0x40000000)])


def test_overflows_to_infinity(stream):
    check(
        stream,
        [
            (LARGEST, word(2), INF),
            (LARGEST, ONE + 1, INF),
            (LARGEST, 0x3F7FFFFF, LARGEST - 1),
            (LARGEST, LARGEST | SIGN, INF | SIGN),
            (0x7F000000, word(2), INF),
            (0x7F000001, 0x3FFFFFFD, LARGEST),
            (0x7F000001, 0x3FFFFFFE, INF),  # rounds up past the largest
        ],
    )


def test_rounds_to_the_smallest_before_it_flushes(stream):
    just_below_one, two_below_one = 0x3F7FFFFF, 0x3F7FFFFE
    half = word(0.5)
    check(
        stream,
        [
            (SMALLEST, just_below_one, SMALLEST),  # 2^-126 - 2^-150 is half-way on the subnormal grid
            (SMALLEST, two_below_one, ZERO),  # one 24-bit place less is not
            (SMALLEST | SIGN, just_below_one, SMALLEST | SIGN),
            (SMALLEST | SIGN, two_below_one, SIGN),
            (SMALLEST + 1, just_below_one, SMALLEST),
            (SMALLEST + 1, two_below_one, SMALLEST),  # 24 bits of ones, then zeros and ones: no tie
            (0x00FFFFFF, half, SMALLEST),  # the same one binade up, where the product has no carry
            (0x00FFFFFE, half, ZERO),
            (0x00AAAAAA, word(0.75), SMALLEST),
            (0x00AAAAA9, word(0.75), ZERO),
            (SMALLEST, half, ZERO),
            (SMALLEST, SMALLEST | SIGN, SIGN),
            (0x20000000, 0x20000000, SMALLEST),
        ],
    )


def test_reads_subnormals_as_zeros_of_their_sign(stream):
    check(
        stream,
        [
            (0x007FFFFF, LARGEST, ZERO),
            (0x807FFFFF, LARGEST, SIGN),
            (1, LARGEST | SIGN, SIGN),
            (0x80000001, 0x80000001, ZERO),
            (0x007FFFFF, INF, NAN),
        ],
    )


def test_gives_zeros_the_sign_of_the_product(stream):
    check(stream, [(ZERO, ONE, ZERO), (ZERO, MINUS_ONE, SIGN), (SIGN, MINUS_ONE, ZERO), (SIGN, SIGN, ZERO)])


def test_multiplies_infinities(stream):
    check(stream, [(INF, ONE, INF), (INF, MINUS_ONE, INF | SIGN), (INF | SIGN, INF, INF | SIGN), (INF, SMALLEST, INF)])


def test_gives_one_nan(stream):
    nans = (NAN, NAN | SIGN, 0x7F800001, 0xFFFFFFFF)
    check(stream, [(nan, other, NAN) for nan in nans for other in (ZERO, ONE, MINUS_ONE, INF, NAN)])
    check(stream, [(INF, ZERO, NAN), (SIGN, INF, NAN), (INF | SIGN, ZERO, NAN)])


@pytest.mark.parametrize("format", [FloatFormat(3, 2), FloatFormat(3, 3)], ids=str)
def test_is_exact_for_every_pair_of_a_small_format(stream, exact, format):
    step = 1 if format.width < 7 else 3  # of the larger format every third left operand
    pairs = list(product(range(0, 1 << format.width, step), range(1 << format.width)))
    a, b = zip(*pairs, strict=True)
    reference = exact(format)
    for x, y, z in zip(a, b, stream(Multiplier(format), a=a, b=b), strict=True):
        assert z == reference.multiply(x, y), f"{x:#x} * {y:#x} gave {z:#x}, expected {reference.multiply(x, y):#x}"


def agree(name, a, b, z, expected):
    wrong = np.flatnonzero(z != expected)
    assert not len(wrong), (
        f"{len(wrong)} of {len(z)} differ, first pair {wrong[0]}: "
        f"{name} of {a[wrong[0]]:#x}, {b[wrong[0]]:#x} gave {z[wrong[0]]:#x}, expected {expected[wrong[0]]:#x}"
    )


def test_has_the_bits_of_the_golden_model_for_millions_of_hard_pairs(units, hard):
    a, b = hard(BINARY32, 3_000_000, seed=11, addition=False)
    expected = arithmetic.multiply(a.view(np.float32), b.view(np.float32)).view(np.uint32)
    agree("multiply", a, b, units.run("multiply", a, b), expected)


def test_has_the_bits_of_the_golden_model_for_any_words(units):
    a, b = np.random.default_rng(12).integers(0, 1 << 32, (2, 1_000_000), dtype=np.uint32)
    expected = arithmetic.multiply(a.view(np.float32), b.view(np.float32)).view(np.uint32)
    agree("multiply", a, b, units.run("multiply", a, b), expected)


def test_is_exact_for_every_pair_of_an_eight_bit_format(units, exact):
    words = np.arange(256, dtype=np.uint32)
    a, b = np.repeat(words, 256), np.tile(words, 256)
    reference = exact(FloatFormat(4, 3))
    expected = np.array([reference.multiply(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], np.uint32)
    agree("multiply", a, b, units.run("multiply_small", a, b), expected)


def test_is_exact_for_hard_pairs_of_bfloat16(units, exact, hard):
    a, b = hard(FloatFormat(8, 7), 5_000, seed=13, addition=False)
    reference = exact(FloatFormat(8, 7))
    expected = np.array([reference.multiply(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], np.uint32)
    agree("multiply", a, b, units.run("multiply_brain", a, b), expected)


def test_agrees_with_numpy_in_half_precision(units, hard):
    a, b = hard(FloatFormat(5, 10), 1_000_000, seed=14, addition=False)
    x, y = (flush_half(words.astype(np.uint16).view(np.float16)) for words in (a, b))
    with np.errstate(all="ignore"):
        expected = flush_half(x * y).view(np.uint16).astype(np.uint32)
    agree("multiply", a, b, units.run("multiply_half", a, b), expected)


def flush_half(x):
    flushed = np.where(np.abs(x) < np.finfo(np.float16).smallest_normal, np.copysign(np.float16(0), x), x)
    return np.where(np.isnan(x), np.float16(np.nan), flushed)
