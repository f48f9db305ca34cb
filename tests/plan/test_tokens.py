"""Programs that compute what equal tokens add to the gates' sums once give the golden trainer's bits."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.execution import BF16, Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.choose.sharing import Words, best_room
from etalstm.plan.passes.weights import staying
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode
from tests.network.cells.two_stages import TWO_STAGES
from tests.plan.hazards import Hazards
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

SMALL = TrainingShape(NetworkShape(9, 20, 2), 7, 5, Execution(shared_tokens=11))
TINY = TrainingShape(NetworkShape(3, 5), 8, 4, Execution(shared_tokens=11))
STREAMED = TrainingShape(NetworkShape(30, 33), 9, 6, Execution(shared_tokens=13))
"""Its weights do not stay in the lanes; it has several spans of units and several tiles of inputs."""


def interpreted(config=None):
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(config or preset("test")))


def assert_same(shape, iterations=2, device=None, **run):
    device = device or interpreted()
    assert_same_training(device, shape, iterations, seed=1, **run)
    return device


@pytest.mark.parametrize("tokens", [1, 8, 11, 35], ids=lambda count: f"{count} tokens")
@pytest.mark.parametrize("policy", ["dense", "ms1", "ms1-bf16"])
def test_shared_tokens_give_golden_bits(policy, tokens):
    storage = Storage(policy, 0.0 if policy == "dense" else 0.1)
    assert_same(replace(SMALL.with_execution(shared_tokens=tokens, storage=storage), masked=True), skip_cells=0.4)


@pytest.mark.parametrize(("weight_format", "masked"), [("float32", True), (BF16, False)])
def test_sums_of_tokens_go_with_weights_that_are_streamed(masked, weight_format):
    assert_same(
        replace(
            STREAMED.with_execution(slices=3, storage=Storage("ms1", 0.1), weight_format=weight_format), masked=masked
        )
    )


def test_sums_of_tokens_last_from_segment_to_segment():
    shape = TrainingShape(NetworkShape(3, 5, 2), 16, 32, Execution(storage=Storage("ms1", 0.1), shared_tokens=11))
    whole = interpreted().create(shape).plan.memory_bytes
    shape = replace(shape, memory_budget=int(0.95 * whole))
    session = assert_same_training(interpreted(), shape, iterations=1, seed=1)
    assert len(session.plan.map.stored.segments) > 1, "the plan is not divided"


def test_a_pass_that_is_run_again_shares_the_same():
    shape = replace(TINY.with_execution(storage=Storage("ms1", 0.01)), log_share=0.05)
    session = assert_same_training(interpreted(), shape, 2, 1)
    assert session.memory()["replays"], "no log was too small"


def test_each_group_of_channels_has_tokens_of_its_own(monkeypatch):
    monkeypatch.setattr("etalstm.plan.choose.fit.group_costs", lambda *_: {2: 1.0})
    config = replace(preset("test"), channels=4, broadcasters=4)
    shape = replace(SMALL.with_execution(slices=2), masked=True)
    session = assert_same_training(interpreted(config), shape, 2, 1)
    of_groups = session._shared_by_groups()
    assert session.plan.groups == len(of_groups) == 2
    assert max(of_group.count for of_group in of_groups) < session._shared.count


def test_parts_of_a_batch_share_tokens(monkeypatch):
    monkeypatch.setattr("etalstm.device.machine.hardware.part_counts", lambda slices: [2])
    session = assert_same_training(interpreted(), SMALL.with_execution(slices=2), 2, 1)
    assert session.memory()["parts"] == 2


def test_the_host_shares_where_it_runs_the_forward_pass():
    assert_same(replace(SMALL, masked=True), device=OffloadDevice(interpreted()))


def passes_of(session, tokens, seed=5):
    """What the passes give of random vectors of some tokens, and the products that were counted."""
    shape, generator = session.shape, np.random.default_rng(seed)
    session.load(initial_parameters(shape.network, seed))
    x = generator.standard_normal((tokens.max() + 1, shape.network.input_size), np.float32)[tokens]
    outputs = session.forward(x, tokens=None if shape.execution.shared_tokens is None else tokens)
    back = session.backward(np.ones(shape.y_shape, np.float32))
    return [outputs.y, outputs.h, outputs.c, back.dx, back.norm], session.usage()[0].products


@pytest.mark.parametrize("open_named", [interpreted, lambda: open_device("golden")], ids=["machine", "golden"])
def test_a_batch_with_more_tokens_than_there_is_room_for_shares_nothing(open_named):
    tokens = np.arange(TINY.steps * TINY.batch).reshape(TINY.steps, TINY.batch)
    device = open_named()
    plain, sharing = (device.create(TINY.with_execution(shared_tokens=room)) for room in (None, 11))
    for distinct in (32, 11, 12):
        (expected, products), (found, shared) = (passes_of(one, tokens % distinct) for one in (plain, sharing))
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, wanted, f"{distinct} tokens")
        rows, inputs, places = 4 * 5, 3, tokens.size
        saved = rows * (places * inputs - distinct * inputs - places) if distinct <= 11 else 0
        assert products - shared == saved


def test_a_cell_of_two_stages_has_tokens_where_x_enters():
    plan = Plan(preset("test"), NetworkShape(3, 5), 4, 3, Execution(shared_tokens=4), cell=TWO_STAGES)
    taken = [arrays.tokens is not None for arrays in plan.map.layers[0].products]
    assert taken == [arrays.x is not None for arrays in plan.map.layers[0].products]
    assert Hazards(plan.config).check(plan.programs["forward"].words)


@pytest.mark.parametrize("shape", [SMALL, STREAMED], ids=["stays", "streamed"])
def test_nothing_starts_before_what_it_needs_is_done(shape):
    for masked in (False, True):
        plan = Plan(preset("test"), shape.network, shape.batch, 14, Execution(shared_tokens=40), masked=masked)
        words = plan.programs["forward"].words
        assert Hazards(plan.config).check(words) >= len(words) // 2


def test_a_step_takes_one_product_of_x_for_each_row_tile():
    plan = Plan(preset("test"), NetworkShape(64, 8), 4, 3, Execution(shared_tokens=6))
    tokens = plan.map.layers[0].tokens
    first = tokens.chosen.array.first * plan.config.vector_beats
    steps = [step for step in walk(plan.programs["forward"].words) if step.opcode == Opcode.CAST]
    of_tokens = [step for step in steps if first <= step.address < first + tokens.chosen.array.vectors]
    assert len(of_tokens) == plan.map.steps
    assert {step.fields["blocks"] for step in of_tokens} == {2}, "six columns lie in two tiles of four lanes"


def test_programs_do_not_grow_with_steps_nor_with_tokens_whose_sums_stay():
    sizes = {
        Plan(
            replace(preset("test"), weight_depth=4096), SMALL.network, 8, steps, Execution(shared_tokens=tokens)
        ).program_bytes
        for steps, tokens in ((40, 80), (80, 80), (40, 160))
    }
    assert len(sizes) == 1


def test_sums_of_tokens_stay_before_weights_do():
    config = replace(preset("test"), weight_depth=256, lanes=4)
    assert staying(config, [100, 156], 8) == [True, True]
    assert staying(config, [100, 200], 8) == [True, False]
    assert staying(config, [200, 100], 8) == [False, True]
    assert staying(config, [200, 200], 8) == [False, False]
    assert staying(config, [100, 200], 24) == [False, False], "two blocks of 96 vectors do not fit what is left"


@pytest.mark.parametrize(("distinct", "room"), [(20, 20), (500, None)])
def test_tokens_are_shared_where_that_pays(distinct, room):
    plan = Plan(preset("slice"), NetworkShape(64, 128), 32, 16)
    assert best_room(plan, [(distinct, Words(512, distinct))]) == room


def test_room_is_for_most_batches_not_for_all():
    plan = Plan(preset("slice"), NetworkShape(64, 128), 32, 16)
    assert best_room(plan, [(20, Words(512, 20))] * 9 + [(480, Words(512, 480))]) == 20


@pytest.fixture(scope="module")
def machine():
    with open_device("sim", "test", stall=0.5) as device:
        yield device


@pytest.mark.parametrize("shape", [SMALL, STREAMED], ids=["stays", "streamed"])
def test_the_verilog_shares_tokens_with_golden_bits(machine, shape):
    shape = replace(shape.with_execution(storage=Storage("ms1-bf16", 0.1)), masked=True)
    assert_same_training(machine, shape, iterations=2, seed=3, skip_cells=0.3)
