"""Groups of channels that work on parts of a batch at once leave the golden trainer's bits."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.comparison import RandomRun, training_run
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.slices import Parts
from etalstm.network.storage import Storage
from etalstm.plan.choose.fit import group_costs, plan_best_slices, plan_whole, step_cycles
from etalstm.plan.memory.stored import divide
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode
from tests.plan.groups import assert_same, grouped_device
from tests.plan.hazards import Hazards
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

TWO = preset("test")
FOUR = replace(TWO, channels=4, broadcasters=4)
SHAPE = TrainingShape(NetworkShape(3, 5, 2), 8, 4)


@pytest.fixture
def grouped(monkeypatch):
    return lambda groups, config=TWO: grouped_device(monkeypatch, "test", config, groups)


@pytest.mark.parametrize(("groups", "slices"), [(2, 2), (2, 8), (4, 4), (4, 8), (2, 6)])
def test_groups_keep_golden_bits(grouped, groups, slices):
    assert_same(grouped(groups, FOUR), SHAPE.with_execution(slices=slices), groups)


def test_every_group_has_all_updated_weights(grouped):
    session = assert_same(grouped(4, FOUR), SHAPE.with_execution(slices=4), 4)
    for layer in session.plan.map.layers:
        for array in (layer.columns, layer.rows, layer.bias):
            first, *others = session.windows.read_words(array).view(np.uint32).reshape(4, -1)
            assert first.any() and all(np.array_equal(words, first) for words in others), array.name


def test_more_groups_than_rows_keep_golden_bits(grouped):
    config, shape = (
        replace(FOUR, channels=6, broadcasters=6),
        TrainingShape(NetworkShape(2, 1), 6, 2, Execution(slices=6)),
    )
    session = assert_same(grouped(6, config), shape, 6)
    assert session.plan.map.layers[0].shards.stride == 0


def test_groups_of_weights_that_do_not_stay_in_the_lanes_keep_golden_bits(grouped):
    shape = TrainingShape(NetworkShape(30, 33), 9, 3, Execution(slices=2, storage=Storage("ms1", 0.2)))
    session = assert_same(grouped(2), shape, 2)
    assert session.counters()["spared_bytes"]["weights"] > 0, "no row was left out"


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("policy", ["dense", "ms1", "ms1-bf16"])
@pytest.mark.parametrize(("groups", "batch"), [(2, 7), (3, 8)])
def test_places_without_a_sequence_keep_golden_bits(grouped, groups, batch, policy, masked):
    theta = 0.0 if policy == "dense" else (0.1, 0.05, 0.1, 0.1, 0.2, 0.3)
    shape = replace(SHAPE.with_execution(slices=groups, storage=Storage(policy, theta)), batch=batch, masked=masked)
    config = replace(FOUR, channels=6, broadcasters=3)
    session = assert_same(grouped(groups, config), shape, groups, skip_cells=0.4)
    assert not session.plan.map.division.full


def test_groups_keep_golden_bits_when_cells_go_to_the_host_and_back(grouped, monkeypatch):
    def in_three_segments(budget, make, groups):
        make = partial(make, groups=groups[0])
        whole = make().map
        return make(segments=divide(whole.stored.needs(), whole.steps, 3))

    monkeypatch.setattr("etalstm.plan.choose.fit.plan_within", in_three_segments)
    shape = replace(SHAPE.with_execution(slices=2, storage=Storage("ms1")), batch=7, memory_budget=1)
    session = assert_same(grouped(2), shape, 2, skip_cells=0.2)
    assert session.memory()["segments"] == 3 and session.memory()["host"]["read"]["intermediates"] > 0


def test_groups_keep_golden_bits_when_the_host_runs_the_forward_pass(grouped):
    device = OffloadDevice(grouped(2))
    shape = replace(SHAPE.with_execution(slices=2, storage=Storage("ms1-bf16", 0.1)), batch=7)
    assert_same_training(device, shape, iterations=2, seed=2, skip_cells=0.3)


def test_groups_keep_golden_bits_in_parts_that_follow_one_another(grouped, monkeypatch):
    monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [2])
    session = assert_same_training(grouped(2), SHAPE.with_execution(slices=4), iterations=2, seed=3)
    assert session.memory()["parts"] == 2 and session._inner.plan.groups == 2


def test_a_log_that_is_full_is_planned_again_with_groups(grouped):
    shape = replace(SHAPE.with_execution(slices=2, storage=Storage("ms1")), log_share=0.2)
    assert assert_same(grouped(2), shape, 2).memory()["replays"] > 0


@pytest.mark.parametrize("storage", [Storage(), Storage("ms1", 0.1)], ids=lambda storage: storage.policy)
def test_usage_and_contributions_count_the_sequences_of_all_groups(grouped, storage):
    shape, found = replace(SHAPE.with_execution(slices=2, storage=storage), batch=7), []
    for device in (open_device("golden"), grouped(2)):
        session = device.create(shape)
        session.update = lambda *arguments: None  # after an update nothing is measured
        for _ in training_run(session, shape, RandomRun(1, "per-step", 5, 0.3)):
            pass
        found.append((session.usage(), session.contributions()))
    (golden, expected), (machine, contributions) = found
    np.testing.assert_array_equal(contributions, expected)
    for actual, wanted in zip(machine, golden, strict=True):
        assert actual.words >= wanted.words
        assert replace(actual, words=0, kept=()) == replace(wanted, words=0, kept=())
        assert actual.kept == wanted.kept or not storage.layer(0).compressed


@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
@pytest.mark.parametrize(
    "sizes", [(8, 20, 3), (3, 4, 3), (90, 4, 2)], ids=["several column spans", "one column span", "many inputs"]
)
def test_no_group_reads_or_overwrites_what_another_needs(sizes, policy):
    for groups in (2, 4):
        execution = Execution(Storage(policy), slices=4)
        plan = Plan(FOUR, NetworkShape(*sizes), 10, 14, execution, groups=groups, parts=2)
        skipped = np.zeros((sizes[2], 14), bool)
        skipped[1] = True  # nothing is broadcast between the gradients of its neighbours
        for program in [*plan.programs.values(), *plan.named(*plan.passes(skipped)).values()]:
            assert Hazards(plan.config, groups).check(program.words) >= len(program.words) // 2


def test_a_session_takes_the_fastest_groups_that_fit():
    shape = TrainingShape(NetworkShape(33, 33), 8, 2, Execution(slices=8))
    counts = list(group_costs(FOUR, shape.network, 8, 8))
    assert counts == [4, 2, 1]
    for fits in counts:
        memory = Plan(FOUR, shape.network, 8, 2, Execution(slices=8), groups=fits).memory_bytes
        accelerator = InterpretedAccelerator(FOUR)
        accelerator.transport.memory_bytes = memory
        assert HardwareDevice("interpreter", "test", accelerator).create(shape).plan.groups == fits


def test_narrow_networks_have_as_many_slices_as_the_fastest_groups():
    device = HardwareDevice("interpreter", "test", InterpretedAccelerator(FOUR))
    assert device.best_slices(replace(SHAPE, network=NetworkShape(4, 4))) == 4
    assert device.best_slices(replace(SHAPE, network=NetworkShape(16, 16))) == 1
    assert device.best_slices(replace(SHAPE, network=NetworkShape(4, 4), batch=1)) == 1


def test_slices_are_as_many_as_groups_fit_the_memory():
    shape = TrainingShape(NetworkShape(17, 17), 8, 2)
    sizes = [Plan(FOUR, shape.network, 8, 2, Execution(slices=count), groups=count).memory_bytes for count in (4, 2, 1)]
    assert sizes == sorted(sizes, reverse=True)
    for memory, slices in [*zip(sizes, (4, 2, 1), strict=True), (4096, 1)]:
        accelerator = InterpretedAccelerator(FOUR)
        accelerator.transport.memory_bytes = memory
        assert HardwareDevice("interpreter", "test", accelerator).best_slices(shape) == slices


def test_more_groups_with_one_layers_delta_come_before_fewer_with_all():
    network = NetworkShape(33, 33, 2)

    def make(slices):
        return partial(Plan, FOUR, network, 8, 20, Execution(Storage("ms1"), slices=slices))

    memory = make(4)(groups=4).memory_bytes - 1
    assert memory > make(4)(groups=2).memory_bytes, "fewer groups do not fit with all δ"

    def plan(slices, groups):
        return plan_whole(memory, make(slices), groups)

    for found in (plan(4, [4, 2, 1]), plan_best_slices(FOUR, network, 8, plan)):
        assert found.groups == 4 and not found.map.stored.every_delta


def test_lanes_without_units_and_places_without_sequences_cost_cycles():
    network = NetworkShape(16, 16)
    for groups, expected in ((1, 8 * 4 * 96), (2, 4 * 4 * 2 * 96), (4, 2 * 4 * 4 * 96)):
        assert step_cycles(FOUR, network, Parts(8, 4, groups)) == expected
    assert step_cycles(FOUR, network, Parts(5, 4, 4)) == step_cycles(FOUR, network, Parts(8, 4, 4))


def test_few_sequences_wait_for_weights_that_do_not_stay_in_the_lanes():
    """A vector of weights takes the shared port two cycles: as long as two MACs."""
    config = replace(FOUR, channels_per_port=2)
    wide, narrow = NetworkShape(320, 320), NetworkShape(4, 4)
    assert step_cycles(config, wide, Parts(4, 4, 4)) * 3 == 5 * step_cycles(FOUR, wide, Parts(4, 4, 4))
    assert step_cycles(config, narrow, Parts(4, 4, 4)) == step_cycles(FOUR, narrow, Parts(4, 4, 4))


def test_squares_of_several_beats_keep_golden_bits(grouped):
    """The last square of a channel is a part of a tile."""
    config = replace(TWO, lanes=16, scratch_depth=1024)
    shape = replace(SHAPE.with_execution(slices=2), network=NetworkShape(7, 41), steps=2)
    session = assert_same(grouped(2, config), shape, 2)
    steps = walk(session.plan.programs["update"].words)
    rows = {step.fields["rows"] for step in steps if step.opcode == Opcode.TRANSPOSE}
    assert max(rows) == 16 and min(rows) % config.beat_words, f"squares of {rows} rows"


def test_norms_that_groups_share_keep_golden_bits(grouped):
    shape = replace(SHAPE.with_execution(slices=4), network=NetworkShape(22, 21), steps=2)
    shards = assert_same(grouped(4, FOUR), shape, 4).plan.map.layers[0].shards
    assert len(shards.normed) < len(shards.columns), "every group sums all norms"
