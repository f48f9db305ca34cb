"""Programs that send only what has changed of x and h give the golden trainer's bits."""

from dataclasses import replace

import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import PlanError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.memory.sent import threshold_parameters
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from tests.network.cells.two_stages import TWO_STAGES
from tests.plan.hazards import Hazards
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

NEVER, OFTEN = DeltaInputs(0.2, 0), DeltaInputs(0.2, 4)
SMALL = TrainingShape(NetworkShape(3, 5, 2), 8, 9)
STREAMED = TrainingShape(NetworkShape(30, 33), 9, 9)
"""Its weights do not stay in the lanes; it has several spans of units and several tiles of inputs."""


def interpreted():
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))


def assert_same(shape, **run):
    return assert_same_training(interpreted(), shape, iterations=2, seed=1, **run)


@pytest.fixture(scope="module")
def machine():
    with open_device("sim", "test", stall=0.5) as device:
        yield device


@pytest.mark.parametrize(
    "inputs",
    [NEVER, OFTEN, DeltaInputs(0.0, 0), DeltaInputs(0.1, 2), DeltaInputs(((0.1, 0.2), (0.3, 0.05)), 3)],
    ids=["once", "every 4", "all differences", "every 2", "each its own"],
)
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_changes_alone_give_golden_bits(inputs, masked):
    assert_same(replace(SMALL.with_execution(delta_inputs=inputs), masked=masked))


@pytest.mark.parametrize("inputs", [NEVER, OFTEN], ids=["once", "every 4"])
@pytest.mark.parametrize("policy", ["dense", "ms1", "ms1-bf16"])
def test_changes_go_with_every_storage_skipped_cells_and_masks(inputs, policy):
    storage = Storage(policy, 0.0 if policy == "dense" else 0.1)
    assert_same(replace(SMALL.with_execution(delta_inputs=inputs, storage=storage), masked=True), skip_cells=0.4)
    if policy != "dense":
        assert_same(SMALL.with_execution(delta_inputs=inputs, storage=storage), delta_threshold=0.02)


@pytest.mark.parametrize("inputs", [NEVER, OFTEN], ids=["once", "every 4"])
def test_changes_go_with_slices_and_weights_that_are_streamed(inputs):
    assert_same(
        replace(STREAMED.with_execution(delta_inputs=inputs, slices=3, storage=Storage("ms1", 0.1)), masked=True)
    )


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("units", [1, 14])
def test_gradients_are_collected_in_a_scratch_memory_that_is_full(units, masked):
    """Collecting takes the memory of δ, in which the next local gradients are prepared."""
    machine = replace(preset("test"), scratch_depth=64)
    device = HardwareDevice("interpreter", "test", InterpretedAccelerator(machine))
    shape = TrainingShape(
        NetworkShape(10, units, 2), 3, 5, Execution(storage=Storage("ms1", 0.05), delta_inputs=NEVER), masked=masked
    )
    assert_same_training(device, shape, iterations=1, seed=1)


@pytest.mark.parametrize("inputs", [NEVER, OFTEN], ids=["once", "every 4"])
def test_what_was_sent_lasts_from_segment_to_segment(inputs):
    shape = STREAMED.with_execution(delta_inputs=inputs, storage=Storage("ms1", 0.1))
    whole = interpreted().create(shape).plan.memory_bytes
    session = assert_same(replace(shape, memory_budget=whole - 4096))
    assert len(session.plan.map.stored.segments) > 1, "the plan is not divided"


@pytest.mark.parametrize("inputs", [NEVER, OFTEN], ids=["once", "every 4"])
def test_a_pass_that_is_run_again_sends_the_same(inputs):
    session = assert_same(
        replace(SMALL.with_execution(delta_inputs=inputs, storage=Storage("ms1", 0.01)), log_share=0.05)
    )
    assert session.memory()["replays"], "no log was too small"


def test_the_host_may_run_the_forward_pass():
    shape = replace(SMALL.with_execution(delta_inputs=OFTEN), masked=True)
    assert_same_training(OffloadDevice(interpreted()), shape, iterations=2, seed=1)


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
@pytest.mark.parametrize("inputs", [NEVER, OFTEN], ids=["once", "every 4"])
def test_the_verilog_sends_changes_with_golden_bits(machine, inputs, policy, masked):
    storage = Storage(policy, 0.0 if policy == "dense" else 0.1)
    shape = replace(SMALL.with_execution(delta_inputs=inputs, storage=storage), masked=masked)
    assert_same_training(machine, shape, iterations=2, seed=3, skip_cells=0.3)


@pytest.mark.parametrize("architecture", ["dynamic", "static", "inference"])
def test_changes_go_with_every_architecture(machine, architecture):
    """Machines that send zeros send those of changes, too."""
    assert_same_training(
        machine, SMALL.with_execution(delta_inputs=OFTEN, architecture=architecture), iterations=1, seed=3
    )


def test_the_verilog_sends_changes_to_weights_that_are_streamed(machine):
    assert_same_training(machine, STREAMED.with_execution(delta_inputs=NEVER, slices=3), iterations=1, seed=3)


@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
@pytest.mark.parametrize("inputs", [NEVER, DeltaInputs(0.1, 3), OFTEN], ids=["once", "every 3", "every 4"])
def test_nothing_starts_before_what_it_needs_is_done(policy, inputs):
    for masked in (False, True):
        execution = Execution(Storage(policy), slices=3, delta_inputs=inputs)
        plan = Plan(preset("test"), NetworkShape(8, 20, 2), 9, 14, execution, masked=masked)
        for program in plan.programs.values():
            assert Hazards(plan.config).check(program.words) >= len(program.words) // 2


@pytest.mark.parametrize("refresh", [0, 2, 3, 4, 5, 16])
def test_the_length_of_programs_does_not_depend_on_the_number_of_steps(refresh):
    steps = max(1, refresh) * 40
    execution = Execution(Storage("ms1"), delta_inputs=DeltaInputs(0.1, refresh))
    sizes = [Plan(preset("test"), SMALL.network, 8, n * steps, execution).program_bytes for n in (1, 2)]
    assert sizes[0] == sizes[1]


def test_a_refresh_at_every_step_is_no_change_of_the_programs():
    plans = [
        Plan(preset("test"), SMALL.network, 8, 9, Execution(delta_inputs=inputs))
        for inputs in (DeltaInputs(), DeltaInputs(0.3, 1))
    ]
    assert len({tuple(plan.programs["forward"].words) for plan in plans}) == 1
    assert not threshold_parameters(DeltaInputs(0.3, 1), 2)


def test_more_thresholds_than_parameters_are_refused():
    thresholds = tuple(0.1 * n for n in range(6))
    with pytest.raises(PlanError, match=r"has 5 input thresholds, the network has \[0.0, 0.1"):
        Plan(preset("test"), NetworkShape(3, 5, 6), 4, 3, Execution(delta_inputs=DeltaInputs(thresholds, 0)))


def test_a_cell_of_two_stages_is_refused():
    with pytest.raises(PlanError, match="only a cell of one stage has delta inputs"):
        Plan(preset("test"), NetworkShape(3, 5), 4, 3, Execution(delta_inputs=NEVER), cell=TWO_STAGES)
