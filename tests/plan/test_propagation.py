"""Loads of weights that batch tiles and steps share in Wᵀδ: how many there are, and that no bit depends on them."""

from itertools import product

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.model.iteration import count_program
from etalstm.model.operands import Densities
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.memory.stored import divide
from etalstm.plan.memory.tiling import Span
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import Counter, Memory, Opcode
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

NETWORK = NetworkShape(32, 32)  # four vectors of inputs and four of units, of 128 rows: they do not stay in the lanes
LAYERS = NetworkShape(32, 32, 2)
STEPS = 23
SEED = 9


def loaded_vectors(program):
    """Vectors of weights that a program brings."""
    return sum(
        step.fields["outer"] * step.fields["inner"]
        for step in walk(program.words)
        if step.opcode in (Opcode.LOAD, Opcode.LOAD_ROWS) and step.fields["memory"] == Memory.WEIGHTS
    )


# Batch, storage; how often weights of the units and of the inputs are brought. A vector takes a cycle of the port. So
# ten sequences should share a load if δ is sparse, and the lanes have sums for 32. There are tiles of 3; 5 and 4;
# 7, 7 and 6 sequences.
@pytest.mark.parametrize(
    ("batch", "policy", "of_units", "of_inputs"),
    [
        (3, "ms1", STEPS, 8),  # three steps share
        (9, "ms1", STEPS, 12),  # both tiles of two steps
        (20, "ms1", 2 * STEPS, 2 * STEPS),  # two of three tiles
        (9, "dense", 2 * STEPS, 2 * STEPS),
    ],
)
def test_weights_are_brought_as_often_as_the_port_and_the_partial_sums_want(batch, policy, of_units, of_inputs):
    plan = Plan(preset("test"), NETWORK, batch, STEPS, Execution(storage=Storage(policy)))
    assert plan.map.layers[0].tiling.column_spans == [Span(first, 2) for first in (0, 2, 4, 6)]
    of_operands = STEPS * 8 * batch  # x and h, for the weights' gradient
    expected = 128 * 4 * (of_units + of_inputs) + of_operands * blocks_of_gradient(plan)
    assert loaded_vectors(plan.programs["backward"]) == expected


def blocks_of_gradient(plan):
    """How often the weights' gradient brings x and h: for each range of rows."""
    tiling = plan.map.layers[0].tiling
    lanes = [tiling.units.lanes_of(tile) for tile in range(tiling.units.tiles)]
    return tiling.units.channels * sum(-(-count // tiling.row_lanes) for count in lanes)


@pytest.mark.parametrize(
    ("batch", "masked", "skip_cells"),
    [(3, False, 0.4), (3, True, 0.0), (9, False, 0.0), (9, True, 0.4), (20, False, 0.4)],
)
def test_shared_loads_keep_golden_bits(batch, masked, skip_cells):
    shape = TrainingShape(LAYERS, batch, STEPS // 2, Execution(storage=Storage("ms1", 0.1)), masked=masked)
    device = HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))
    assert_same_training(device, shape, iterations=1, seed=SEED, skip_cells=skip_cells)


@pytest.mark.parametrize("gap", [range(10, 11), range(4, 9), range(25, 27)], ids=str)
def test_loops_leave_out_gaps_between_the_steps_that_share_loads(gap):
    """The products of a turn may belong to steps before the last gap: their addresses jump there."""
    plan = Plan(preset("test"), NetworkShape(17, 19), 8, 60, Execution(storage=Storage("ms1")))
    skipped = np.zeros((1, 60), bool)
    skipped[0, gap] = True
    steps = {location.resource.section[0] for location in deltas_of(plan, plan.passes(skipped)[1][0])}
    assert steps == set(range(60)) - set(gap)


def deltas_of(plan, program):
    """Where the CASTs of Wᵀδ and dW read δ."""
    layer, beats = plan.map.layers[0], plan.config.vector_beats
    places = {
        (location.array.first + location.vector) * beats: location
        for step, tile in product(range(60), range(plan.map.batch.count))
        for location in [layer.delta_at(step, tile)]
    }
    casts = [step for step in walk(program.words) if step.opcode == Opcode.CAST]
    return [places[cast.address] for cast in casts if cast.address in places]


def test_shared_loads_keep_golden_bits_beside_gaps():
    shape = TrainingShape(NetworkShape(17, 19), 8, 30, Execution(storage=Storage("ms1", 0.1)))
    device = HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))
    assert_same_training(device, shape, iterations=2, seed=SEED, skip_cells=0.04)


def test_shared_loads_keep_golden_bits_in_segments():
    """The steps of a segment share loads among themselves."""
    plan = Plan(preset("test"), LAYERS, 3, STEPS, Execution(storage=Storage("ms1")))
    segments = divide(plan.map.stored.needs(), STEPS, 5)
    divided = Plan(preset("test"), LAYERS, 3, STEPS, Execution(storage=Storage("ms1")), segments=segments)
    whole = loaded_vectors(plan.programs["backward"])
    parts = [loaded_vectors(divided.programs[f"backward {number}"]) for number in range(len(segments))]
    assert whole < sum(parts) < 1.2 * whole, parts


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_the_machine_shares_loads_with_golden_bits(stall):
    shape = TrainingShape(NETWORK, 3, 9, Execution(storage=Storage("ms1-bf16", 0.1)))
    with open_device("sim", "test", stall=stall, seed=3) as device:
        assert_same_training(device, shape, iterations=2, seed=SEED)


def test_weights_do_not_wait_for_what_sequences_that_have_ended_pass_on():
    """Loads work in order: the merge's loads come between those of weights, and must not wait for sums."""
    config = preset("slice")

    def cycles(masked):
        plan = Plan(config, NetworkShape(512, 512), 26, 2, Execution(storage=Storage("ms1")), masked=masked)
        program = plan.product_programs()["backward"]
        return count_program(config, program.words, Densities(config, plan, delta=1.0, local=1.0))[Counter.CYCLES]

    assert cycles(masked=True) < 1.005 * cycles(masked=False)
