"""Groups of channels with integers: each sums the rows of its shard over all parts of the batch, with golden's bits."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training, with_changes

FOUR = replace(preset("test-int8"), channels=4, broadcasters=4)
SIX = replace(FOUR, channels=6, broadcasters=6)
SHAPE = TrainingShape(NetworkShape(5, 9, 2), 7, 4, Execution(arithmetic=arithmetic_named("int8", 15)), masked=True)


@pytest.fixture
def grouped(monkeypatch):
    """Gives a device on which sessions have so many groups, whatever is fastest."""

    def device(groups, config=FOUR):
        monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_: {groups: 1.0})
        return HardwareDevice("interpreter", "test-int8", InterpretedAccelerator(config))

    return device


def assert_same(device, shape, groups, **run):
    session = assert_same_training(device, shape, **{"iterations": 2, "seed": 1} | run)
    assert session.plan.groups == groups
    return session


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
    generator, found = np.random.default_rng(6), []
    x, dy = (generator.standard_normal(size, np.float32) for size in (SHAPE.x_shape, SHAPE.y_shape))
    for device in (open_device("golden"), grouped(2)):
        session = device.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 6))
        session.forward(x, np.array([4, 2, 3, 1, 4, 4, 2]))
        norm = session.backward(dy).norm
        counts = [(usage.delta_kept, usage.delta_digits, usage.saturated, usage.products) for usage in session.usage()]
        found.append((norm, counts, session.contributions().tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_every_weight_velocity_and_gradient_is_in_one_shard(groups):
    plan = Plan(SIX, NetworkShape(5, 40), 8, 4, SHAPE.execution, groups=groups)
    for name in ("weights", "velocity", "gradient", "norms"):
        array = getattr(plan.map.layers[0], name)
        found = np.sort(array.elements[array.elements >= 0])
        assert np.array_equal(found, np.arange(np.prod(array.shape))), name
