"""Weights as bfloat16: the golden device against a definition in whole numbers."""

import struct

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.formats.codec import pack_bf16, round_bf16, unpack_bf16
from etalstm.golden import reference
from etalstm.golden.trainer import Rows
from etalstm.network.execution import BF16, FLOAT32, Execution
from etalstm.network.shape import LayerParameters, NetworkShape, initial_parameters
from etalstm.network.update_rule import UpdateRule

NETWORK, BATCH, STEPS = NetworkShape(3, 5, 2), 4, 6
RATE, MOMENTUM = 0.05, 0.9


def nearest(x):
    """Round one float32 to bfloat16: the nearer of its two neighbours, of equally near ones the even one."""
    (word,) = struct.unpack("<I", struct.pack("<f", x))
    below, rest = word >> 16, word & 0xFFFF
    up = rest > 0x8000 or (rest == 0x8000 and below & 1)
    return struct.unpack("<f", struct.pack("<I", (below + up) << 16))[0]


def rounded(parameters):
    def each(weights):
        return np.array([nearest(float(x)) for x in weights.ravel()], np.float32).reshape(weights.shape)

    return [LayerParameters(each(layer.weights), layer.bias) for layer in parameters]


def opened(weight_format):
    return open_device("golden").create(TrainingShape(NETWORK, BATCH, STEPS, Execution(weight_format=weight_format)))


def iterate(session, seed):
    """Run both passes; everything that comes out."""
    generator, shape = np.random.default_rng(seed), session.shape
    outputs = session.forward(generator.standard_normal(shape.x_shape, np.float32))
    back = session.backward(generator.standard_normal(shape.y_shape, np.float32))
    gradients = session.gradients()
    return [outputs.y, outputs.c, back.dx, *(array for g in gradients for array in (g.weights, g.bias))]


def test_the_passes_read_rounded_weights_and_the_update_works_on_the_others():
    narrow, wide = opened(BF16), opened(FLOAT32)
    weights, speeds = initial_parameters(NETWORK, 1), [np.zeros(1, np.float32)] * 2
    narrow.load(weights)
    for seed in range(3):
        wide.load(rounded(weights))
        for number, (got, expected) in enumerate(zip(iterate(narrow, seed), iterate(wide, seed), strict=True)):
            assert np.array_equal(got.view(np.uint32), expected.view(np.uint32)), f"iteration {seed}, array {number}"
        gradients = [Rows.of(LayerParameters(each.weights, each.bias)) for each in narrow.gradients()]
        narrow.update(RATE, MOMENTUM)
        rule, following = UpdateRule(RATE, MOMENTUM, 0.0, 1.0), []
        for layer, (before, gradient) in enumerate(zip(weights, gradients, strict=True)):
            rows = Rows.of(before)
            speed = np.broadcast_to(speeds[layer], rows.weights.shape)
            moved, speeds[layer] = reference.descend(rows.weights, speed, gradient.weights, rule, np.float32(0))
            following.append(Rows(moved, rows.bias).parameters().weights)
        weights = narrow.parameters()
        for layer, expected in enumerate(following):
            assert np.array_equal(weights[layer].weights, expected), f"iteration {seed}, layer {layer}"
            assert not np.array_equal(round_bf16(expected), expected), "every weight is a bfloat16 number"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x3F808000, 0x3F800000),  # ties go to even
        (0x3F818000, 0x3F820000),
        (0x3F808001, 0x3F810000),
        (0x3F7FFFFF, 0x3F800000),  # into the next binade
        (0x7F7F7FFF, 0x7F7F0000),  # the largest that stays finite
        (0x7F7F8000, 0x7F800000),  # overflow
        (0xFF7FFFFF, 0xFF800000),
        (0x7F800001, 0x7FC00000),  # a NaN stays one
        (0x00800000, 0x00800000),  # the smallest normal number
        (0x007FFFFF, 0x00800000),  # a subnormal, which no weight is
        (0x80000001, 0x80000000),
    ],
)
def test_rounds_to_nearest_even(word, expected):
    x = np.array([word], np.uint32).view(np.float32)
    assert f"{round_bf16(x).view(np.uint32)[0]:#010x}" == f"{expected:#010x}"


def test_no_normal_number_is_rounded_to_a_subnormal_one():
    words = np.arange(0x00800000, 0x00800000 + (3 << 16), 7, np.uint32)
    assert (round_bf16(words.view(np.float32)) >= np.finfo(np.float32).smallest_normal).all()


def test_two_numbers_share_a_word_and_come_back_rounded():
    generator = np.random.default_rng(2)
    low, high = generator.standard_normal((2, 3, 7), np.float32)
    words = pack_bf16(low, high)
    assert words.shape == low.shape
    assert (
        words.view(np.uint32)[1, 2]
        == round_bf16(low).view(np.uint32)[1, 2] >> 16 | round_bf16(high).view(np.uint32)[1, 2]
    )
    for got, expected in zip(unpack_bf16(words), (low, high), strict=True):
        np.testing.assert_array_equal(got, round_bf16(expected))
