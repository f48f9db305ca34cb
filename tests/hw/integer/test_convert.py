"""The ways between integers and float32 against :mod:`etalstm.network.arithmetic`, which defines them."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from etalstm.formats.codec import pack_bf16
from etalstm.golden.activation import sigmoid, tanh
from etalstm.network.arithmetic import DELTA_BITS, SMALLEST, exponent_of, most, quantise, scaled, split
from etalstm_hw.contract import BINARY32, NOTED_NOT_FINITE, NOTHING_NOTED, OF_BYTES, OPS_OF_INTEGERS, VectorOp
from etalstm_hw.fp.activation import FUNCTIONS
from etalstm_hw.integer.convert import Converter
from etalstm_hw.integer.quantise import Quantiser
from etalstm_hw.integer.unit import ElementUnit, IntegerUnit
from etalstm_hw.integer.widths import EXPONENT_BITS

WIDEST = 16  # bits of a mantissa
INTEGER_SUMS = (VectorOp.ADD_INTEGERS, VectorOp.SUBTRACT_INTEGERS)


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


def is_op(ops, op):
    return np.array([each == op for each in ops])


def kept(ops, banks, words, exponents, quantised, threshold, places):
    """Give what bytes and notes make, element by element, of lanes that take turns: uint32."""
    found = np.zeros(len(ops), np.int64)
    bytes_of, clamped, total = np.zeros((3, banks), np.int64)
    largest = np.full(banks, NOTHING_NOTED)
    powers = np.where(words == 0, NOTHING_NOTED, exponent_of(np.abs(words)) + exponents)
    for n, op in enumerate(ops):
        lane, (number, is_clamped) = n % banks, quantised[n]
        if op in OF_BYTES:
            upper, lower = (0 if abs(words[n]) < threshold else int(digit) for digit in split(np.array(number)))
            byte = {VectorOp.BYTES: int(number), VectorOp.UPPER_DIGITS: upper}.get(op, lower)
            shift = 8 * int(places[n])
            found[n] = bytes_of[lane] = (bytes_of[lane] if shift else 0) & ~(0xFF << shift) | (byte & 0xFF) << shift
        if op == VectorOp.NOTED_DIGITS:
            largest[lane], clamped[lane] = max(largest[lane], powers[n]), clamped[lane] + is_clamped
            total[lane] += int(number)
        elif op == VectorOp.NOTED_EXPONENT:
            found[n], largest[lane] = largest[lane], NOTHING_NOTED
        elif op == VectorOp.NOTED_CLAMPED:
            found[n], clamped[lane] = clamped[lane], 0
        elif op == VectorOp.NOTED_SUM:
            found[n], total[lane] = int(words[n].view(np.int32)) + total[lane], 0
    return (found & 0xFFFFFFFF).astype(np.uint32)


@pytest.mark.parametrize("unit", [IntegerUnit, ElementUnit])
@pytest.mark.parametrize("banks", [1, 4])
def test_a_unit_does_what_its_operation_says_whatever_is_beside_it(unit, banks):
    rng, count = np.random.default_rng(4), 1200
    ops = rng.choice([*OPS_OF_INTEGERS] if unit is IntegerUnit else [*OPS_OF_INTEGERS, *FUNCTIONS], count // banks)
    ops = [VectorOp(op) for op in ops.repeat(banks)]
    words = (rng.standard_normal(count) * np.exp2(rng.integers(-20, 20, count))).astype(np.float32)
    others = (words * rng.standard_normal(count)).astype(np.float32)
    words[::9] = 0
    words[5::30] *= np.float32(2.0**100)
    bits, sums = rng.choice([8, 12, 15], count), rng.integers(-(1 << 39), 1 << 39, count)
    bits[is_op(ops, VectorOp.BYTES)] = 8
    exponents, packed, threshold = rng.integers(-60, 60, count), rng.integers(0, 1 << 32, count), np.float32(0.01)
    a = np.where(is_op(ops, VectorOp.CONVERT), sums, words.view(np.uint32).astype(np.int64))
    b = np.where(is_op(ops, VectorOp.LARGEST) | is_op(ops, VectorOp.PACK), others.view(np.uint32), exponents)
    b = np.where([op in INTEGER_SUMS for op in ops], packed, b & 0xFFFFFFFF)
    quantised = [quantise(v, n - 1 - e, n) for v, e, n in zip(words, exponents, bits, strict=True)]
    places = np.arange(count) // banks % 4
    with np.errstate(over="ignore"):
        scales = np.ldexp(words, exponents)
    of_kept = kept(ops, banks, words, exponents, quantised, threshold, places)
    expected = {
        VectorOp.CONVERT: scaled(sums, exponents),
        VectorOp.CONVERT_BYTE: scaled((words.view(np.uint32) >> (8 * places)).astype(np.int8), exponents),
        VectorOp.QUANTISE: np.array([number for number, _ in quantised]).astype(np.int32),
        **dict.fromkeys((*OF_BYTES, VectorOp.NOTED_EXPONENT, VectorOp.NOTED_CLAMPED, VectorOp.NOTED_SUM), of_kept),
        VectorOp.SCALE: np.where(np.abs(scales) < SMALLEST, np.float32(0), scales),
        VectorOp.EXPONENT: exponent_of(np.abs(words)).astype(np.int32),
        VectorOp.LARGEST: np.maximum(np.abs(words), np.abs(others)),
        VectorOp.ADD_INTEGERS: (words.view(np.uint32) + packed).astype(np.uint32),
        VectorOp.SUBTRACT_INTEGERS: (words.view(np.uint32) - packed).astype(np.uint32),
        VectorOp.SIGMOID: sigmoid(words),
        VectorOp.TANH: tanh(words),
        VectorOp.PACK: pack_bf16(words, others),
    }
    operands = {"a": a, "b": b, "limit": [most(n) for n in bits], "place": places, "valid": [1] * count}
    thresholds = [int(threshold.view(np.uint32))] * count
    (z,) = stream(unit(BINARY32, banks), ["z"], op=[int(op) for op in ops], threshold=thresholds, **operands)
    for op in set(ops):
        mine = is_op(ops, op)
        np.testing.assert_array_equal(z[mine].astype(np.uint32), expected[op].view(np.uint32)[mine], err_msg=op.name)
    assert of_kept[is_op(ops, VectorOp.NOTED_CLAMPED)].any()


def test_what_is_not_finite_is_noted():
    words = np.array([1, np.nan, 0, 0], dtype=np.float32).view(np.uint32)
    ops = [VectorOp.NOTED_DIGITS] * 2 + [VectorOp.NOTED_EXPONENT] * 2
    one = [1] * 4
    (z,) = stream(IntegerUnit(BINARY32), ["z"], op=ops, a=words, b=[0] * 4, limit=[127] * 4, valid=one)
    assert list(z[2:].astype(np.int32)) == [NOTED_NOT_FINITE, NOTHING_NOTED]


def test_the_infinite_stays_infinite_when_it_is_scaled():
    words = np.array([np.inf, -np.inf, np.nan], dtype=np.float32).view(np.uint32)
    (z,) = stream(IntegerUnit(BINARY32), ["z"], op=[VectorOp.SCALE] * 3, a=words, b=[-60 & 0xFFFFFFFF] * 3)
    np.testing.assert_array_equal(z.astype(np.uint32).view(np.float32), words.view(np.float32))
