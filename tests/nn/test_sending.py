"""Delta inputs and a threshold for δ in ``etalstm.nn``: what they leave out, and how they are set."""

import copy

import numpy as np
import pytest
import torch

import etalstm.nn
from etalstm.device import TrainingShape, open_device
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import LayerParameters, NetworkShape
from etalstm.network.storage import Storage
from etalstm.nn.notes import counting
from tests.nn.parity import run

STEPS, BATCH, INPUTS, UNITS = 9, 3, 5, 6


def sequences(seed=2):
    """Steps that change slowly."""
    generator = torch.Generator().manual_seed(seed)
    return torch.cumsum(torch.randn(STEPS, BATCH, INPUTS, generator=generator) * 0.3, 0)


def network(**options):
    torch.manual_seed(3)
    return etalstm.nn.LSTM(INPUTS, UNITS, storage="ms1", **options)


def counted(one):
    """Give what a network keeps and computes in an iteration."""
    with counting() as usages:
        run(one, sequences())
    (usage,) = usages
    return usage.summary()


def test_the_bits_are_those_of_a_session():
    one = network(input_threshold=0.2, delta_threshold=0.05)
    found = run(one, sequences(), loss=lambda y, h, c: y.sum())
    w_ih, w_hh, b_ih, b_hh = (parameter.detach().numpy() for parameter in one.parameters())
    shape = TrainingShape(
        NetworkShape(INPUTS, UNITS),
        BATCH,
        STEPS,
        Execution(storage=Storage("ms1"), delta_inputs=DeltaInputs(0.2, refresh=0)),
    )
    with open_device("golden") as device:
        session = device.create(shape)
        session.load([LayerParameters(np.concatenate([w_ih, w_hh], axis=1), b_ih + b_hh)])
        outputs = session.forward(sequences().numpy())
        back = session.backward(np.ones(shape.y_shape, np.float32), delta_threshold=0.05)
        assert np.array_equal(found["y"].numpy(), outputs.y)
        assert np.array_equal(found["dx"].numpy(), back.dx)


def test_thresholds_leave_out_products():
    whole, sent, both = (
        counted(network(**options))
        for options in ({}, {"input_threshold": 0.2}, {"input_threshold": 0.2, "delta_threshold": 0.2})
    )
    assert sent["input_density"] < 0.7 < whole["input_density"]
    assert both["delta_density"] < 0.7 < sent["delta_density"]


def test_the_threshold_of_delta_may_change_between_iterations():
    one = network()
    before = run(one, sequences())
    one.delta_threshold = 0.2
    pruned = run(one, sequences())
    assert torch.equal(pruned["y"], before["y"]) and not torch.equal(pruned["dx"], before["dx"])
    assert copy.deepcopy(one).delta_threshold == 0.2
    one.delta_threshold = 0.0
    assert torch.equal(run(one, sequences())["dx"], before["dx"])
    with pytest.raises(ValueError, match="delta_threshold must be finite and at least 0, got -1"):
        one.delta_threshold = -1.0


def test_with_a_refresh_at_each_step_thresholds_do_nothing():
    parameters, state = [one.detach() for one in network().parameters()], torch.zeros(1, BATCH, UNITS)
    given = sequences(), state, state, *parameters, None, False, "golden"
    executions = [Execution(delta_inputs=DeltaInputs(*each)) for each in ((0, 1), (9, 1), (9, 0))]
    outputs = [torch.ops.etalstm.lstm_layer(*given, execution.text, 0.0)[0] for execution in executions]
    assert torch.equal(*outputs[:2]) and not torch.equal(*outputs[1:])


def test_float64_holds_what_was_last_sent():
    """The engine of gradient checks computes the same network as golden, to float32's rounding."""
    torch.manual_seed(3)
    golden = etalstm.nn.LSTM(INPUTS, UNITS, input_threshold=0.2)
    exact = etalstm.nn.LSTM(INPUTS, UNITS, input_threshold=0.2, engine="float64", dtype=torch.float64)
    exact.load_state_dict(golden.state_dict())
    expected = run(exact, sequences().double())
    for name, tensor in run(golden, sequences()).items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-4, atol=1e-5)
