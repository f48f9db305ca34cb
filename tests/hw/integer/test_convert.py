"""The ways between integers and float32 against :mod:`etalstm.network.arithmetic`, which defines them."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from etalstm.network.arithmetic import DELTA_BITS, SMALLEST, exponent_of, most, quantise, scaled
from etalstm_hw.contract import BINARY32
from etalstm_hw.integer.convert import Converter
from etalstm_hw.integer.quantise import Quantiser
from etalstm_hw.integer.unit import Function, IntegerUnit
from etalstm_hw.integer.widths import EXPONENT_BITS

WIDEST = 16  # bits of a mantissa


def stream(unit, outputs, **operands):
    """Give the outputs that belong to each tuple of operands, one tuple a cycle: a column for each output."""
    count, results = min(map(len, operands.values())), []

    async def drive(ctx):
        for cycle in range(count + unit.LATENCY):
            for name, values in operands.items():
                ctx.set(getattr(unit, name), int(values[min(cycle, count - 1)]))
            if cycle >= unit.LATENCY:
                results.append([ctx.get(getattr(unit, name)) for name in outputs])
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return np.array(results).T


@pytest.mark.parametrize("bits", [40, 48])
def test_a_sum_becomes_the_nearest_word(bits):
    rng, top = np.random.default_rng(bits), 1 << (bits - 1)
    ties = [(1 << place) + offset for place in range(24, bits - 1) for offset in (-1, 0, 1)]
    anything = rng.integers(-top, top, 600) >> rng.integers(0, bits, 600)
    sums = np.array([0, 1, -1, top - 1, 1 - top, -top, 3 << 24, (1 << 25) + 2, -(1 << 24) - 1, *ties, *anything])
    near_smallest = rng.integers(-126 - bits, -126, len(sums) // 2)
    least = -(1 << (EXPONENT_BITS - 1))
    exponents = np.concatenate([near_smallest, rng.integers(least, -least, len(sums) - len(near_smallest))])
    sums, exponents = np.append(sums, np.zeros(8, int)), np.append(exponents, range(-least - 8, -least))
    (words,) = stream(Converter(BINARY32, bits), ["z"], a=sums, exponent=exponents)
    np.testing.assert_array_equal(words.astype(np.uint32), scaled(sums, exponents).view(np.uint32))


@pytest.mark.parametrize("bits", [DELTA_BITS[0], 12, DELTA_BITS[-1], WIDEST])
def test_a_word_becomes_the_nearest_mantissa_and_saturates(bits):
    rng = np.random.default_rng(bits)
    exponents = rng.integers(-126, 20, 900)
    values = (rng.standard_normal(900) * np.exp2(exponents + rng.integers(-bits - 2, 3, 900))).astype(np.float32)
    values[:300] = (rng.integers(-300, 300, 300) + 0.5) * np.exp2(exponents[:300] - float(bits - 1))  # ties
    exponents[-20:], values[-20:] = -126, (rng.standard_normal(20) * SMALLEST / 2).astype(np.float32)  # subnormal
    unit, places = Quantiser(BINARY32, WIDEST), bits - 1 - exponents
    mantissas, saturated, not_finite = stream(
        unit, ["z", "saturated", "not_finite"], a=values.view(np.uint32), places=places, limit=np.full(900, most(bits))
    )
    np.testing.assert_array_equal(mantissas, quantise(values, exponents, bits)[0])
    np.testing.assert_array_equal(saturated, np.abs(np.rint(np.ldexp(values.astype(float), places))) > most(bits))
    assert saturated.any() and not not_finite.any()


def test_what_is_no_number_is_told():
    words = np.array([np.inf, -np.inf, np.nan, 1, 0], dtype=np.float32).view(np.uint32)
    unit = Quantiser(BINARY32, WIDEST)
    mantissas, not_finite = stream(unit, ["z", "not_finite"], a=words, places=[6] * 5, limit=[127] * 5)
    assert list(not_finite) == [1, 1, 1, 0, 0]
    assert list(mantissas[3:]) == [64, 0]


def test_a_unit_does_what_its_function_says_whatever_is_beside_it():
    rng, count = np.random.default_rng(4), 400
    functions = rng.choice(list(Function), count)
    words = (rng.standard_normal(count) * np.exp2(rng.integers(-20, 20, count))).astype(np.float32)
    others = (words * rng.standard_normal(count)).astype(np.float32)
    words[::9], words[1::50] = 0, np.inf
    bits = rng.choice([8, 12, 15], count)
    sums, common, negate = (
        rng.integers(-(1 << 39), 1 << 39, count),
        rng.integers(-60, 60, count),
        rng.random(count) < 0.5,
    )
    offsets, packed = rng.integers(-60, 60, count), rng.integers(0, 1 << 32, count)
    exponents = np.where(negate, common - offsets, common + offsets)
    is_function = {function: np.array([each is function for each in functions]) for function in Function}
    a = np.where(is_function[Function.CONVERT], sums, words.view(np.uint32).astype(np.int64))
    b = np.where(is_function[Function.LARGEST], others.view(np.uint32), offsets & 0xFFFFFFFF)
    b = np.where(is_function[Function.INSERT], packed, b)
    finite = np.where(np.isfinite(words), words, np.float32(0))
    quantised = np.array([quantise(v, n - 1 - e, n)[0] for v, e, n in zip(finite, exponents, bits, strict=True)])
    expected = {
        Function.CONVERT: scaled(sums, exponents).view(np.uint32),
        Function.QUANTISE: quantised.astype(np.int32).view(np.uint32),
        Function.EXPONENT: exponent_of(np.abs(finite)).astype(np.int32).view(np.uint32),
        Function.LARGEST: np.maximum(np.abs(words), np.abs(others)).view(np.uint32),
        Function.INSERT: (packed << 8 | words.view(np.uint32) & 0xFF).astype(np.uint32),
    }
    operands = {"a": a, "b": b, "common": common, "negate": negate, "limit": [most(n) for n in bits]}
    z, saturated, not_finite = stream(
        IntegerUnit(BINARY32), ["z", "saturated", "not_finite"], function=[f.value for f in functions], **operands
    )
    for function, wanted in expected.items():
        mine = is_function[function] & (np.isfinite(words) | (function in (Function.CONVERT, Function.LARGEST)))
        np.testing.assert_array_equal(z[mine].astype(np.uint32), wanted[mine], err_msg=str(function))
    quantises = is_function[Function.QUANTISE]
    assert saturated[quantises].any() and not saturated[~quantises].any()
    np.testing.assert_array_equal(not_finite, quantises & ~np.isfinite(words))
