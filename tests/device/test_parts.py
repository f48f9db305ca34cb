"""A batch that does not fit the memory is worked on in parts, with the bits of one that does."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.hardware import HardwareDevice
from etalstm.device.parts import PartedSession, shape_of_part
from etalstm.errors import PlanError
from etalstm.hw.config import preset
from etalstm.network import NetworkShape, initial_parameters
from etalstm.plan.plan import Plan
from etalstm.slices import Parts
from etalstm.storage import Storage
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

SHAPE = TrainingShape(NetworkShape(3, 5, 2), 8, 12, slices=4)
PRUNED = Storage("ms1-bf16", (0.1, 0.05, 0.1, 0.1, 0.2, 0.3))


def needed(shape, count):
    """Bytes that a session takes if its batch is divided into so many parts."""
    part = shape_of_part(shape, Parts(shape.batch, shape.slices, count))
    more = {"masked": part.masked, "storage": part.storage, "slices": part.slices, "parts": count}
    return Plan(preset("test"), part.network, part.batch, part.steps, **more).memory_bytes


def interpreted():
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))


def small_device(shape, count):
    """A device that has just the memory for so many parts."""
    accelerator = InterpretedAccelerator(preset("test"))
    accelerator.transport.memory_bytes = needed(shape, count)
    return HardwareDevice("interpreter", "test", accelerator)


def assert_same_in_parts(shape, count, **run):
    device = small_device(shape, count)
    session = assert_same_training(device, shape, iterations=2, seed=1, **run)
    assert isinstance(session, PartedSession) and session.memory()["parts"] == count
    return session


@pytest.mark.parametrize("count", [2, 4])
def test_parts_keep_golden_bits(count):
    assert_same_in_parts(SHAPE, count)


@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
@pytest.mark.parametrize("slices", [3, 5])
def test_parts_of_slices_of_unequal_size_keep_golden_bits(slices, policy):
    storage = PRUNED if policy == "ms1-bf16" else Storage()
    assert_same_in_parts(replace(SHAPE, slices=slices, storage=storage), slices)


def test_parts_of_masked_sequences_keep_golden_bits():
    assert_same_in_parts(replace(SHAPE, batch=7, slices=6, masked=True), 2, loss="last")


@pytest.mark.parametrize("slices", [2, 3])
def test_parts_keep_golden_bits_when_the_host_runs_the_forward_pass(slices):
    shape = replace(SHAPE, slices=slices, storage=Storage("ms1", 0.1))
    device = OffloadDevice(small_device(shape, slices))
    session = assert_same_training(device, shape, iterations=2, seed=3)
    assert session.memory()["parts"] == slices


@pytest.mark.parametrize("slices", [4, 5])
def test_usage_and_contributions_of_parts_are_those_of_the_batch(slices):
    shape = replace(SHAPE, slices=slices, storage=Storage(("dense", "ms1"), 0.1))
    found = []
    for device in (open_device("golden"), small_device(shape, slices)):
        session = device.create(shape)
        session.load(initial_parameters(shape.network, 1))
        generator = np.random.default_rng(1)
        session.forward(generator.standard_normal(shape.x_shape, np.float32))
        session.backward(generator.standard_normal(shape.y_shape, np.float32))
        found.append((session.usage(), session.contributions(), session.gradients()[0].weights))
    (usages, expected, _), (of_parts, contributions, _) = found
    np.testing.assert_array_equal(contributions, expected)
    np.testing.assert_array_equal(found[1][2], found[0][2], "contributions() has lost the gradients")
    for actual, wanted in zip(of_parts, usages, strict=True):
        assert actual.words >= wanted.words
        assert replace(actual, words=0, kept=()) == replace(wanted, words=0, kept=())
    assert of_parts[0].words == usages[0].words, "dense cells of empty places were counted"
    assert of_parts[1].kept == usages[1].kept


def test_counters_of_parts_are_those_of_all_their_passes():
    device = small_device(SHAPE, 4)
    session = assert_same_training(device, SHAPE, iterations=1, seed=1)
    assert session.counters()["passes"].keys() == {"forward", "backward", "update"}
    of_part = interpreted().create(replace(SHAPE, batch=2, slices=1)).plan.traffic()["weights"]["read"]
    assert session.counters()["read_bytes"]["weights"] > 4 * of_part


def test_a_batch_is_refused_if_one_slice_does_not_fit():
    accelerator = InterpretedAccelerator(preset("test"))
    accelerator.transport.memory_bytes = needed(SHAPE, 4) - 4096
    with pytest.raises(PlanError, match=r"one of 4 slices .* needs [\d,]+ bytes of memory, the device has"):
        HardwareDevice("interpreter", "test", accelerator).create(SHAPE)
