"""A batch that does not fit the memory is worked on in parts, with the bits of one that does."""

import gc
from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.machine.parts import PartedSession, shape_of_part
from etalstm.device.machine.session import HardwareSession
from etalstm.errors import DeviceError, PlanError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.slices import Parts
from etalstm.network.storage import Storage
from etalstm.plan.memory.stored import divide
from etalstm.plan.plan import Plan
from etalstm.train.folder import CHECKPOINT
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings
from etalstm_hw.config import preset
from etalstm_hw.contract import Traffic
from tests.plan.machine import MEMORY_BYTES, InterpretedAccelerator
from tests.training import assert_same_training

SHAPE = TrainingShape(NetworkShape(3, 5, 2), 8, 5, Execution(slices=4))
PRUNED = Storage("ms1-bf16", (0.1, 0.05, 0.1, 0.1, 0.2, 0.3))


def device_of(memory_bytes=MEMORY_BYTES):
    accelerator = InterpretedAccelerator(preset("test"))
    accelerator.transport.memory_bytes = memory_bytes
    return HardwareDevice("interpreter", "test", accelerator)


@pytest.fixture
def always(divide_batches):
    """Gives a machine that works on batches in so many parts."""

    def divide(count):
        divide_batches(count)
        return device_of()

    return divide


def assert_same_in_parts(device, shape, count, **run):
    session = assert_same_training(device, shape, iterations=2, seed=1, **run)
    assert session.memory()["parts"] == count
    return session


@pytest.mark.parametrize("count", [2, 4])
def test_parts_keep_golden_bits(always, count):
    assert_same_in_parts(always(count), SHAPE, count)


@pytest.mark.parametrize("storage", [Storage(), PRUNED], ids=lambda storage: storage.policy)
@pytest.mark.parametrize("slices", [3, 5])
def test_slices_of_unequal_size_keep_golden_bits_in_parts(always, slices, storage):
    shape = SHAPE.with_execution(slices=slices, storage=storage)
    assert_same_in_parts(always(slices), shape, slices, skip_cells=0.3)


def test_parts_of_masked_sequences_keep_golden_bits(always):
    assert_same_in_parts(always(2), replace(SHAPE.with_execution(slices=6), batch=7, masked=True), 2, loss="last")


@pytest.mark.parametrize("slices", [2, 3])
def test_parts_keep_golden_bits_when_the_host_runs_the_forward_pass(always, slices):
    shape = SHAPE.with_execution(slices=slices, storage=Storage("ms1", 0.1))
    assert_same_in_parts(OffloadDevice(always(slices)), shape, slices, skip_cells=0.3)


def test_parts_whose_cells_go_to_the_host_keep_golden_bits(always, monkeypatch):
    def in_three_segments(budget, make, groups):
        whole = make().map
        return make(segments=divide(whole.stored.needs(), whole.steps, 3))

    monkeypatch.setattr("etalstm.plan.choose.fit.plan_within", in_three_segments)
    shape = replace(SHAPE.with_execution(storage=PRUNED), log_share=1.0, memory_budget=1)
    session = assert_same_in_parts(always(2), shape, 2, skip_cells=0.2)
    memory = session.memory()
    assert memory["segments"] == 3 and memory["host"]["read"]["intermediates"] > 0


@pytest.mark.parametrize("slices", [4, 5])
def test_usage_and_contributions_of_parts_are_those_of_the_batch(always, slices):
    shape = SHAPE.with_execution(slices=slices, storage=Storage(("dense", "ms1"), 0.1))
    found = []
    for device in (open_device("golden"), always(slices)):
        session = device.create(shape)
        session.load(initial_parameters(shape.network, 1))
        generator = np.random.default_rng(1)
        skipped = generator.random((2, shape.steps)) < 0.2
        session.forward(generator.standard_normal(shape.x_shape, np.float32), skipped_cells=skipped)
        session.backward(generator.standard_normal(shape.y_shape, np.float32))
        found.append((session.usage(), session.contributions(), session.gradients()[0].weights))
    (usages, expected, gradient), (of_parts, contributions, kept) = found
    np.testing.assert_array_equal(contributions, expected)
    np.testing.assert_array_equal(kept, gradient, "contributions() has lost the gradients")
    for actual, wanted in zip(of_parts, usages, strict=True):
        assert actual.words >= wanted.words
        assert replace(actual, words=0, kept=()) == replace(wanted, words=0, kept=())
    assert of_parts[0].words == usages[0].words, "dense cells of empty places were counted"
    assert of_parts[1].kept == usages[1].kept


def test_contributions_that_cannot_be_read_leave_the_gradients(always, monkeypatch):
    def refuse(session):
        raise DeviceError("not kept")

    session = assert_same_in_parts(always(2), SHAPE, 2)
    generator = np.random.default_rng(1)
    session.forward(generator.standard_normal(SHAPE.x_shape, np.float32))
    norm = session.backward(generator.standard_normal(SHAPE.y_shape, np.float32)).norm
    before = session.gradients()
    monkeypatch.setattr(HardwareSession, "_factors", refuse)
    with pytest.raises(DeviceError, match="not kept"):
        session.contributions()
    for after, layer in zip(session.gradients(), before, strict=True):
        np.testing.assert_array_equal(after.weights, layer.weights)
        np.testing.assert_array_equal(after.bias, layer.bias)
    assert session._norm() == norm


def test_counters_of_parts_are_those_of_all_their_passes(always):
    whole = assert_same_training(device_of(), SHAPE, iterations=1, seed=1)
    parted = assert_same_training(always(4), SHAPE, iterations=1, seed=1)
    counts, expected = parted.counters(), whole.counters()
    assert counts["passes"].keys() == expected["passes"].keys() == {"forward", "backward", "update"}
    assert counts["read_bytes"]["weights"] > 2 * expected["read_bytes"]["weights"]
    written = [session.memory()["host"]["written"]["activations"] for session in (parted, whole)]
    assert written[0] > written[1], "only what was written for the last part counts"


def test_a_whole_run_in_parts_leaves_golden_checkpoint(always, tmp_path):
    settings = Settings(
        "digits", hidden=4, batch=16, slices=4, iterations=3, evaluation_batches=1, ms2=0.3, storage="ms1",
        theta=0.05, delta_target=0.4,
    )  # fmt: skip
    for name, device in (("golden", open_device("golden")), ("parts", always(2))):
        Trainer(settings, device, tmp_path / name).run()
    golden, parted = ((tmp_path / name / CHECKPOINT).read_bytes() for name in ("golden", "parts"))
    assert golden == parted


def needed(shape, count):
    """Bytes that a session takes if its batch is divided into so many parts."""
    part = shape_of_part(shape, Parts(shape.batch, shape.execution.slices, count))
    return Plan(preset("test"), part.network, part.batch, part.steps, part.execution, parts=count).memory_bytes


def test_a_batch_has_as_few_parts_as_fit_the_memory():
    shape = replace(SHAPE, steps=24)
    sizes = {count: needed(shape, count) for count in (1, 2, 4)}
    assert sizes[1] > sizes[2] > sizes[4]
    for count, size in sizes.items():
        session = device_of(size).create(shape)
        assert isinstance(session, PartedSession) == (count > 1)
        assert session.memory().get("parts", 1) == count
    with pytest.raises(PlanError, match=r"one of 4 slices does not fit: the network needs [\d,]+ bytes of memory"):
        device_of(sizes[4] - 4096).create(shape)


@pytest.mark.parametrize("count", [1, 2])
def test_a_session_that_is_dropped_leaves_its_memory(always, count):
    """At once, whatever it has done: nothing waits for the collector of reference cycles."""
    device = always(count)
    gc.disable()
    try:
        session = device.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 1))
        session.forward(np.zeros(SHAPE.x_shape, np.float32))
        session.backward(np.ones(SHAPE.y_shape, np.float32))
        assert len(device._sessions) == 1
        del session
        assert len(device._sessions) == 0
    finally:
        gc.enable()


def test_slices_for_a_memory_that_holds_no_whole_batch():
    shape = replace(SHAPE.with_execution(slices=1), steps=100)
    half = Plan(preset("test"), shape.network, 4, shape.steps, masked=True, parts=2).memory_bytes
    device = device_of(half)
    slices = device.best_slices(shape)
    assert device.create(shape.with_execution(slices=slices)).memory()["parts"] == slices == 2
    with pytest.raises(PlanError):
        device.create(shape)


def test_measuring_contributions_counts_all_that_it_runs(always):
    session = assert_same_in_parts(always(2), SHAPE, 2)
    generator = np.random.default_rng(1)
    session.forward(generator.standard_normal(SHAPE.x_shape, np.float32))
    session.backward(generator.standard_normal(SHAPE.y_shape, np.float32))
    before, plan = session.counters()["read_bytes"]["weights"], session._inner.plan
    session.contributions()
    added = session.counters()["read_bytes"]["weights"] - before
    names = ("keep 0", "restore 0", "forward", "backward", "backward")  # the forward pass of the last part is there
    assert added >= sum(plan.programs[name].volume.read_bytes[Traffic.WEIGHTS] for name in names)
