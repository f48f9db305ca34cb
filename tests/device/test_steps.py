"""Passes of fewer steps than their session was made for: the bits, the memory and the work of a session of so many."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.machine.parts import PartedSession
from etalstm.errors import StreamError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.memory.stored import divide
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator
from tests.training import with_changes

MOST = 12
SHAPE = TrainingShape(NetworkShape(3, 5, 2), 6, MOST, masked=True)
COUNTS = (4, 12, 1, 11, 2, 4)  # 9 steps at most have their xh resident in the gradient's program
CHOICES = {
    "dense": {},
    "unmasked": {"masked": False},
    "mixed": {"storage": Storage(("ms1-bf16", "dense"), 0.05)},
    "compressed": {"storage": Storage("ms1", 0.05), "slices": 3},
    "delta inputs": {"delta_inputs": DeltaInputs((0.5, 0.1), 3), "storage": Storage("ms1")},
    "bf16": {"weight_format": "bf16"},
    "shared tokens": {"shared_tokens": 5},
}


def interpreted(early=True):
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test"), early))


def assert_same(session, shape, counts=COUNTS, skip_cells=0.0, **run):
    """A session of `shape` trains with fewer steps as golden sessions do that are made for so many."""
    for number, steps in enumerate(counts):
        fewer = replace(shape, steps=steps)
        sessions = {"golden": open_device("golden").create(fewer), "this": session}
        found = compare(sessions, fewer, RandomRun(2, "per-step", number, skip_cells, **run))
        assert found.first_mismatch is None and found.words, f"{steps} steps: {found.first_mismatch}"
        expected, usages = (
            [(u.real, u.elements, u.cells, u.skipped, u.delta_kept, u.products) for u in session.usage()]
            for session in sessions.values()
        )
        assert usages == expected, f"{steps} steps"


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
def test_passes_of_fewer_steps_have_golden_bits(choices):
    shape = with_changes(SHAPE, **choices)
    for open_it in (lambda: open_device("golden"), interpreted):
        assert_same(open_it().create(shape), shape)


@pytest.mark.parametrize("storage", [Storage(), Storage("ms1", 0.05)], ids=lambda storage: storage.policy)
def test_passes_of_fewer_steps_that_skip_cells_have_golden_bits(storage):
    shape = SHAPE.with_execution(storage=storage)
    assert_same(interpreted().create(shape), shape, skip_cells=0.4)


def test_a_log_that_is_too_small_for_fewer_steps_grows():
    shape = replace(SHAPE.with_execution(storage=Storage("ms1", 0.05)), log_share=0.05)
    session = interpreted().create(shape)
    assert_same(session, shape, (4, 2, 12, 4))
    assert session.memory()["replays"] > 1


@pytest.mark.parametrize("early", [True, False], ids=["transfers last", "transfers first"])
@pytest.mark.parametrize("storage", [Storage(), Storage("ms1", 0.05)], ids=lambda storage: storage.policy)
def test_segments_of_which_some_have_no_steps_keep_golden_bits(monkeypatch, storage, early):
    def in_three_segments(budget, make, groups):
        whole = make().map
        return make(segments=divide(whole.stored.needs(), whole.steps, 3))

    monkeypatch.setattr("etalstm.plan.choose.fit.plan_within", in_three_segments)
    shape = replace(SHAPE.with_execution(storage=storage), memory_budget=1 << 24, log_share=1.0)
    session = interpreted(early=early).create(shape)
    assert_same(session, shape, skip_cells=0.2)
    assert session.memory()["segments"] == 3


def test_parts_pass_fewer_steps_on(monkeypatch):
    monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [3])
    shape = SHAPE.with_execution(slices=3, storage=Storage(("ms1", "dense"), 0.05))
    session = interpreted().create(shape)
    assert isinstance(session, PartedSession)
    assert_same(session, shape, skip_cells=0.2)


def test_groups_of_channels_keep_golden_bits(monkeypatch):
    monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_: {2: 1.0})
    shape = replace(SHAPE.with_execution(slices=2, storage=Storage("ms1", 0.05)), batch=7)
    session = interpreted().create(shape)
    assert session.plan.groups == 2
    assert_same(session, shape, skip_cells=0.2)


@pytest.mark.parametrize("choices", [{}, {"delta_inputs": DeltaInputs(0.1, 3)}], ids=["everything", "delta inputs"])
def test_the_host_may_run_the_forward_pass(choices):
    shape = with_changes(SHAPE.with_execution(storage=Storage("ms1", 0.05)), **choices)
    assert_same(OffloadDevice(interpreted()).create(shape), shape, skip_cells=0.2)


def test_streams_of_another_number_of_steps_are_refused():
    shape = SHAPE.with_execution(storage=Storage("ms1"))
    session = interpreted().create(shape)
    session.load(initial_parameters(shape.network, 1))
    local = [np.ones((6, 4, shape.batch, 5), np.float32)] * 2
    streams = list(session.encode(local))
    for steps in (5, 4):
        x, h = np.ones((steps, shape.batch, 3), np.float32), np.ones((2, steps + 1, shape.batch, 5), np.float32)
        if steps == 5:
            with pytest.raises(StreamError, match="another network"):
                session.load_intermediates(x, h, streams)
        else:
            session.load_intermediates(x, h, streams)


def test_contributions_are_those_of_fewer_steps():
    shape = SHAPE.with_execution(storage=Storage(("ms1", "dense")))
    fewer, found = replace(shape, steps=5), []
    for session in (open_device("golden").create(fewer), interpreted().create(shape)):
        session.load(initial_parameters(shape.network, 1))
        for steps in (5,) if session.shape == fewer else (MOST, 5):
            size = steps, shape.batch
            session.forward(np.ones((*size, 3), np.float32), [2, 5, 1, 5, 4, 3])
            session.backward(np.ones((*size, 5), np.float32))
        found.append(session.contributions())
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (2, 5, shape.batch)


def run_steps(session, *counts):
    """Train a batch of each number of steps."""
    shape = session.shape
    for steps in counts:
        session.forward(np.ones((steps, shape.batch, shape.network.input_size), np.float32))
        session.backward(np.ones((steps, shape.batch, shape.network.hidden_size), np.float32))
        session.update(0.1)


def watched(device):
    """Has the addresses of all writes to a device's memory noted."""
    written, write = [], device.accelerator.transport.write_memory

    def note(address, values):
        written.append(address)
        write(address, values)

    device.accelerator.transport.write_memory = note
    return written


def test_nothing_moves_when_the_number_of_steps_changes():
    device = interpreted()
    session = device.create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 1))
    plan, placement = session.plan, session.placement
    run_steps(session, MOST, 4, 1)
    written = watched(device)
    run_steps(session, 4, MOST, 1, 4)
    assert session.plan is plan and session.placement is placement
    weights = {array.first for layer in plan.map.layers for array in (*layer.matrices, layer.velocity, layer.bias)}
    size = plan.map.memory.vector_bytes
    assert not {placement.window(0).start + first * size for first in weights} & {*written}, "weights were written"
    assert not any(address >= placement.programs for address in written), "programs were written again"


def test_programs_of_each_number_of_steps_have_memory_that_nobody_else_uses():
    device = interpreted()
    session, neighbour = device.create(SHAPE), device.create(SHAPE)
    for each in (session, neighbour):
        each.load(initial_parameters(SHAPE.network, 1))
    for steps in (1, 4, 5):
        run_steps(session, steps)
        run_steps(neighbour, steps + 1)
    used = sorted((part for each in (session, neighbour) for part in each.addresses), key=lambda part: part.start)
    assert len(used) == 2 * (preset("test").channels + 1 + 3)
    assert all(before.stop <= after.start for before, after in pairwise(used))
    third = device.create(SHAPE)
    assert not any(range(max(a.start, b.start), min(a.stop, b.stop)) for a in third.addresses for b in used)


def test_without_memory_beside_the_plan_its_programs_give_way():
    device = interpreted()
    device._find = lambda size_bytes: None
    session = device.create(SHAPE)
    assert_same(session, SHAPE)
    assert session.addresses == session.placement.parts


def test_programs_beside_the_plan_are_told():
    session = interpreted().create(SHAPE)
    before = session.memory()["reserved"]
    run_steps_loaded(session, 1, 4)
    after = session.memory()["reserved"]
    assert after["program"] > before["program"] and after | {"program": 0} == before | {"program": 0}


def test_programs_beside_the_plan_keep_within_the_memory_budget():
    whole = interpreted().create(SHAPE)
    run_steps_loaded(whole, 4)
    budget = whole.plan.memory_bytes + whole.memory()["reserved"]["program"] - whole.plan.program_bytes
    shape = replace(SHAPE, memory_budget=budget)
    session = interpreted().create(shape)
    run_steps_loaded(session, 4, 1, 3, 4)
    assert session.plan.memory_bytes == whole.plan.memory_bytes
    beside = sum(map(len, session.addresses[len(session.placement.parts) :]))
    assert 0 < beside <= budget - session.plan.memory_bytes


def run_steps_loaded(session, *counts):
    session.load(initial_parameters(session.shape.network, 1))
    run_steps(session, *counts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.forward(np.ones((13, 6, 3), np.float32)), r"x must have shape \(12, 6, 3\), got \(13, 6, 3\)"),
        (lambda s: s.forward(np.ones((0, 6, 3), np.float32)), r"x must have shape \(12, 6, 3\), got \(0, 6, 3\)"),
        (lambda s: s.forward(np.ones((4, 6, 3), np.float32), [4, 5, 1, 1, 1, 1]), "1 to 4, got 5 at index 1"),
        (
            lambda s: s.forward(np.ones((4, 6, 3), np.float32), skipped_cells=np.zeros((2, 12), bool)),
            r"skipped_cells must be an array of bool of shape \(2, 4\)",
        ),
        (
            lambda s: (s.forward(np.ones((4, 6, 3), np.float32)), s.backward(np.ones((12, 6, 5), np.float32))),
            r"dy must have shape \(4, 6, 5\), got \(12, 6, 5\)",
        ),
    ],
    ids=["more", "none", "lengths", "skipped", "dy"],
)
def test_other_numbers_of_steps_are_refused(call, message):
    session = open_device("golden").create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 1))
    with pytest.raises(ValueError, match=message):
        call(session)


@pytest.mark.parametrize("storage", [Storage(), Storage("ms1", 0.05)], ids=lambda storage: storage.policy)
def test_a_pass_of_fewer_steps_takes_the_cycles_of_a_session_of_so_many(storage):
    """And the bytes: but for the places of the arrays nothing differs."""
    shape, counters = SHAPE.with_execution(storage=storage), []
    with open_device("sim", "test") as device:
        for most in (MOST, 5):
            session = device.create(replace(shape, steps=most))
            for steps in (most, 5):
                run_steps_loaded(session, steps)
            counters.append(session.counters())
    longer, short = counters
    assert longer["read_bytes"] == short["read_bytes"] and longer["write_bytes"] == short["write_bytes"]
    assert longer["cycles"] == pytest.approx(short["cycles"], rel=0.01)
