"""Sessions go over to other delta inputs, with golden's bits and without new programs for new thresholds."""

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.errors import CallOrderError, PlanError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage

NETWORK = NetworkShape(5, 9, 2)
SHAPE = TrainingShape(NETWORK, 4, 5, Execution(storage=Storage("ms1", 0.026), slices=2), masked=True)
CHANGES = (
    DeltaInputs(0.1, 0),
    DeltaInputs(0.3, 0),
    DeltaInputs(0.3, 2),
    DeltaInputs(((0.1, 0.2), 0.05), 2),
    DeltaInputs(((0.2, 0.3), 0.1), 2),
    DeltaInputs(((0.3, 0.2), 0.1), 2),
    DeltaInputs(),
)
SAME_PROGRAMS = [1, 4]  # of the changes: those of thresholds' values, not of their order


def passes(device):
    """Train an iteration with each of the changes; give all tensors, and the changes that kept the plan."""
    session, outputs, kept = device.create(SHAPE), [], []
    session.load(initial_parameters(NETWORK, 1))
    generator = np.random.default_rng(2)
    for number, inputs in enumerate(CHANGES):
        plan = getattr(session, "plan", None)
        session.send_as(inputs)
        kept += [number] if getattr(session, "plan", None) is plan else []
        x, dy = (generator.standard_normal(size, np.float32) for size in (SHAPE.x_shape, SHAPE.y_shape))
        outputs.append(session.forward(0.2 * x, [5, 2, 3, 5]).y)
        outputs.append(session.backward(dy).dx)
        session.update(0.1, 0.9)
    weights = [entry.weights for entry in (*session.parameters(), *session.velocities())]
    return [array.view(np.uint32) for array in (*outputs, *weights)], kept


@pytest.fixture(scope="module")
def expected():
    return passes(open_device("golden"))[0]


@pytest.mark.parametrize("kind", ["whole", "in parts", "offloaded"])
def test_machines_have_the_bits_of_golden_and_plan_only_what_is_another_program(expected, monkeypatch, kind):
    if kind == "in parts":
        monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [2])
    with open_device("sim", "test") as machine:
        actual, kept = passes(OffloadDevice(machine) if kind == "offloaded" else machine)
    for number, (a, b) in enumerate(zip(expected, actual, strict=True)):
        np.testing.assert_array_equal(b, a, err_msg=f"tensor {number}")
    if kind == "whole":
        assert kept == SAME_PROGRAMS


def test_delta_inputs_are_changed_only_to_what_can_be():
    session = open_device("golden").create(SHAPE)
    for inputs, message in ((DeltaInputs((0.1,), 0), "one for each of 2 layers"), (0.1, "must be of type DeltaInputs")):
        with pytest.raises(ValueError, match=message):
            session.send_as(inputs)
    session.load(initial_parameters(NETWORK, 1))
    session.forward(np.zeros(SHAPE.x_shape, np.float32))
    session.send_as(DeltaInputs(0.1, 0))
    with pytest.raises(CallOrderError, match="forward"):
        session.backward(np.zeros(SHAPE.y_shape, np.float32))


def test_what_a_machine_has_no_parameters_for_changes_nothing():
    deep = NetworkShape(2, 3, 5)
    with open_device("sim", "test") as device:
        session = device.create(TrainingShape(deep, 2, 3))
        session.load(initial_parameters(deep, 1))
        with pytest.raises(PlanError, match="input thresholds, the network has"):
            session.send_as(DeltaInputs(tuple((n / 8, n / 9) for n in range(1, 6)), 0))
        assert session.shape.execution.delta_inputs.off and session.forward(np.ones((3, 2, 2), np.float32)).y.any()
