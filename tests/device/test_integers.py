"""Training with integers on the simulated machine: golden's bits, whatever the memory does."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters, zero_velocities
from etalstm.network.storage import Storage
from tests.training import assert_same_training, with_changes

SHAPE = TrainingShape(NetworkShape(5, 9, 2), 3, 4, Execution(arithmetic=arithmetic_named("int8", 15)), masked=True)


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
