"""Rows of weights that no change of x or h meets are not loaded: the maps, who has them, and golden's bits."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.delta_inputs import DeltaInputs, changed
from etalstm.network.execution import BF16, Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, decode
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training, with_changes

SEED = 3
ONCE, OFTEN = (DeltaInputs(((1.0, 0.2),), refresh) for refresh in (0, 4))
STREAMED = TrainingShape(NetworkShape(22, 34), 10, 6, Execution(delta_inputs=ONCE))
"""Its weights do not stay in the lanes, its units' last tile is not full, and its batch has several tiles."""


def interpreted():
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))


def forwarded(shape):
    """A device and its session after a forward pass on random x; the last change of an element of x is infinite."""
    device, generator = interpreted(), np.random.default_rng(SEED)
    session = device.create(shape)
    session.load(initial_parameters(shape.network, SEED))
    x = np.cumsum(0.7 * generator.standard_normal(shape.x_shape, np.float32), axis=0)
    x[:, 1:, : shape.network.input_size // 2] = 0
    x[-2:, -1, 0] = 3e38, -3e38
    session.forward(x, h0=generator.standard_normal(shape.state_shape, np.float32))
    return device, session


def sent_changes(session, operand):
    """Which elements of an operand a step sends as changes: bool, (T - 1, B, N), from the second step on."""
    sent = session.windows.read(operand.sent.array)
    return changed(sent[1:], sent[:-1])


def sequences_of(plan, tile):
    """The sequences of a batch tile, of all groups."""
    division = plan.map.division
    return np.concatenate([division.sequences(n)[plan.map.batch.ranges[tile]] for n in range(division.count)])


def stored_map(device, operand, step, tile, group):
    """The bits of an operand's map in memory, those of a group of channels, element by element."""
    accelerator, partition = device.accelerator, operand.partition
    location, bits = operand.row_map(step, tile).location, np.zeros(partition.padded, bool)
    for element in range(partition.padded):
        channel, rest = divmod(element, partition.per_channel)
        vector = location.array.first + location.vector + rest // partition.lanes
        window = accelerator._base + (group * partition.channels + channel) * accelerator._stride
        word = accelerator.transport.read_memory(window + 4 * (vector * partition.lanes + rest % partition.lanes), 4)
        bits[element] = word.view(np.float32)[0] != 0
    return bits[: partition.size]


def row_loads(plan):
    """Count the LOAD_ROWS that the forward pass has for changes."""
    instructions = [decode(word) for word in plan.programs["forward"].words]
    return sum(opcode == Opcode.LOAD_ROWS and fields["single"] for opcode, fields in instructions)


@pytest.mark.parametrize("slices", [1, 2])
def test_a_map_tells_which_elements_some_sequence_sends(slices):
    """Those of the last two steps are in memory."""
    device, session = forwarded(STREAMED.with_execution(slices=slices))
    division, operands = session.plan.map.division, session.plan.map.layers[0].operands_sent
    assert division.count == slices
    for operand in operands:
        sends = sent_changes(session, operand)
        for step, tile, group in np.ndindex(2, session.plan.map.batch.count, slices):
            sequences = division.sequences(group)[session.plan.map.batch.ranges[tile]]
            expected = sends[-1 - step, sequences].any(axis=0)
            found = stored_map(device, operand, STREAMED.steps - 1 - step, tile, group)
            assert 0 < expected.sum() < expected.size, "all rows are needed, or none"
            np.testing.assert_array_equal(found, expected, f"seed {SEED}: step -{step + 1}, tile {tile}, group {group}")


@pytest.mark.parametrize("slices", [1, 2])
def test_all_rows_but_those_of_elements_that_no_sequence_sends_are_loaded(slices):
    """Lanes keep NaN where a row is left out, so no product uses it; what one group needs, all load."""
    device, session = forwarded(STREAMED.with_execution(slices=slices))
    plan, (layer,) = session.plan, session.plan.map.layers
    seen = needed = 0
    for operand in layer.operands_sent:
        sends = sent_changes(session, operand)
        tiles = [sends[:, sequences_of(plan, tile)].any(axis=1) for tile in range(plan.map.batch.count)]
        needed += sum(int(tile.sum()) for tile in tiles)
        seen += len(tiles) * len(sends) * operand.partition.padded
    spans = len(layer.tiling.unit_spans)
    assert device.accelerator.rows == (spans * seen, spans * (seen - needed))


@pytest.mark.parametrize(
    "shape",
    [
        replace(STREAMED, network=NetworkShape(3, 5)),
        STREAMED.with_execution(architecture=ARCHITECTURES["dynamic"]),
        STREAMED.with_execution(delta_inputs=DeltaInputs(0.3, 1)),
    ],
    ids=["weights that stay", "zeros that are sent", "refresh at every step"],
)
def test_there_are_no_maps_where_no_row_could_be_left_out(shape):
    assert row_loads(interpreted().create(shape).plan) == 0


@pytest.mark.parametrize("batch, has_maps", [(8, True), (32, False)])
def test_there_are_no_maps_where_products_of_sparse_changes_outlast_loads(batch, has_maps):
    """A vector of weights takes 2 cycles to load, and 0.1 · 32 to use for all sequences of a tile."""
    plan = Plan(replace(preset("sim"), weight_depth=256), NetworkShape(64, 64), batch, 4, Execution(delta_inputs=ONCE))
    assert plan.map.batch.size == batch
    assert (row_loads(plan) > 0) == has_maps


def test_of_three_thresholds_the_smallest_has_no_maps():
    execution = Execution(delta_inputs=DeltaInputs(((1.0, 0.2), (0.1, 0.2)), 0))
    shape = TrainingShape(NetworkShape(22, 34, 2), 10, 6, execution)
    session = assert_same_training(interpreted(), shape, iterations=1, seed=SEED)
    operands = [operand for layer in session.plan.map.layers for operand in layer.operands_sent]
    assert [operand.needed is None for operand in operands] == [False, False, True, False]


@pytest.mark.parametrize("inputs", [ONCE, OFTEN, DeltaInputs(0.4, 3)], ids=["once", "every 4", "every 3"])
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
def test_rows_that_are_left_out_change_no_bit(policy, masked, inputs):
    storage = Storage(policy, 0.0 if policy == "dense" else 0.1)
    shape = replace(STREAMED.with_execution(delta_inputs=inputs, storage=storage), masked=masked)
    device = interpreted()
    assert_same_training(device, shape, iterations=2, seed=SEED, skip_cells=0.2)
    seen, left_out = device.accelerator.rows
    assert 0 < left_out < seen, (seen, left_out)


@pytest.mark.parametrize(
    "options",
    [{}, {"masked": True, "delta_inputs": OFTEN}, {"batch": 4, "slices": 2, "weight_format": BF16}],
    ids=["full", "masked", "groups, narrow"],
)
def test_the_verilog_leaves_rows_out_with_golden_bits(options):
    with open_device("sim", "test", stall=0.5) as device:
        session = assert_same_training(device, with_changes(STREAMED, **options), iterations=2, seed=SEED)
        counters = session.counters()
    assert 0 < counters["rows_skipped"] < counters["rows_seen"], counters
