"""Shared tokens with integers: their sums are made once, and have golden's bits in every step."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.memory.integer_tokens import HIGH, MOST_INPUTS, powers_of
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training, with_changes

INT8 = arithmetic_named("int8", 15)
SHAPE = TrainingShape(NetworkShape(5, 9, 2), 4, 4, Execution(arithmetic=INT8, shared_tokens=6), masked=True)


def interpreted(config):
    return HardwareDevice("interpreter", "test-int8", InterpretedAccelerator(config))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("test-int8", {"storage": Storage("ms1-bf16", 0.1)}),
        ("test-int8", {"network": NetworkShape(70, 20), "shared_tokens": 40, "batch": 9}),
        ("test-int8", {"network": NetworkShape(1, 1), "shared_tokens": 1, "batch": 1}),
        ("sim-int8", {"network": NetworkShape(300, 40), "shared_tokens": 9, "batch": 5, "masked": False}),
    ],
    ids=["reduced", "many tokens", "single", "many inputs"],
)
def test_shared_tokens_have_goldens_bits(name, changes):
    run = {"skip_cells": 0.3, "delta_threshold": 0.01} if "storage" in changes else {}
    assert_same_training(interpreted(preset(name)), with_changes(SHAPE, **changes), iterations=2, seed=3, **run)


def test_each_group_of_channels_has_tokens_of_its_own():
    config = replace(preset("test-int8"), channels=4, broadcasters=4)
    session = assert_same_training(interpreted(config), with_changes(SHAPE, batch=7, slices=4), iterations=2, seed=3)
    assert session.plan.groups == 4


def test_steps_send_tokens_in_the_place_of_x_if_tokens_are_shared():
    plan = Plan(preset("test-int8"), SHAPE.network, 4, 4, SHAPE.execution)
    layer = plan.map.layers[0].integers
    for shares, sent in ((True, {"chosen_tokens", "numbers_tokens"}), (False, {"numbers_x0"})):
        (program,), _ = plan.passes(np.zeros((2, 4), bool), shares)
        addresses = [step.address for step in walk(program.words) if step.opcode == Opcode.SEND]
        names = {plan.map.place_of(address).split("+")[0].split("[")[0] for address in addresses}
        assert names & {"chosen_tokens", "numbers_tokens", layer.operands["x"].digits.sent.array.name} == sent


def test_more_tokens_than_there_is_room_for_are_not_shared():
    """The batch has 16 distinct tokens, the session room for 6."""
    x, found = np.random.default_rng(4).standard_normal(SHAPE.x_shape, np.float32), []
    for device in (open_device("golden"), interpreted(preset("test-int8"))):
        session = device.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 6))
        found.append(session.forward(x, tokens=np.arange(16).reshape(4, 4)).y.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("inputs", [1, 64, 65, MOST_INPUTS])
def test_bytes_hold_every_sum(inputs):
    """Each byte but the last two leaves at most half of what it counts."""
    most = inputs * 127 * 127
    for power in powers_of(inputs):
        byte = min(127, round(most / (1 << power)))
        most -= byte << power
        assert power == HIGH or byte < 127 or most == 0
    assert most == 0 and inputs * 127 * 127 < 1 << 24
