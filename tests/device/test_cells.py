"""Sessions of a network whose cell is no LSTM: the machine gives golden's bits, and what cannot be is refused."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import LayerParameters, NetworkShape, check_parameters, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import PRESETS
from tests.training import assert_same_training, with_changes

NETWORK = NetworkShape(7, 19, 2, "hlstm")
SHAPE = TrainingShape(NETWORK, 5, 4)


@pytest.fixture(scope="module")
def machine():
    with open_device("sim", "test", stall=0.5) as device:
        yield device


@pytest.mark.parametrize(
    ("options", "run"),
    [
        ({"masked": True}, {}),
        ({"storage": Storage("ms1", 0.02), "slices": 2}, {"delta_threshold": 0.02}),
        ({"storage": Storage("ms1-bf16", 0.02), "masked": True}, {"skip_cells": 0.3}),
        ({"storage": Storage(("dense", "ms1"), 0.02), "slices": 4}, {"skip_cells": 0.3}),
        ({"architecture": ARCHITECTURES["dynamic"]}, {}),
    ],
    ids=["dense", "ms1 in slices", "ms1-bf16 skipping", "mixed", "dynamic"],
)
def test_the_machine_trains_an_hlstm_with_goldens_bits(machine, options, run):
    assert_same_training(machine, with_changes(SHAPE, **options), 2, 3, **run)


def test_parts_of_a_batch_are_worked_on_one_after_the_other():
    shape = replace(SHAPE.with_execution(slices=4), batch=8, steps=8)
    plans = {
        n: Plan(PRESETS["test"], NETWORK, 8 // n, 8, Execution(slices=4 // n), parts=n, every_delta=False)
        for n in (1, 2)
    }
    memory = {n: plan.memory_bytes for n, plan in plans.items()}
    with open_device("sim", "test", memory_bytes=(memory[1] + memory[2]) // 2) as device:
        session = assert_same_training(device, shape, 1, 3)
        assert session.memory()["parts"] > 1


def test_counts_are_those_of_golden(machine):
    shape, counted = replace(SHAPE.with_execution(storage=Storage("ms1", 0.05)), masked=True), []
    for device in (open_device("golden"), machine):
        session, generator = device.create(shape), np.random.default_rng(1)
        session.load(initial_parameters(NETWORK, 2))
        y = session.forward(generator.standard_normal(shape.x_shape, np.float32), [4, 2, 1, 4, 3]).y
        session.backward(y)
        session.scrub()
        counted.append([replace(usage, words=0) for usage in session.usage()])  # the machine fills beats up
    assert counted[0] == counted[1]
    assert 0.3 < counted[0][0].input_density < 0.9  # ReLU leaves zeros


def test_the_matrices_of_a_network_have_names_and_sizes():
    assert [(m.name, m.gates, m.rows, m.columns) for m in NETWORK.matrices[:2]] == [
        ("layer 0, v_i, v_f, v_g, v_o", 4, 76, 26),
        ("layer 0, i", 1, 19, 19),
    ]
    assert len(NETWORK.matrices) == 10
    assert NETWORK.weights() == sum(entry.weights.size for entry in initial_parameters(NETWORK, 0))


def test_refuses_parameters_of_another_cell():
    parameters = initial_parameters(NETWORK, 0)
    with pytest.raises(ValueError, match="must have 10 matrices, of 2 layers, got 2"):
        check_parameters(NETWORK, initial_parameters(replace(NETWORK, cell="lstm"), 0))
    parameters[1] = LayerParameters(np.zeros((20, 20), np.float32), np.zeros(20, np.float32), 1)
    with pytest.raises(ValueError, match=r"weights of layer 0, i in parameters must have shape \(19, 19\)"):
        check_parameters(NETWORK, parameters)


@pytest.mark.parametrize(
    ("refused", "named"),
    [
        (lambda: NetworkShape(3, 4, cell="gru"), "cell must be one of lstm, hlstm, got 'gru'"),
        (
            lambda: SHAPE.with_execution(delta_inputs=DeltaInputs(0.1, 4)),
            "delta inputs: only for cell lstm, got cell hlstm",
        ),
        (lambda: SHAPE.with_execution(weight_format="bf16"), "weights in bf16: only for"),
        (lambda: SHAPE.with_execution(shared_tokens=4), "shared tokens: only for"),
        (lambda: replace(SHAPE, layers_apart=True), "layers_apart.*: only for"),
        (lambda: OffloadDevice(open_device("golden")).create(SHAPE), "offload.*: only for"),
        (lambda: backward().contributions(), "contributions of cells: only for"),
    ],
)
def test_refuses_what_only_an_lstm_can_do(refused, named):
    with pytest.raises(ValueError, match=named):
        refused()


def backward():
    """Give a session on golden after a backward pass."""
    session = open_device("golden").create(SHAPE)
    session.load(initial_parameters(NETWORK, 2))
    session.backward(session.forward(np.ones(SHAPE.x_shape, np.float32)).y)
    return session
