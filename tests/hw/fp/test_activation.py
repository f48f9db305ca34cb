import gc

import numpy as np
import pytest

from etalstm.formats.codec import round_bf16
from etalstm.golden import activation as golden
from etalstm_hw.contract import BINARY32, FloatFormat
from etalstm_hw.contract.activation_tables import FIRST, LAST, PACK, SIGMOID, TANH
from etalstm_hw.fp.activation import Activation

SIGN = 0x80000000
INF, NAN, ONE, HALF = 0x7F800000, 0x7FC00000, 0x3F800000, 0x3F000000


def check(stream, function, cases):
    words, expected = zip(*cases, strict=True)
    results = stream(Activation(BINARY32), a=words, function=[function] * len(words))
    for n, (z, e) in enumerate(zip(results, expected, strict=True)):
        assert z == e, f"case {n}: of {words[n]:#010x} got {z:#010x}, expected {e:#010x}"


def bits(x):
    return x.view(np.uint32).tolist()


def test_takes_nine_cycles(stream):
    # The driver samples LATENCY cycles after the operand; distinct results would betray any other delay.
    assert Activation.LATENCY == 9
    x = np.arange(0.125, 3, 0.125, dtype=np.float32)
    check(stream, TANH, list(zip(bits(x), bits(golden.tanh(x)), strict=True)))


def test_tanh_of_zero_is_a_zero_of_its_sign(stream):
    check(stream, TANH, [(0, 0), (SIGN, SIGN), (1, 0), (0x807FFFFF, SIGN)])


def test_tanh_of_a_tiny_number_is_the_number(stream):
    check(stream, TANH, [(x, x) for x in (0x00800000, 0x80800001, 0x12345678, 0x397FFFFF, 0xB97FFFFF)])


def test_tanh_saturates_at_one(stream):
    check(stream, TANH, [(x, ONE) for x in (0x41200000, 0x41800000, 0x7F7FFFFF, INF)])
    check(stream, TANH, [(x | SIGN, ONE | SIGN) for x in (0x41200000, 0x41800000, 0x7F7FFFFF, INF)])


def test_sigmoid_of_zero_is_a_half(stream):
    check(stream, SIGMOID, [(x, HALF) for x in (0, SIGN, 1, 0x807FFFFF, 0x00800000, 0x80FFFFFF)])


def test_sigmoid_saturates_at_one_and_zero(stream):
    check(stream, SIGMOID, [(x, ONE) for x in (0x42000000, 0x7F7FFFFF, INF)])
    check(stream, SIGMOID, [(x | SIGN, 0) for x in (0x42000000, 0x7F7FFFFF, INF)])


@pytest.mark.parametrize("function", [SIGMOID, TANH])
def test_nan_gives_the_one_nan(stream, function):
    check(stream, function, [(x, NAN) for x in (NAN, NAN | SIGN, 0x7F800001, 0xFFFFFFFF)])


@pytest.mark.parametrize("function", [SIGMOID, TANH])
def test_has_the_bits_of_the_golden_model_at_every_seam(stream, function):
    # First and last word of every binade around the tables, and of some segments in it.
    exponents = np.arange(127 + FIRST - 2, 127 + LAST + 4)
    fractions = [n << 17 for n in (0, 1, 31, 63)] + [(n << 17) - 1 for n in (1, 32, 64)]
    words = np.add.outer(exponents << 23, fractions).ravel().astype(np.uint32)
    x = np.concatenate([words, words | np.uint32(SIGN)]).view(np.float32)
    expected = golden.tanh(x) if function == TANH else golden.sigmoid(x)
    check(stream, function, list(zip(bits(x), bits(expected), strict=True)))


def test_chooses_the_function_cycle_by_cycle(stream):
    x = np.linspace(-4, 4, 64, dtype=np.float32)
    functions = np.arange(64) // 3 % 2
    expected = np.where(functions == TANH, golden.tanh(x), golden.sigmoid(x))
    assert stream(Activation(BINARY32), a=bits(x), function=functions) == bits(expected)


def packed(a, b):
    """What PACK makes of words: the upper halves of what the codec rounds."""
    low, high = (round_bf16(words.view(np.float32)).view(np.uint32) for words in (a, b))
    return low >> 16 | high


def test_packs_two_words_as_bfloat16(stream):
    """To nearest even; what is too large becomes infinite, a NaN stays a NaN, and a subnormal is data as any other."""
    ties = [0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF808000, 0xBF818000]
    special = [0, SIGN, 1, 0x807FFFFF, 0x00008000, 0x00800000, INF, INF | SIGN, NAN, 0x7F800001, 0xFF800001, 0x7F7FFFFF]
    rng = np.random.default_rng(1)
    a = np.array(ties + special + list(range(0x3F7F7FF0, 0x3F7F8010)), np.uint32)
    a = np.concatenate([a, rng.integers(0, 1 << 32, 200, np.uint32)])
    b = rng.permutation(a)
    z = stream(Activation(BINARY32), a=a, b=b, function=[PACK] * len(a))
    assert z == packed(a, b).tolist()
    assert z[0] & 0xFFFF == 0x3F80 and z[1] & 0xFFFF == 0x3F82, "ties go to the even one"
    assert z[len(ties) + len(special) - 1] & 0xFFFF == INF >> 16, "the largest float32 is beyond bfloat16"


def test_packs_between_two_functions(stream):
    x = np.linspace(-4, 4, 63, dtype=np.float32)
    functions = np.tile([SIGMOID, PACK, TANH], 21)
    z = stream(Activation(BINARY32), a=bits(x), b=bits(x[::-1]), function=functions)
    choices = golden.sigmoid(x).view(np.uint32), golden.tanh(x).view(np.uint32), packed(bits_of(x), bits_of(x[::-1]))
    assert z == np.choose(functions, choices).tolist()


def bits_of(x):
    return np.ascontiguousarray(x).view(np.uint32)


def refusal(format):
    try:
        Activation(format)
    except ValueError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:.*created but never used")  # it was refused
def test_refuses_a_format_without_tables():
    message = refusal(FloatFormat(5, 10))
    gc.collect()  # lets the warning come now, while it is ignored
    assert "exponent=5, mantissa=10" in message


@pytest.mark.parametrize("function", [SIGMOID, TANH])
def test_has_the_bits_of_the_golden_model_over_all_exponents(units, function):
    words = np.arange(0, 1 << 32, 2053, dtype=np.uint64).astype(np.uint32)
    dense = np.arange(0x3F000000, 0x42000000, 67, dtype=np.uint32)  # from 1/2 to 32, where the tables are
    words = np.concatenate([words, dense, dense | np.uint32(SIGN)])
    expected = (golden.tanh if function == TANH else golden.sigmoid)(words.view(np.float32)).view(np.uint32)
    z = units.run("activation", words, function)
    wrong = np.flatnonzero(z != expected)[:1]
    assert not len(wrong), f"of {words[wrong]} got {z[wrong]}, expected {expected[wrong]}"
