"""Training with integers on the simulated machine: golden's bits, whatever the memory does."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.machine.integer_measures import whole_sums
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters, zero_velocities
from etalstm.network.storage import Storage
from etalstm_hw.config import preset
from etalstm_hw.contract import VectorOp
from etalstm_hw.contract.integers import SUM_BITS
from tests.plan.integer_operations import integer_operation
from tests.plan.machine import InterpretedAccelerator
from tests.training import after_backward, assert_same_training, with_changes

SHAPE = TrainingShape(NetworkShape(5, 9, 2), 3, 4, Execution(arithmetic=arithmetic_named("int8", 15)), masked=True)
SUMMED = replace(SHAPE, gradient_sums=True)


def interpreter():
    return HardwareDevice("interpreter", "test-int8", InterpretedAccelerator(preset("test-int8")))


def both_after_a_pass(shape, x, dy):
    """Give sessions of golden and of the interpreter whose backward pass is done."""
    for device in (open_device("golden"), interpreter()):
        session = device.create(shape)
        session.load(initial_parameters(shape.network, 6))
        session.forward(x)
        session.backward(dy)
        yield session


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_has_goldens_bits(stall):
    assert_same_training(open_device("sim", preset="test-int8", stall=stall), SHAPE, iterations=2, seed=4)


def test_reduced_storage_has_goldens_bits_and_counts():
    shape = with_changes(SHAPE, storage=Storage("ms1-bf16", 0.1))
    device = open_device("sim", preset="test-int8")
    session = assert_same_training(device, shape, iterations=2, seed=5, delta_threshold=0.02, skip_cells=0.3)
    assert all(usage.delta_digits > usage.delta_kept > 0 for usage in session.usage())


def test_contributions_and_counts_of_delta_are_goldens():
    generator, found = np.random.default_rng(6), {}
    x, dy = (generator.standard_normal(shape, np.float32) for shape in (SHAPE.x_shape, SHAPE.y_shape))
    for name in ("golden", "sim"):
        session = open_device(name, preset="test-int8").create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 6))
        session.forward(x, np.array([4, 2, 3]))
        session.backward(dy)
        counts = [(usage.delta_kept, usage.delta_digits, usage.saturated, usage.products) for usage in session.usage()]
        found[name] = counts, session.contributions().tobytes()
    assert found["golden"] == found["sim"]


@pytest.mark.parametrize("batch", [4, 7], ids=["none", "fewer"])
def test_three_streams_have_goldens_bits(tmp_path, batch):
    """The last stream has no sequence, or one where the others have three. It has a copy of the weights for itself."""
    file = tmp_path / "three.toml"
    file.write_text('base = "test-int8"\ninteger_streams = 3\n')
    device = open_device("sim", preset=str(file), stall=0.2)
    assert_same_training(device, with_changes(SHAPE, batch=batch), iterations=2, seed=8)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_groups_of_channels_have_goldens_bits(tmp_path, stall):
    file = tmp_path / "groups.toml"
    file.write_text('base = "test-int8"\nbroadcasters = 2\n')
    shape = with_changes(SHAPE, network=NetworkShape(5, 4, 2), batch=7, slices=2, storage=Storage("ms1", 0.1))
    session = assert_same_training(open_device("sim", preset=str(file), stall=stall), shape, iterations=2, seed=8)
    assert session.plan.groups == 2


def test_shared_tokens_have_goldens_bits():
    device = open_device("sim", preset="test-int8", stall=0.5)
    assert_same_training(device, with_changes(SHAPE, shared_tokens=6), iterations=1, seed=8)


def test_weights_are_integers_again_when_a_log_has_grown():
    """Also where a pipeline of ranks calls the hooks of a session, whose load() is never called."""
    shape, found = with_changes(SHAPE, storage=Storage("ms1", 0.01), log_share=0.05), {}
    x, states = np.random.default_rng(6).standard_normal(shape.x_shape, np.float32), np.zeros((2, 3, 9), np.float32)
    for name in ("golden", "sim"):
        session = open_device(name, preset="test-int8").create(shape)
        session._load(initial_parameters(shape.network, 6), zero_velocities(shape.network))
        found[name] = session._forward(x, np.array([4, 4, 4]), states, states).y.tobytes()
    assert session.memory()["replays"] > 0
    assert found["golden"] == found["sim"]


def test_whole_sums_are_exact_up_to_the_largest():
    """From what the machine's two operations make of sums around every place where the low word or float32 changes."""
    edges = np.array([0, 1 << 24, 1 << 31, 1 << 32, 3 << 31, 1 << 38, (1 << SUM_BITS - 1) - (1 << 16)], np.int64)
    sums = (edges[:, None] + np.arange(-(1 << 16), 1 << 16)).ravel()
    sums, zeros = np.concatenate([sums, -sums]), np.zeros(2 * sums.size, np.float32)
    rounded, low = (integer_operation(op, sums, zeros, 0) for op in (VectorOp.CONVERT, VectorOp.ADD_INTEGERS))
    np.testing.assert_array_equal(whole_sums(rounded.view(np.float32), low.view(np.int32)), sums)


def test_the_machine_gives_goldens_sums_where_float32_is_not_exact():
    """Most of δ is clamped to the largest mantissa, so that few terms make large sums."""
    shape, generator, found = replace(SUMMED, batch=16), np.random.default_rng(7), []
    x = np.abs(generator.standard_normal(shape.x_shape, np.float32))
    dy, states = np.ones(shape.y_shape, np.float32), np.zeros(shape.state_shape, np.float32)
    for device in (open_device("golden"), interpreter()):
        session = device.create(shape)
        session.load(initial_parameters(shape.network, 6))
        session.exponents[0].state = ([-16, -16], [[0, 0], [0, 0]])
        session.exponents[0].begin(2.0)
        session._forward(x, np.full(16, 4), states, states)
        session._backward(dy, states, states, 0.0)
        found.append(session._gradient_sums())
    assert any((sums != sums.astype(np.float32)).any() for sums in found[0])
    for sums, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(sums, expected)


def test_totals_beyond_a_word_have_goldens_gradients_norm_and_update():
    generator, found = np.random.default_rng(7), []
    arrays = (generator.standard_normal(shape, np.float32) for shape in (SHAPE.x_shape, SHAPE.y_shape))
    most = 1 << SUM_BITS - 1
    totals = [
        generator.integers(-most + 1, most, (matrix.rows, matrix.columns + 1)) for matrix in SHAPE.network.matrices
    ]
    for session in both_after_a_pass(SUMMED, *arrays):
        session._take_gradient_sums(totals)
        norm = session._norm()
        session.update(0.1, 0.9, clip=1.0)
        layers = [*session.gradients(), *session.parameters()]
        found.append((norm, [layer.weights.tobytes() + layer.bias.tobytes() for layer in layers]))
    assert found[0] == found[1]


def test_gradients_are_reported_once_and_when_the_pass_stands():
    told, session = [], interpreter().create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 6))
    session.when_whole = lambda layer, gradients: told.append((layer, gradients.weights.tobytes()))
    session.forward(np.ones(SHAPE.x_shape, np.float32))
    session.backward(np.ones(SHAPE.y_shape, np.float32))
    expected = [gradients.weights.tobytes() for gradients in session.gradients()]
    assert told == [(1, expected[1]), (0, expected[0])]


def test_sums_of_gradients_are_refused_in_float32():
    with pytest.raises(ValueError, match="gradient_sums: only with integers, arithmetic is float32"):
        TrainingShape(SHAPE.network, 3, 4, gradient_sums=True)


@pytest.fixture
def parted(divide_batches):
    """Gives a machine that works on batches in so many parts."""

    def divide(count):
        divide_batches(count)
        return interpreter()

    return divide


@pytest.mark.parametrize(
    ("count", "changes"),
    [(2, {}), (4, {"storage": Storage("ms1-bf16", 0.05)}), (4, {"delta_inputs": DeltaInputs(0.1, 0)})],
    ids=["dense", "reduced", "delta inputs"],
)
def test_parts_of_a_batch_have_goldens_bits(parted, count, changes):
    shape = with_changes(SHAPE, batch=7, slices=4, **changes)
    run = {"skip_cells": 0.3, "delta_threshold": 0.01} if "storage" in changes else {}
    session = assert_same_training(parted(count), shape, iterations=3, seed=9, **run)
    assert session.memory()["parts"] == count
    assert session.counters()["passes"].keys() == {"forward", "backward", "update"}


def test_contributions_and_counts_of_parts_are_goldens_and_leave_the_gradients(parted):
    shape, found = with_changes(SHAPE, batch=7, slices=4), []
    for device in (open_device("golden"), parted(4)):
        session, norm, counts = after_backward(device, shape, [4, 2, 3, 1, 4, 4, 2], seed=6)
        of_cells = session.contributions().tobytes()
        left = [gradients.weights.tobytes() + gradients.bias.tobytes() for gradients in session.gradients()]
        found.append((norm, counts, of_cells, left, session._norm()))
    assert found[0] == found[1]
