"""Planned programs, executed one instruction at a time, give the golden trainer's bits."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.comparison import RandomRun, training_run
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import PlanError
from etalstm.golden import arithmetic
from etalstm.model.measured import plan_modelled
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.passes.weights import needed_scale
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw import contract
from etalstm_hw.config import PRESETS, preset
from etalstm_hw.contract import Memory, Opcode
from tests.plan.machine import InterpretedAccelerator
from tests.training import arithmetic_of, assert_same_training

SIZES = [(3, 5, 1, 2, 4), (8, 33, 2, 7, 5), (1, 1, 1, 1, 1), (16, 24, 3, 5, 6)]


def interpreted(name):
    return HardwareDevice("interpreter", name, InterpretedAccelerator(preset(name)))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", ["test", "sim"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_trains_with_the_bits_of_golden(name, sizes, masked):
    inputs, hidden, layers, batch, steps = sizes
    shape = TrainingShape(NetworkShape(inputs, hidden, layers), batch, steps, masked=masked)
    assert_same_training(interpreted(name), shape, iterations=2, seed=1)


@pytest.mark.parametrize("sizes", [(3, 5, 1, 2, 4), (8, 33, 2, 7, 5)], ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("policy", ["ms1", "ms1-bf16", ("dense", "ms1")], ids=str)
def test_compressed_storage_and_skipped_cells_keep_golden_bits(policy, sizes, masked):
    inputs, hidden, layers, batch, steps = sizes
    if not isinstance(policy, str) and layers == 1:
        policy = policy[1:]
    network = NetworkShape(inputs, hidden, layers)
    shape = TrainingShape(
        network, batch, steps, Execution(storage=Storage(policy, (0.1, 0.05, 0.1, 0.1, 0.2, 0.3))), masked=masked
    )
    assert_same_training(interpreted("test"), shape, iterations=2, seed=3, skip_cells=0.4)


def test_dense_storage_skips_cells():
    shape = TrainingShape(NetworkShape(3, 5, 2), 3, 4)
    assert_same_training(interpreted("test"), shape, iterations=3, seed=4, skip_cells=0.5)


def test_usage_is_golden_apart_from_the_masks_of_padding_lanes():
    shape = TrainingShape(NetworkShape(3, 5, 2), 3, 4, Execution(storage=Storage("ms1", 0.1)), masked=True)
    usages = []
    for device in (open_device("golden"), interpreted("test")):
        session = device.create(shape)
        session.update = lambda *arguments: None  # after an update nothing is measured
        for _ in training_run(session, shape, RandomRun(1, "per-step", 5, 0.3)):
            pass
        usages.append((session.usage(), session.contributions()))
    (golden, expected), (machine, contributions) = usages
    np.testing.assert_array_equal(contributions, expected)
    for actual, wanted in zip(machine, golden, strict=True):
        assert actual.words >= wanted.words
        assert replace(actual, words=0) == replace(wanted, words=0)


def rows_of(shape, **run):
    """Train like golden; rows that LOAD_ROWS of the last backward pass looked at, that they left out, bytes spared."""
    device = interpreted("test")
    session = assert_same_training(device, shape, **run)
    spared = session.counters()["spared_bytes"]["weights"]
    assert spared <= session.plan.spareable_bytes
    return *device.accelerator.rows, spared


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_rows_of_weights_without_delta_are_left_out(masked):
    """Of a batch of one, about as many as there are zeros; lanes keep NaN there, so nothing that reads them passes."""
    shape = TrainingShape(NetworkShape(40, 70), 1, 3, Execution(storage=Storage("ms1", 0.2)), masked=masked)
    seen, left_out, spared = rows_of(shape, iterations=2, seed=2, skip_cells=0.3)
    assert 0.2 * seen < left_out < seen, (seen, left_out)
    config, width = preset("test"), 2  # tiles of each column span
    assert spared == left_out * width * config.channels * config.lanes * 4, (left_out, spared)


def test_rows_whose_delta_is_pruned_are_left_out():
    shape = TrainingShape(NetworkShape(40, 70), 1, 3, Execution(storage=Storage("ms1", 0.2)))
    (seen, left_out, _), (_, pruned, _) = (
        rows_of(shape, iterations=2, seed=2, delta_threshold=threshold) for threshold in (0.0, 0.05)
    )
    assert left_out + (seen - left_out) // 4 < pruned < seen, (seen, left_out, pruned)


@pytest.mark.parametrize("threshold", [1e-38, 3e-5, 0.1, 0.75, 1.0, 1.25, 3e38])
def test_no_delta_that_is_kept_is_taken_for_a_pruned_one(threshold):
    """And none is taken for a kept one, but for those that a rounding error lets pass, and above 1."""
    generator, threshold = np.random.default_rng(3), np.float32(threshold)
    delta = np.float32(threshold / 4) * (2 ** generator.uniform(0, 1.9, 100_000)).astype(np.float32)
    delta = np.concatenate([delta, np.minimum(delta, np.float32(8e37)) * 4])
    delta = np.concatenate([delta, [threshold, np.nextafter(threshold, np.float32(0))]]).astype(np.float32)
    least = np.finfo(np.float32).smallest_normal
    delta = delta[np.isfinite(delta) & (delta >= least)]
    kept = arithmetic.multiply(delta, needed_scale(threshold)) != 0
    assert kept[delta >= threshold].all()
    pruned = delta < min(threshold, np.float32(1)) * np.float32(1 - 1e-6)
    assert threshold <= least or not kept[pruned].any()


def test_rows_of_weights_are_looked_at_for_every_batch_tile():
    shape = TrainingShape(NetworkShape(40, 70, 2), 9, 2, Execution(storage=Storage("ms1", 0.2)))
    seen, left_out, spared = rows_of(shape, iterations=1, seed=2)
    assert 0 < left_out < seen and spared, (seen, left_out, spared)


@pytest.mark.parametrize(
    "shape",
    [
        TrainingShape(NetworkShape(40, 70), 1, 2),
        TrainingShape(NetworkShape(3, 5), 1, 2, Execution(storage=Storage("ms1", 0.2))),
        TrainingShape(
            NetworkShape(40, 70), 1, 2, Execution(storage=Storage("ms1", 0.2), architecture=ARCHITECTURES["dynamic"])
        ),
    ],
    ids=["dense storage", "weights that stay", "zeros that are sent"],
)
def test_no_rows_are_looked_at_where_none_could_be_left_out(shape):
    assert rows_of(shape, iterations=1, seed=2) == (0, 0, 0)


def test_streams_weights_that_do_not_fit_the_lanes():
    shape = TrainingShape(NetworkShape(40, 70), 9, 2)
    assert_same_training(interpreted("test"), shape, iterations=1, seed=2)


@pytest.mark.parametrize("name", PRESETS)
def test_plans_sizes_that_divide_nothing(name):
    """Weights lie by rows and by columns: in float32, or once so and twice as bytes."""
    of_weight = 4 + 2 * 1 if preset(name).integers else 2 * 4
    for size in (1, 3, 33, 100):
        plan = Plan(preset(name), NetworkShape(size, size), 3, 2, arithmetic_of(name))
        assert plan.footprint()["weights"] >= of_weight * 4 * size * 2 * size


@pytest.mark.parametrize("name", ["test", "test-int8"])
def test_a_machine_has_one_arithmetic(name):
    other = Execution(arithmetic="float32" if preset(name).integers else "int8")
    with pytest.raises(PlanError, match=f"arithmetic cannot be {other.arithmetic.name}"):
        Plan(preset(name), NetworkShape(3, 5), 2, 2, other)


def test_macs_say_which_pass_they_are_of():
    plan = Plan(preset("test"), NetworkShape(3, 5, 2), 3, 4)
    for name, expected in (("forward", 0), ("backward", 1)):
        instructions = [contract.decode(word) for word in plan.programs[name].words]
        passes = {fields["backward"] for opcode, fields in instructions if opcode == Opcode.MAC}
        assert passes == {expected}, f"{name}: {passes}"


def test_says_how_much_memory_is_needed_and_had():
    with pytest.raises(PlanError, match=r"needs? [\d,]+ bytes of memory, the device has 4,096"):
        Plan(preset("test"), NetworkShape(8, 8), 2, 2, memory_bytes=4096)


def test_says_which_memory_a_layer_is_too_large_for():
    with pytest.raises(PlanError, match="scratch_depth"):
        Plan(preset("test"), NetworkShape(8, 2000), 2, 2)


def test_places_sessions_beside_each_other():
    device = interpreted("test")
    shape = TrainingShape(NetworkShape(3, 5), 2, 2)
    first, second = device.create(shape), device.create(shape)
    assert second.placement.base >= first.placement.end
    base = first.placement.base
    del first
    assert device.create(shape).placement.base == base
    assert second.placement.base != base


def test_traffic_counts_every_array_that_moves():
    plan = Plan(preset("sim"), NetworkShape(8, 32), 32, 8)
    traffic = plan.traffic()
    cells = 8 * 32 * 32 * 4
    assert traffic["intermediates"]["written"] == 5 * cells
    assert traffic["deltas"]["written"] == 4 * cells
    assert np.all([kind["read"] > 0 for kind in traffic.values()])


def test_biases_that_do_not_fit_come_once_for_each_job_to_alternating_halves():
    config, steps = preset("test"), 20
    plan = Plan(config, NetworkShape(40, 70), 9, steps)
    fields = [step.fields for step in walk(plan.programs["forward"].words) if step.opcode == Opcode.LOAD]
    addresses = [each["lane_address"] for each in fields if each["memory"] == Memory.BIAS]
    jobs = steps * plan.map.batch.count * len(plan.map.layers[0].tiling.unit_spans)
    assert set(addresses) == {0, config.bias_depth // 2}
    assert len(addresses) == jobs


@pytest.mark.parametrize("execution", [Execution(), Execution.read(storage="ms1", input_threshold="0.3")], ids=str)
def test_every_transfer_has_the_name_of_a_tensor(execution):
    made = plan_modelled(preset("test"), NetworkShape(5, 6, 2), 4, 3, execution, choose_slices=False)
    place_of = partial(made.map.memory.place_of, steps=3)
    moves = (Opcode.LOAD, Opcode.LOAD_ROWS, Opcode.STORE, Opcode.TRANSPOSE, Opcode.CAST)
    for program in made.programs.values():
        assert all(place_of(step.address) for step in walk(program.words) if step.opcode in moves)
    assert place_of(made.config.vector_beats * made.map.memory.window_bytes) == ""


def test_tensors_that_go_by_steps_are_named_with_the_step():
    made = plan_modelled(preset("test"), NetworkShape(5, 6, 2), 4, 3, Execution(), choose_slices=False)
    casts = [step for step in walk(made.programs["forward"].words) if step.opcode == Opcode.CAST]
    names = [made.map.memory.place_of(step.address, 3) for step in casts]
    order = list(dict.fromkeys(names))
    assert order[:2] == ["x0[0]", "h0[0]"]
    assert {*order} == {f"x0[{t}]" for t in range(3)} | {f"h{n}[{t}]" for n in range(2) for t in range(4)} - {"h1[3]"}
    rows = made.map.memory.arrays["rows1"]
    assert made.map.memory.place_of(made.config.vector_beats * (rows.first + 7), 3) == "rows1+7"
