from itertools import product

import numpy as np
import pytest

from etalstm.golden import arithmetic
from etalstm_hw.contract import BINARY32, FloatFormat
from etalstm_hw.fp.add import Adder

SIGN = 0x80000000
ONE, MINUS_ONE, ZERO = 0x3F800000, 0xBF800000, 0
INF, NAN = 0x7F800000, 0x7FC00000
SMALLEST, LARGEST = 0x00800000, 0x7F7FFFFF


def word(x):
    return int(np.float32(x).view(np.uint32))


def check(stream, cases):
    a, b, expected = zip(*cases, strict=True)
    for n, (z, e) in enumerate(zip(stream(Adder(BINARY32), a=a, b=b), expected, strict=True)):
        assert z == e, f"case {n}: {a[n]:#010x} + {b[n]:#010x} gave {z:#010x}, expected {e:#010x}"


def test_takes_five_cycles(stream):
    # The driver samples LATENCY cycles after the operands; distinct sums would betray any other delay.
    assert Adder.LATENCY == 5
    check(stream, [(word(n), word(3), word(n + 3)) for n in range(1, 20)])


def test_rounds_ties_to_even(stream):
    half_ulp = word(2.0**-24)
    check(
        stream,
        [
            (ONE, half_ulp, ONE),
            (ONE + 1, half_ulp, ONE + 2),
            (MINUS_ONE, half_ulp | SIGN, MINUS_ONE),
            (half_ulp | SIGN, MINUS_ONE + 1, MINUS_ONE + 2),
            (ONE, word(2.0**-25) | SIGN, ONE),  # below a power of two half an ulp is half as large
            (ONE, half_ulp | SIGN, ONE - 1),
        ],
    )


def test_sees_a_sticky_bit_at_any_distance(stream):
    half_ulp = word(2.0**-24)
    check(
        stream,
        [
            (ONE, half_ulp + 1, ONE + 1),
            (ONE, half_ulp - 1, ONE),
            (ONE, (word(2.0**-25) + 1) | SIGN, ONE - 1),
            (ONE, (word(2.0**-25) - 1) | SIGN, ONE),
            (word(2.0**24), ONE + 1, word(2.0**24) + 1),
            (word(2.0**30), ONE, word(2.0**30)),
            (word(2.0**25), MINUS_ONE - 1, word(2.0**25)),
            (word(2.0**32), ONE + 1, word(2.0**32)),
            (LARGEST, SMALLEST, LARGEST),
            (LARGEST, SMALLEST | SIGN, LARGEST),
        ],
    )


def test_rounds_like_ieee_at_every_distance(stream):
    rng = np.random.default_rng(20)
    exponents = np.repeat(np.arange(100, 130), 8).astype(np.uint32)
    b = exponents << 23 | rng.integers(0, 1 << 23, len(exponents), dtype=np.uint32)
    b |= rng.integers(0, 2, len(b), dtype=np.uint32) << 31
    a = 127 << 23 | rng.integers(0, 1 << 23, len(exponents), dtype=np.uint32)
    z = (a.view(np.float32) + b.view(np.float32)).view(np.uint32)
    check(stream, [(int(x), int(y), int(e)) for x, y, e in zip(a, b, z, strict=True)])


def test_gives_the_same_in_either_order(stream):
    # Operands are ordered by exponent alone, and the distance is told differently in the two orders.
    cases = []
    for distance in range(40):
        for fraction in (0, 1, 0x400000, 0x7FFFFF):
            small = word(2.0**-distance) + fraction
            for sign in (0, SIGN):
                z = np.uint32(ONE + 5).view(np.float32) + np.uint32(small | sign).view(np.float32)
                cases += [(ONE + 5, small | sign, word(z)), (small | sign, ONE + 5, word(z))]
    check(stream, cases)


def test_carries_into_the_exponent(stream):
    check(stream, [(0x3FFFFFFF, 0x3FFFFFFF, 0x407FFFFF), (0x3FFFFFFF, word(2.0**-24), 0x40000000), (ONE, ONE, word(2))])


def test_cancels_exactly(stream):
    check(stream, [(x, x ^ SIGN, ZERO) for x in (ONE, MINUS_ONE, SMALLEST, SMALLEST | SIGN, LARGEST, 0x12345678)])


def test_normalises_after_any_cancellation(stream):
    check(stream, [(ONE + (1 << n), MINUS_ONE, word(2.0 ** (n - 23))) for n in range(23)])
    check(stream, [(ONE, 0x3F7FFFFF | SIGN, word(2.0**-24)), (ONE - 1, MINUS_ONE, word(-(2.0**-24)))])


def test_flushes_to_a_zero_of_the_sum_s_sign(stream):
    check(
        stream,
        [
            (SMALLEST + 1, SMALLEST | SIGN, ZERO),
            (SMALLEST, (SMALLEST + 1) | SIGN, SIGN),
            (0x01000000, 0x80800001, ZERO),  # 2^-125 less a bit more than 2^-126
            (0x01000000, 0x80800000, SMALLEST),
            (0x81000000, 0x00FFFFFF, SIGN),
            (0x01800000, 0x80FFFFFE, 0x01000001),
        ],
    )


def test_reads_subnormals_as_zeros_of_their_sign(stream):
    check(
        stream,
        [
            (0x007FFFFF, 0x007FFFFF, ZERO),
            (0x80000001, 0x80700000, SIGN),
            (0x80000001, 0x00000001, ZERO),
            (0x007FFFFF, SMALLEST, SMALLEST),
            (0x807FFFFF, SMALLEST, SMALLEST),
        ],
    )


def test_adds_signed_zeros(stream):
    check(stream, [(ZERO, ZERO, ZERO), (ZERO, SIGN, ZERO), (SIGN, ZERO, ZERO), (SIGN, SIGN, SIGN), (SIGN, ONE, ONE)])


def test_overflows_to_infinity(stream):
    half_ulp = 0x73000000
    check(
        stream,
        [
            (LARGEST, LARGEST, INF),
            (LARGEST | SIGN, LARGEST | SIGN, INF | SIGN),
            (LARGEST, half_ulp, INF),
            (LARGEST, half_ulp - 1, LARGEST),
            (0x7F000000, 0x7F000000, INF),
        ],
    )


def test_adds_infinities(stream):
    check(
        stream,
        [
            (INF, LARGEST | SIGN, INF),
            (MINUS_ONE, INF | SIGN, INF | SIGN),
            (INF, INF, INF),
            (INF, INF | SIGN, NAN),
            (INF | SIGN, INF, NAN),
        ],
    )


def test_gives_one_nan(stream):
    nans = (NAN, NAN | SIGN, 0x7F800001, 0xFFFFFFFF)
    check(stream, [(nan, other, NAN) for nan in nans for other in (ZERO, ONE, INF, INF | SIGN, NAN, NAN | SIGN)])
    check(stream, [(other, nan, NAN) for nan in nans for other in (ZERO, MINUS_ONE, INF)])


@pytest.mark.parametrize("format", [FloatFormat(3, 2), FloatFormat(3, 5), FloatFormat(5, 2)], ids=str)
def test_is_exact_for_every_pair_of_a_small_format(stream, exact, format):
    step = 1 if format.width < 7 else 17  # of the larger formats every 17th left operand
    a, b = zip(*product(range(0, 1 << format.width, step), range(1 << format.width)), strict=True)
    reference = exact(format)
    for x, y, z in zip(a, b, stream(Adder(format), a=a, b=b), strict=True):
        assert z == reference.add(x, y), f"{x:#x} + {y:#x} gave {z:#x}, expected {reference.add(x, y):#x}"


def agree(name, a, b, z, expected):
    wrong = np.flatnonzero(z != expected)
    assert not len(wrong), (
        f"{len(wrong)} of {len(z)} differ, first pair {wrong[0]}: "
        f"{name} of {a[wrong[0]]:#x}, {b[wrong[0]]:#x} gave {z[wrong[0]]:#x}, expected {expected[wrong[0]]:#x}"
    )


def test_has_the_bits_of_the_golden_model_for_millions_of_hard_pairs(units, hard):
    a, b = hard(BINARY32, 3_000_000, seed=21, addition=True)
    expected = arithmetic.add(a.view(np.float32), b.view(np.float32)).view(np.uint32)
    agree("add", a, b, units.run("add", a, b), expected)


def test_has_the_bits_of_the_golden_model_for_any_words(units):
    a, b = np.random.default_rng(22).integers(0, 1 << 32, (2, 1_000_000), dtype=np.uint32)
    expected = arithmetic.add(a.view(np.float32), b.view(np.float32)).view(np.uint32)
    agree("add", a, b, units.run("add", a, b), expected)


def test_is_exact_for_every_pair_of_an_eight_bit_format(units, exact):
    words = np.arange(256, dtype=np.uint32)
    a, b = np.repeat(words, 256), np.tile(words, 256)
    reference = exact(FloatFormat(4, 3))
    expected = np.array([reference.add(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], np.uint32)
    agree("add", a, b, units.run("add_small", a, b), expected)


def test_is_exact_for_hard_pairs_of_bfloat16(units, exact, hard):
    a, b = hard(FloatFormat(8, 7), 5_000, seed=23, addition=True)
    reference = exact(FloatFormat(8, 7))
    expected = np.array([reference.add(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], np.uint32)
    agree("add", a, b, units.run("add_brain", a, b), expected)


def test_agrees_with_numpy_in_half_precision(units, hard):
    a, b = hard(FloatFormat(5, 10), 1_000_000, seed=24, addition=True)
    x, y = (flush_half(words.astype(np.uint16).view(np.float16)) for words in (a, b))
    with np.errstate(all="ignore"):
        expected = flush_half(x + y).view(np.uint16).astype(np.uint32)
    agree("add", a, b, units.run("add_half", a, b), expected)


def flush_half(x):
    flushed = np.where(np.abs(x) < np.finfo(np.float16).smallest_normal, np.copysign(np.float16(0), x), x)
    return np.where(np.isnan(x), np.float16(np.nan), flushed)
