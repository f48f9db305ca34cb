"""Sessions with integers: exponents settle, and bits depend on no slices, interruption or refresh."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.errors import DeviceError, DivergedError
from etalstm.network import DeltaInputs, Execution, NetworkShape, initial_parameters
from etalstm.network.arithmetic import LEAST_EXPONENT
from etalstm.network.storage import Storage

NETWORK, BATCH, STEPS = NetworkShape(5, 7, 2), 8, 4


def trained(execution, network=NETWORK, iterations=3, scale=1.0, lengths=None):
    """Train a session on golden; give its parameters, norms and exponents."""
    shape = TrainingShape(network, BATCH, STEPS, execution, masked=lengths is not None)
    generator, norms = np.random.default_rng(4), []
    with open_device("golden") as device:
        session = device.create(shape)
        session.load(initial_parameters(network, seed=2))
        for _ in range(iterations):
            x = generator.standard_normal(shape.x_shape, np.float32) * np.float32(scale)
            outputs = session.forward(x, lengths)
            back = session.backward(outputs.y)
            norms.append(back.norm)
            session.update(learning_rate=0.1, momentum=0.9)
        return [entry.weights for entry in session.parameters()], norms, session.exponents


@pytest.mark.parametrize("cell", ["lstm", "hlstm"])
@pytest.mark.parametrize("arithmetic", ["int8", "int16"])
def test_slices_change_no_bit(arithmetic, cell):
    network = NetworkShape(5, 7, 2, cell)
    expected, norms, _ = trained(Execution(arithmetic=arithmetic), network)
    for slices in (2, 3, 5, 8):
        found, same, _ = trained(Execution(arithmetic=arithmetic, slices=slices), network)
        assert norms == same and all(map(np.array_equal, found, expected))


def test_integers_of_16_bits_are_close_to_float32_and_none_saturates_in_the_first_iteration():
    _, expected, _ = trained(Execution())
    _, norms, _ = trained(Execution(arithmetic="int16"))
    np.testing.assert_allclose(norms, expected, rtol=2e-3)


def test_a_refresh_changes_no_bit():
    storage = Storage("ms1", 0.01)
    expected, *_ = trained(Execution(storage, delta_inputs=DeltaInputs(0.2, 0), arithmetic="int8"))
    found, *_ = trained(Execution(storage, delta_inputs=DeltaInputs(0.2, 3), arithmetic="int8"))
    assert all(map(np.array_equal, found, expected))


def test_gradients_that_jump_are_gone_through_again_and_zeros_leave_an_exponent():
    shape = TrainingShape(NETWORK, BATCH, STEPS, Execution(arithmetic="int8"))
    generator = np.random.default_rng(4)
    with open_device("golden") as device:
        session = device.create(shape)
        session.load(initial_parameters(NETWORK, seed=2))
        x = generator.standard_normal(shape.x_shape, np.float32)
        session.forward(x)
        session.backward(np.zeros(shape.y_shape, np.float32))
        assert (session.exponents[0].delta == LEAST_EXPONENT).all(), "all δ are zero: there is no exponent yet"
        norms = []
        for factor in (1.0, 2.0**20, 1.0):
            dy = session.forward(x).y * np.float32(factor)
            norms.append(session.backward(dy).norm / factor)
            assert session.usage()[0].saturated == 0
        np.testing.assert_allclose(norms[:2], norms[0], rtol=0.02)
        for _ in NETWORK.matrices:  # each iteration another layer has δ again
            back = session.backward(session.forward(x).y)
        np.testing.assert_allclose(back.norm, norms[0], rtol=0.02)


def test_states_beyond_one_are_refused_and_an_infinite_one_has_diverged():
    shape = TrainingShape(NETWORK, BATCH, STEPS, Execution(arithmetic="int8"))
    with open_device("golden") as device:
        session = device.create(shape)
        session.load(initial_parameters(NETWORK, seed=2))
        h0 = np.full(shape.state_shape, 1.5, np.float32)
        with pytest.raises(ValueError, match=r"h0 must be from -1 to 1 with arithmetic int8, got 1\.5"):
            session.forward(np.zeros(shape.x_shape, np.float32), h0=h0)
        x = np.zeros(shape.x_shape, np.float32)
        session.backward_of = session.forward(x)
        with pytest.raises(DivergedError, match="not finite"):
            session.backward(np.full(shape.y_shape, 3e38, np.float32), dc=np.full(shape.state_shape, 3e38, np.float32))


def test_what_an_arithmetic_cannot_do_is_refused():
    with pytest.raises(ValueError, match="arithmetic must be one of float32, int16, int8, got 'int4'"):
        Execution(arithmetic="int4")
    with pytest.raises(ValueError, match="delta_bits must be from 8 to 15, got 7"):
        Execution.read(arithmetic="int8", delta_bits=7)
    with pytest.raises(ValueError, match="delta_bits: only for an arithmetic of integers, got 12 with float32"):
        Execution.read(delta_bits=12)
    with pytest.raises(ValueError, match="with arithmetic int8 weights are integers: weight_format must be float32"):
        Execution(arithmetic="int8", weight_format="bf16")
    with pytest.raises(ValueError, match=r"steps of a batch: a sum of int16 holds 131,080 terms, got 200,000"):
        TrainingShape(NetworkShape(1, 1), 1000, 200, Execution(arithmetic="int16"))
    shape = TrainingShape(NETWORK, BATCH, STEPS, Execution(arithmetic="int8"))
    with open_device("xdma:sim") as device, pytest.raises(DeviceError, match="float32: arithmetic cannot be int8"):
        device.create(shape)
