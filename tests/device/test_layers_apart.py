"""A backward pass with a program for each layer gives the same bits, and each layer's gradients when it has them."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.memory.stored import divide
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset

NETWORK = NetworkShape(3, 9, 3)
APART = {"layers_apart": True}
PRUNED = Storage("ms1", 0.05)
SHAPES = {
    "dense": TrainingShape(NETWORK, 6, 4, **APART),
    "masked": TrainingShape(
        NETWORK, 6, 4, Execution(slices=2, storage=Storage("ms1-bf16", 0.05)), masked=True, **APART
    ),
    "mixed": TrainingShape(NETWORK, 6, 5, Execution(storage=Storage(("ms1", "dense", "ms1"), 0.05)), **APART),
    "small logs": TrainingShape(NETWORK, 6, 5, Execution(storage=PRUNED), log_share=0.05, **APART),
    "delta inputs": TrainingShape(NETWORK, 4, 4, Execution(storage=PRUNED, delta_inputs=DeltaInputs(0.1, 0)), **APART),
}


@pytest.fixture(scope="module")
def machine():
    with open_device("sim", "test", stall=0.3) as device:
        yield device


@pytest.fixture(scope="module")
def golden():
    with open_device("golden") as device:
        yield device


@pytest.mark.parametrize("what", SHAPES)
def test_gradients_come_layer_by_layer_and_once(machine, golden, what):
    shape, told = SHAPES[what], []
    session, expected = machine.create(shape), golden.create(shape)
    session.when_whole = lambda layer, gradients: told.append((layer, gradients))
    compressed, even = shape.execution.storage.compressed, "dense" not in shape.execution.storage.policy
    run = RandomRun(3, "per-step", 1, 0.3 if compressed else 0.0, 0.001 if compressed and even else 0.0)
    found = compare({"golden": expected, "sim": session}, shape, run)
    assert found.words and not found.mismatched_words, found
    assert [layer for layer, _ in told] == [2, 1, 0] * run.iterations
    assert bool(session.memory()["replays"]) == (what == "small logs")
    for (layer, early), late in zip(told[-3:], reversed(session.gradients()), strict=True):
        assert np.array_equal(early.weights, late.weights) and np.array_equal(early.bias, late.bias), layer


def test_all_of_delta_is_there_after_the_last_program(machine, golden):
    shape, found = SHAPES["masked"], []
    x = np.random.default_rng(0).standard_normal(shape.x_shape).astype(np.float32)
    for device in (golden, machine):
        session = device.create(shape)
        session.load(initial_parameters(NETWORK, 0))
        session.backward(session.forward(x).y)
        usage = [replace(layer, words=0) for layer in session.usage()]  # streams end with parts of words
        found.append((session.contributions(), usage))
    assert np.array_equal(found[0][0], found[1][0]) and found[0][1] == found[1][1]


def test_segments_have_programs_of_their_own():
    def names(layers, segments=None):
        plan = Plan(preset("test"), NetworkShape(3, 9, layers), 6, 4, layers_apart=True, segments=segments)
        return [name for name in plan.programs if name.startswith("backward")]

    assert names(2) == ["backward 0", "backward 1"]
    assert names(1) == ["backward"]
    assert names(2, divide([1, 1], 4, 4)) == [f"backward {number}" for number in range(4)]
