"""Machines to compare with: what they leave out, and what one machine counts when it becomes another and back."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.network.architecture import ARCHITECTURES, SWING
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode
from tests.training import assert_same_training

PRESET, SEED = "test", 4
SHAPE = TrainingShape(NetworkShape(4, 6), batch=2, steps=2)  # no row is padding: each of its sums gets a scalar


def dense_macs(session):
    """MACs of all channels in forward and backward pass if every scalar is sent."""
    macs = 0
    for name in ("forward", "backward"):
        for step in walk(session.plan.programs[name].words):
            f = step.fields
            if step.opcode == Opcode.CAST:
                tiles = [(f["tile"] + n) % f["tiles_per_channel"] for n in range(f["blocks"])]
                lanes = sum(f["last_lanes" if t == f["tiles_per_channel"] - 1 else "lanes"] for t in tiles)
                macs += lanes * f["gates"] * f["batch"] * f["tiles"]
    return macs * preset(PRESET).channels


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != SWING.name and name != "inference"])
def test_every_scalar_costs_its_macs_and_the_machine_swings_again_as_if_it_never_left(name):
    found = {}
    with open_device("sim", preset=PRESET, stall=0.5, seed=SEED) as device:
        for architecture in (SWING.name, name, SWING.name):
            shape = SHAPE.with_execution(architecture=architecture)
            assert_same_training(device, shape, 1, SEED)
            session = device.create(shape)
            session.load(initial_parameters(shape.network, SEED))
            generator = np.random.default_rng(SEED)
            session.forward(generator.standard_normal(shape.x_shape, np.float32))
            session.backward(generator.standard_normal(shape.y_shape, np.float32))
            found[architecture] = counters = session.counters()
            assert sum(counters["channel_cycles"].values()) == counters["cycles"] * preset(PRESET).channels
    swing, other = (found[each]["channel_cycles"] for each in (SWING.name, name))
    assert other["mac"] == dense_macs(session), f"{other['mac']} MACs, expected {dense_macs(session)}"
    assert swing["mac"] < other["mac"], "nothing was zero"
    assert swing["elementwise"] == other["elementwise"]
    assert found[name]["scalars_skipped"] == 0 < found[SWING.name]["scalars_skipped"]
    assert swing["share"] == 0 and (other["share"] > 0) == (name != "dynamic")
