"""The host's share of an update is exact and says when training has diverged."""

import math

import numpy as np
import pytest

from etalstm.errors import DeviceError, DivergedError
from etalstm.network.update_rule import UpdateRule, check_hyperparameters, clip_scale, gradient_norm


def test_norm_adds_one_term_after_the_other_in_float64():
    generator = np.random.default_rng(3)
    columns = [generator.random(n).astype(np.float32) * 1e3 for n in (301, 97)]
    biases = [generator.normal(size=n).astype(np.float32) for n in (160, 160)]
    total = 0.0
    for norms in columns:
        for value in norms:
            total += float(value)
    for db in biases:
        for value in db:
            total += float(value) * float(value)
    assert gradient_norm(columns, biases) == math.sqrt(total)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_norm_that_is_not_finite_is_divergence(bad):
    with pytest.raises(DivergedError, match="diverged"):
        gradient_norm([np.array([1, bad], np.float32)], [np.zeros(4, np.float32)])


def test_a_negative_sum_of_squares_is_the_devices_fault():
    columns = [np.ones(4, np.float32), np.array([1, -2, 3], np.float32)]
    with pytest.raises(DeviceError, match=r"layer 1, column 1 .* has the sum of squares -2\.0: the device's memory"):
        gradient_norm(columns, [np.zeros(4, np.float32)])


@pytest.mark.parametrize(
    ("norm", "clip", "expected"),
    [(5.0, None, 1.0), (5.0, 0.0, 1.0), (5.0, 5.0, 1.0), (5.0, 6.0, 1.0), (5.0, 1.0, 1.0 / 5.000001), (0.0, 1.0, 1.0)],
)
def test_scale_is_one_unless_the_clip_is_exceeded(norm, clip, expected):
    scale = clip_scale(norm, clip)
    assert scale.dtype == np.float32
    assert scale == np.float32(expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", math.nan), ("learning_rate", -1.0), ("momentum", 1.0), ("clip", math.inf),
     ("weight_decay", "0.1"), ("learning_rate", 1e39)],
)  # fmt: skip
def test_refuses_a_number_outside_its_range(name, value):
    numbers = {"learning_rate": 0.1, "momentum": 0.9, "clip": 1.0, "weight_decay": 0.0, name: value}
    with pytest.raises(ValueError, match=name):
        check_hyperparameters(**numbers)


def test_rule_holds_flushed_float32():
    rule = UpdateRule(1e-40, 0.9, 0.0, 1.0)
    assert rule.learning_rate == 0
    assert rule.momentum.dtype == np.float32 and rule.momentum == np.float32(0.9)
