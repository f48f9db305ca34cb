"""Programs of several slices give the golden trainer's bits, and hold few totals at once."""

from dataclasses import replace

import pytest

from etalstm.device import OffloadDevice, TrainingShape
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import PlanError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.slices import slice_ranges
from etalstm.network.storage import Storage
from etalstm.plan.memory.tiling import BatchTiles, gradient_arrays
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from tests.plan.hazards import Hazards
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

SMALL = TrainingShape(NetworkShape(3, 5, 2), 8, 4)
STREAMED = TrainingShape(NetworkShape(30, 33), 9, 3)
"""Its weights do not stay in the lanes, and its slices have several tiles."""


def interpreted():
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))


def assert_same(shape, slices, **run):
    return assert_same_training(interpreted(), shape.with_execution(slices=slices), iterations=2, seed=1, **run)


@pytest.mark.parametrize("slices", [2, 3, 5, 8])
@pytest.mark.parametrize("shape", [SMALL, STREAMED], ids=["small", "streamed"])
def test_slices_keep_golden_bits(shape, slices):
    assert_same(shape, slices)


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("policy", ["dense", "ms1", "ms1-bf16"])
def test_slices_keep_golden_bits_with_skipped_cells_and_every_storage(policy, masked):
    theta = 0.0 if policy == "dense" else (0.1, 0.05, 0.1, 0.1, 0.2, 0.3)
    assert_same(replace(SMALL.with_execution(storage=Storage(policy, theta)), masked=masked), 3, skip_cells=0.4)


def test_a_network_whose_cells_are_all_skipped_has_gradients_of_zero():
    session = assert_same(SMALL, 3, skip_cells=1.0)
    assert not any(gradient.weights.view("u4").any() for gradient in session.gradients())


def test_slices_keep_golden_bits_within_a_memory_budget():
    shape = STREAMED.with_execution(slices=3)
    whole = interpreted().create(shape).plan.memory_bytes
    session = assert_same(replace(shape, memory_budget=whole - 4096), 3)
    assert len(session.plan.map.stored.segments) > 1, "the plan is not divided"


def test_slices_keep_golden_bits_when_the_host_runs_the_forward_pass():
    device = OffloadDevice(interpreted())
    assert_same_training(device, replace(SMALL.with_execution(slices=3), masked=True), iterations=2, seed=2)


def test_tiles_of_a_batch_belong_to_one_slice_each():
    assert BatchTiles(7, 3).ranges == (range(0, 3), range(3, 6), range(6, 7))
    for batch in range(1, 20):
        for slices in range(1, batch + 1):
            tiles = BatchTiles(batch, 3, slices)
            assert [n for tile in tiles.ranges for n in tile] == list(range(batch))
            assert max(map(len, tiles.ranges)) == tiles.size <= 3
            ranges = slice_ranges(batch, slices)
            for number, tile in enumerate(tiles.ranges):
                assert set(tile) <= set(ranges[tiles.slice_of[number]])


def test_gradients_of_slices_take_no_memory_but_for_their_biases():
    plans = [Plan(preset("test"), SMALL.network, 8, 4, Execution(slices=slices)) for slices in (1, 8)]
    grown = [sum(a.vectors for a in plan.map.memory.arrays.values() if a.kind == "optimizer") for plan in plans]
    biases = sum(layer.bias.vectors for layer in plans[0].map.layers)
    assert grown[1] - grown[0] == 8 * biases


def test_the_totals_that_are_held_grow_with_the_logarithm_of_the_slices():
    assert [gradient_arrays(slices) for slices in (1, 2, 3, 4, 8, 16, 128)] == [1, 1, 1, 2, 3, 4, 7]


@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
def test_nothing_starts_before_what_it_needs_is_done(policy):
    for slices in (3, 8):
        execution = Execution(Storage(policy), slices=slices)
        plan = Plan(preset("test"), NetworkShape(8, 20, 2), 9, 14, execution, parts=4, masked=True)
        for program in plan.programs.values():
            assert Hazards(plan.config).check(program.words) >= len(program.words) // 2


def test_the_length_of_programs_does_not_depend_on_the_number_of_steps():
    sizes = [Plan(preset("test"), SMALL.network, 8, steps, Execution(slices=5)).program_bytes for steps in (20, 400)]
    assert sizes[0] == sizes[1]


def test_more_slices_than_can_be_arranged_are_refused():
    with pytest.raises(PlanError, match="scratch_depth is 256, and its bias gradients in 16 slices alone need 320 vec"):
        Plan(preset("test"), NetworkShape(3, 33), 16, 2, Execution(slices=16))
