"""Programs that read weights as bfloat16, executed one instruction at a time, give the golden trainer's bits."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import PlanError
from etalstm.formats.codec import round_bf16
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import BF16, Execution
from etalstm.network.shape import LayerParameters, NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from etalstm_hw.contract import Traffic
from tests.network.cells.two_stages import TWO_STAGES
from tests.plan.hazards import Hazards
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

THETA = (0.1, 0.05, 0.1, 0.1, 0.2, 0.3)
SIZES = [(3, 5, 1, 2, 4), (8, 33, 2, 7, 5), (1, 1, 1, 1, 1), (17, 24, 3, 5, 6), (40, 70, 1, 9, 2)]


def interpreted(name="test", config=None):
    return HardwareDevice("interpreter", name, InterpretedAccelerator(config or preset(name)))


def narrow(network, batch, steps, masked=False, **choices):
    execution = Execution(weight_format=BF16, **choices)
    return TrainingShape(NetworkShape(*network), batch, steps, execution, masked=masked)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("name", "masked"), [("test", True), ("sim", False)])
def test_trains_with_the_bits_of_golden(name, sizes, masked):
    inputs, hidden, layers, batch, steps = sizes
    shape = narrow((inputs, hidden, layers), batch, steps, masked)
    assert_same_training(interpreted(name), shape, iterations=2, seed=1)


@pytest.mark.parametrize(("policy", "batch"), [("ms1", 1), ("ms1-bf16", 9), (("dense", "ms1"), 9)], ids=str)
def test_compressed_storage_and_skipped_cells_keep_golden_bits(policy, batch):
    shape = narrow((8, 70, 2), batch, 4, True, storage=Storage(policy, THETA))
    assert_same_training(interpreted(), shape, iterations=2, seed=3, skip_cells=0.4)


def test_rows_of_weights_without_delta_are_left_out():
    """Lanes keep NaN there, so nothing that reads them passes."""
    device = interpreted()
    shape = narrow((40, 140), 1, 3, storage=Storage("ms1", 0.2))
    assert_same_training(device, shape, iterations=2, seed=2, skip_cells=0.3)
    seen, left_out = device.accelerator.rows
    assert 0 < left_out < seen


@pytest.mark.parametrize("refresh", [0, 3])
def test_delta_inputs_keep_golden_bits(refresh):
    shape = narrow((9, 20, 2), 7, 6, storage=Storage("ms1-bf16", 0.1), delta_inputs=DeltaInputs(0.3, refresh))
    assert_same_training(interpreted(), shape, iterations=2, seed=4)


def test_the_host_runs_the_forward_pass_with_rounded_weights():
    shape = narrow((9, 20, 2), 7, 4, storage=Storage("ms1", 0.1))
    assert_same_training(OffloadDevice(interpreted()), shape, iterations=2, seed=5)


def test_cells_that_spill_keep_golden_bits():
    shape = narrow((9, 20, 2), 7, 24, storage=Storage("ms1", 0.1))
    whole = interpreted().create(shape).plan.memory_bytes
    session = assert_same_training(interpreted(), replace(shape, memory_budget=whole - 4096), iterations=1, seed=8)
    assert len(session.plan.map.stored.segments) > 1, "the plan is not divided"


def test_parts_of_a_batch_keep_golden_bits(monkeypatch):
    monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [2])
    shape = narrow((5, 19, 2), 12, 6, storage=Storage("ms1", 0.1), slices=4)
    assert assert_same_training(interpreted(), shape, iterations=2, seed=6).memory()["parts"] == 2


@pytest.mark.parametrize(("groups", "slices"), [(2, 2), (4, 8)])
@pytest.mark.parametrize("network", [(3, 5, 2), (30, 33, 1)], ids=str)
def test_groups_keep_golden_bits_and_have_a_shard_of_the_weights(monkeypatch, groups, slices, network):
    monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_: {groups: 1.0})
    config = replace(preset("test"), channels=4, broadcasters=4)
    session = assert_same_training(interpreted(config=config), narrow(network, 8, 4, slices=slices), 2, seed=1)
    assert session.plan.groups == groups
    for layer in session.plan.map.layers:
        assert layer.weights.vectors == layer.velocity.vectors < layer.tiling.rows * layer.tiling.columns
        for array in (layer.columns, layer.rows):
            first, *others = session.windows.read_words(array).view(np.uint32).reshape(groups, -1)
            assert first.any() and all(np.array_equal(words, first) for words in others), array.name


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("sizes", [((8, 33, 2), 8, 14), ((40, 70, 1), 2, 12)], ids=str)
def test_nothing_starts_before_what_it_needs_is_done(sizes, groups):
    network, batch, steps = sizes
    execution = Execution(Storage("ms1-bf16"), slices=groups, weight_format=BF16)
    plan = Plan(preset("test"), NetworkShape(*network), batch, steps, execution, groups=groups)
    for program in plan.programs.values():
        assert Hazards(plan.config, groups).check(program.words) >= len(program.words) // 2


def test_copies_take_half_and_the_weights_stay_float32():
    network = NetworkShape(16, 64, 2)
    plans = {name: Plan(preset("test"), network, 4, 3, Execution(weight_format=name)) for name in ("float32", BF16)}
    for wide, half in zip(*(plan.map.layers for plan in plans.values()), strict=True):
        assert 2 * half.rows.vectors == wide.rows.vectors and 2 * half.columns.vectors == wide.columns.vectors
        assert half.weights.vectors == wide.weights.vectors
        assert wide.weights is wide.columns


def test_twice_the_weights_stay_in_the_lanes():
    """The forward pass of float32 loads them in each of the steps, that of bfloat16 once."""
    network, steps = NetworkShape(24, 16), 12
    wide, half = (
        Plan(preset("test"), network, 4, steps, Execution(weight_format=name)).programs["forward"].volume.read_bytes
        for name in ("float32", BF16)
    )
    assert half[Traffic.WEIGHTS] < wide[Traffic.WEIGHTS] / steps


def test_the_host_reads_back_the_weights_and_not_the_copies():
    shape = narrow((3, 5), 2, 2)
    session = interpreted().create(shape)
    parameters = initial_parameters(shape.network, 1)
    session.load(parameters)
    (layer,) = session.plan.map.layers
    (back,) = session.parameters()
    np.testing.assert_array_equal(back.weights, parameters[0].weights)
    for array in (layer.rows, layer.columns):
        np.testing.assert_array_equal(session.windows.read(array), round_bf16(parameters[0].weights))


def test_a_weight_beyond_bfloat16_is_infinite_in_every_pass():
    shape = narrow((1, 1), 1, 1)
    weights = np.full((4, 2), np.finfo(np.float32).max, np.float32)
    session = interpreted().create(shape)
    session.load([LayerParameters(weights, np.zeros(4, np.float32))])
    assert np.isposinf(session.windows.read(session.plan.map.layers[0].rows)).all()
    np.testing.assert_array_equal(session.parameters()[0].weights, weights)


def test_refuses_a_cell_whose_rows_make_no_pairs():
    with pytest.raises(PlanError, match="products of 2 or 4 gates, two stages has"):
        Plan(preset("test"), NetworkShape(3, 5), 2, 2, Execution(weight_format=BF16), cell=TWO_STAGES)


def test_refuses_another_weight_format():
    with pytest.raises(ValueError, match="weight_format must be one of float32, bf16, got 'fp8'"):
        TrainingShape(NetworkShape(3, 5), 2, 2, Execution(weight_format="fp8"))
