"""Logs get the room that their streams need; a pass that had too little is run again and nothing tells."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.machine.planning import PATIENCE, SPARE, Room
from etalstm.errors import PlanError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.program.walk import streams_before
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, encode
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

NETWORK = NetworkShape(5, 19, 2)


def shape_of(share, policy="ms1", masked=False):
    return TrainingShape(NETWORK, 6, 5, Execution(storage=Storage(policy, 0.1)), masked=masked, log_share=share)


def interpreted():
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))


def train_beside_golden(device, shape, skip_cells=0.0):
    """Hold two iterations to golden; give the device's session."""
    return assert_same_training(device, shape, iterations=2, seed=7, skip_cells=skip_cells)


@pytest.mark.parametrize("policy", ["ms1", "ms1-bf16", ("dense", "ms1")], ids=str)
@pytest.mark.parametrize("share", [1e-9, 0.1, 0.3])
def test_a_log_that_is_too_small_grows_and_the_pass_is_replayed(policy, share):
    session = train_beside_golden(interpreted(), shape_of(share, policy, masked=True), skip_cells=0.3)
    memory = session.memory()
    assert memory["replays"] > 0
    assert memory["log_used"] <= memory["log"] <= memory["reserved"]["intermediates"]


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("name", ["test", "sim"])
def test_the_machine_replays_with_the_bits_of_golden(name, stall):
    with open_device("sim", name, stall=stall, seed=2) as device:
        memory = train_beside_golden(device, shape_of(0.2)).memory()
    assert memory["replays"] > 0 and 0 < memory["log_used"] <= memory["log"]


def test_weights_and_velocities_survive_a_new_plan():
    device = interpreted()
    session = device.create(shape_of(0.1))
    given = initial_parameters(NETWORK, 3), initial_parameters(NETWORK, 4)
    session.load(*given)
    neighbour = device.create(shape_of(0.1))  # what grows has to go elsewhere
    session.forward(np.zeros(session.shape.x_shape, np.float32))
    assert session.placement.base >= neighbour.placement.end and session.memory()["replays"] > 0
    for expected, actual in zip(given, (session.parameters(), session.velocities()), strict=True):
        for a, b in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(b.weights, a.weights)
            np.testing.assert_array_equal(b.bias, a.bias)


def test_a_log_shrinks_to_what_is_needed_and_grows_again():
    session, shape = interpreted().create(shape_of(1.0)), shape_of(1.0)
    session.load(initial_parameters(NETWORK, 1))
    whole, quiet = session.memory()["log"], np.zeros(shape.x_shape, np.float32)
    for _ in range(PATIENCE + 1):
        session.forward(quiet)
    shrunk = session.memory()
    assert shrunk["replays"] == 0 and shrunk["log"] < whole
    assert shrunk["log_used"] <= shrunk["log"] <= SPARE * shrunk["log_used"] + 5 * session.plan.map.memory.vector_bytes
    x, c0 = (np.random.default_rng(1).standard_normal(size, np.float32) for size in (shape.x_shape, shape.state_shape))
    session.forward(x, c0=3 * c0)
    grown = session.memory()
    assert grown["replays"] > 0 and shrunk["log"] < grown["log_used"] <= grown["log"]


def test_passes_that_skip_cells_do_not_shrink_a_log():
    session, shape = interpreted().create(shape_of(1.0)), shape_of(1.0)
    session.load(initial_parameters(NETWORK, 1))
    before = session.memory()["log"]
    for _ in range(PATIENCE + 1):
        session.forward(np.zeros(shape.x_shape, np.float32), skipped_cells=np.ones((2, 5), bool))
    assert session.memory()["log"] == before


def test_a_log_that_cannot_grow_says_what_is_needed_and_loses_nothing():
    device = interpreted()
    session = device.create(shape_of(0.1))
    parameters = initial_parameters(NETWORK, 1)
    session.load(parameters)
    device.accelerator.transport.memory_bytes = session.plan.memory_bytes
    with pytest.raises(PlanError, match=r"needs [\d,]+ bytes of memory, the device has"):
        session.forward(np.ones(session.shape.x_shape, np.float32))
    np.testing.assert_array_equal(session.parameters()[1].weights, parameters[1].weights)
    del device.accelerator.transport.memory_bytes
    session.forward(np.ones(session.shape.x_shape, np.float32))


def test_room_follows_what_was_written():
    room = Room(0.2)
    room.grow(0, 0.2, 0.5)
    assert room.share(0) == pytest.approx(SPARE * 0.4) and room.share(1) == 0.2
    room.grow(0, 0.4, 0.99)
    assert room.share(0) == pytest.approx(0.5), "at least a quarter more"
    room.grow(0, 0.5, 0.0)
    assert room.share(0) == 1.0 and room.replays == 3
    assert not any(room.note(0, 0.1) for _ in range(PATIENCE - 1))
    assert room.note(0, 0.3) and room.share(0) == pytest.approx(SPARE * 0.3)


@pytest.mark.parametrize("share", [0, -0.5, 1.5, float("nan"), True, "1"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="log_share must be above 0 and at most 1"):
        TrainingShape(NETWORK, 1, 1, log_share=share)


def test_streams_before_counts_what_goes_to_the_log():
    plain = encode(Opcode.STORE, outer=1, inner=9)
    words = [
        plain,
        *(encode(Opcode.STORE, outer=2, inner=n, compressed=1, log=log) for n, log in [(3, 0), (9, 1), (5, 0)]),
    ]
    words += [encode(Opcode.LOAD, outer=1, inner=1, compressed=1), encode(Opcode.HALT)]
    assert [streams_before(words, n) for n in (1, 2, 3)] == [(0, 0.0), (1, 0.0), (0, 3 / 8)]
    for n in (0, 4):
        with pytest.raises(ValueError, match="appends to no log"):
            streams_before(words, n)
