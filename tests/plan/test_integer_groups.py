"""Groups of channels with integers: each sums the rows of its shard over all parts of the batch, with golden's bits."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from tests.plan.groups import assert_same, grouped_device
from tests.training import after_backward, assert_same_training, with_changes

FOUR = replace(preset("test-int8"), channels=4, broadcasters=4)
SIX = replace(FOUR, channels=6, broadcasters=6)
SHAPE = TrainingShape(NetworkShape(5, 9, 2), 7, 4, Execution(arithmetic=arithmetic_named("int8", 15)), masked=True)


@pytest.fixture
def grouped(monkeypatch):
    return lambda groups, config=FOUR: grouped_device(monkeypatch, "test-int8", config, groups)


@pytest.mark.parametrize(
    ("groups", "sizes", "batch", "config"),
    [
        (2, (5, 9, 2), 4, FOUR),
        (4, (3, 40, 2), 7, FOUR),
        (2, (70, 20), 5, FOUR),
        (3, (5, 30, 2), 8, SIX),
        (6, (2, 1), 6, SIX),
        (2, (6, 33, 2), 9, replace(FOUR, integer_streams=2, queue_depth=128, broadcast_words=256)),
    ],
    ids=["full", "streamed weights", "many inputs", "padded shards", "more shards than rows", "two streams"],
)
def test_groups_have_goldens_bits(grouped, groups, sizes, batch, config):
    shape = replace(SHAPE, network=NetworkShape(*sizes), batch=batch, masked=batch > 4)
    assert_same(grouped(groups, config), shape, groups)


@pytest.mark.parametrize(
    "changes",
    [
        {"storage": Storage("ms1-bf16", 0.1)},
        {"storage": Storage("ms1", 0.05), "delta_inputs": DeltaInputs(((0.3, 0.05), 0.1), 0)},
        {"gradient_sums": True},
        {"gradient_sums": True, "layers_apart": True},
    ],
    ids=["reduced", "changes", "sums", "layers apart"],
)
@pytest.mark.parametrize(("groups", "config"), [(2, FOUR), (3, SIX)])
def test_groups_have_goldens_bits_with_every_option(grouped, changes, groups, config):
    run = {"skip_cells": 0.4, "delta_threshold": 0.01} if "storage" in changes else {}
    assert_same(grouped(groups, config), with_changes(SHAPE, **changes), groups, iterations=3, **run)


def test_no_group_has_a_step(grouped):
    assert_same(grouped(2), SHAPE, 2, skip_cells=1.0)


def test_groups_of_parts_that_follow_one_another_have_goldens_bits(grouped, monkeypatch):
    monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [2])
    session = assert_same_training(grouped(2), with_changes(SHAPE, slices=2), iterations=2, seed=3)
    assert session.memory()["parts"] == 2 and session._inner.plan.groups == 2


def test_a_log_that_is_full_is_planned_again_with_groups(grouped):
    shape = with_changes(SHAPE, storage=Storage("ms1", 0.01), log_share=0.05)
    assert assert_same(grouped(2), shape, 2).memory()["replays"] > 0


def test_contributions_and_counts_are_those_of_all_groups(grouped):
    found = []
    for device in (open_device("golden"), grouped(2)):
        session, norm, counts = after_backward(device, SHAPE, [4, 2, 3, 1, 4, 4, 2], seed=6)
        found.append((norm, counts, session.contributions().tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_every_weight_velocity_and_gradient_is_in_one_shard(groups):
    plan = Plan(SIX, NetworkShape(5, 40), 8, 4, SHAPE.execution, groups=groups)
    for name in ("weights", "velocity", "gradient", "norms"):
        array = getattr(plan.map.layers[0], name)
        found = np.sort(array.elements[array.elements >= 0])
        assert np.array_equal(found, np.arange(np.prod(array.shape))), name
