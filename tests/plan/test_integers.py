"""Programs of integer products: a machine that executes them one after the other has golden's bits."""

from dataclasses import replace

import pytest

from etalstm.device import TrainingShape
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import DeviceError, PlanError
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.integers.gradient import IntegerGradientLayer
from etalstm.plan.memory.integer_tiling import ended_groups
from etalstm.plan.memory.tiling import Span, cut
from etalstm.plan.plan import FINISH, Plan
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator
from tests.training import assert_same_training

INT8 = arithmetic_named("int8", 15)


def interpreted(config):
    return HardwareDevice("interpreter", "test-int8", InterpretedAccelerator(config))


def same_training(config, network, batch, steps, masked=False, **more):
    how = {name: more.pop(name) for name in ("storage", "slices") if name in more}
    shape = TrainingShape(network, batch, steps, Execution(**{"arithmetic": INT8} | how), masked=masked)
    return assert_same_training(interpreted(config), shape, **{"iterations": 2, "seed": 3} | more)


@pytest.mark.parametrize(
    ("sizes", "batch", "steps"),
    [
        ((5, 9, 4), 3, 4),
        ((1, 1), 1, 1),
        ((17, 24), 2, 5),
        ((3, 40, 2), 5, 6),
        ((3, 40, 2), 4, 6),
        ((3, 72, 2), 4, 4),
        ((70, 20), 9, 3),
    ],
    ids=[
        "ragged",
        "single",
        "wide",
        "streamed weights",
        "streamed once a step",
        "streamed for several areas",
        "many inputs",
    ],
)
@pytest.mark.parametrize("name", ["test-int8", "sim-int8"])
def test_has_goldens_bits(name, sizes, batch, steps):
    same_training(preset(name), NetworkShape(*sizes), batch, steps, masked=batch > 2)


def test_gradients_between_layers_take_turns_in_two_arrays():
    found = Plan(preset("test-int8"), NetworkShape(3, 5, 6), 3, 4, Execution(arithmetic=INT8)).map
    *between, last = [layer.dy.array for layer in found.layers]
    assert [between.index(array) for array in between] == [0, 1, 0, 1, 0] and last not in between


@pytest.mark.parametrize("every_delta", [True, False])
def test_where_memory_is_short_layers_have_one_array_of_what_is_sent_for_their_gradients(every_delta):
    execution = Execution(storage=Storage("ms1-bf16", 0.1), arithmetic=INT8)
    found = Plan(preset("test-int8"), NetworkShape(5, 9, 3), 4, 6, execution, every_delta=every_delta).map
    assert len({layer.integers.gathered.array.name for layer in found.layers}) == (3 if every_delta else 1)
    assert found.stored.deltas is None, "no stream of δ is stored"
    assert all(layer.delta_index is None and layer.needed is None for layer in found.layers)


def test_has_goldens_bits_with_more_pes():
    config = replace(preset("test-int8"), integer_pes=8, queue_depth=512, scratch_depth=1024, weight_depth=512)
    same_training(config, NetworkShape(6, 33, 2), 5, 3, masked=True)


@pytest.mark.parametrize("batch", [1, 5])
def test_has_goldens_bits_with_two_streams(batch):
    config = replace(preset("test-int8"), integer_streams=2, queue_depth=128, broadcast_words=256)
    same_training(config, NetworkShape(6, 33, 2), batch, 3, masked=True)


def test_has_goldens_bits_where_a_vector_is_several_beats():
    config = replace(preset("test-int8"), lanes=16, queue_depth=512, scratch_depth=1024, broadcast_words=1024)
    assert config.vector_beats == 2
    same_training(config, NetworkShape(19, 37), 4, 3)


@pytest.mark.parametrize("bits", [8, 12])
def test_bits_of_delta(bits):
    shape = TrainingShape(NetworkShape(5, 9, 2), 3, 4, Execution(arithmetic=arithmetic_named("int8", bits)))
    assert_same_training(interpreted(preset("test-int8")), shape, iterations=3, seed=1)


@pytest.mark.parametrize("policy", ["ms1", "ms1-bf16"])
def test_local_gradients_are_stored_and_delta_is_pruned(policy):
    network, storage = NetworkShape(5, 9, 2), Storage(policy, 0.1)
    same_training(preset("test-int8"), network, 3, 4, masked=True, storage=storage, delta_threshold=0.02)


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_cells_are_skipped(share):
    same_training(preset("test-int8"), NetworkShape(5, 9, 2), 3, 6, masked=True, skip_cells=share, iterations=3)


@pytest.mark.parametrize(
    ("sizes", "batch", "thresholds", "refresh"),
    [
        ((5, 9, 2), 3, 0.1, 0),
        ((3, 40, 3), 5, ((0.3, 0.05), (0.02, 0.1), 0.2), 3),
        ((3, 40, 2), 4, ((0.3, 0.05), (0.02, 0.1)), 0),
        ((70, 20, 4), 9, 0.05, 0),
        ((5, 9), 4, (1.5,), 0),
        ((5, 9, 2), 4, 0.0, 2),
    ],
)
@pytest.mark.parametrize("name", ["test-int8", "sim-int8"])
def test_only_changes_are_sent(name, sizes, batch, thresholds, refresh):
    how = Execution(Storage("ms1-bf16", 0.05), delta_inputs=DeltaInputs(thresholds, refresh), arithmetic=INT8)
    shape = TrainingShape(NetworkShape(*sizes), batch, 6, how, masked=batch > 3)
    assert_same_training(interpreted(preset(name)), shape, iterations=3, seed=3, skip_cells=0.7 if batch > 4 else 0.0)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (2, [(0, 0), (0, 4), (4, 0), (4, 3)]),
        (3, [(0, 0), (0, 4), (4, 3)]),
        (4, [(0, 4), (4, 3)]),
        (6, [(0, 4), (4, 3)]),
        (8, [(0, 7)]),
    ],
)
def test_a_word_of_four_tiles_is_made_where_its_last_one_is_computed(step, expected):
    assert [ended_groups(span, 7) for span in cut(7, step)] == [Span(*each) for each in expected]


def test_a_span_of_units_may_have_a_part_of_a_word():
    plan = Plan(preset("test-int8"), NetworkShape(3, 40, 2), 5, 6, Execution(arithmetic=INT8))
    assert [span.count for span in plan.map.layers[0].tiling.unit_spans] == [2, 2, 1]


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["all cells", "no step"])
@pytest.mark.parametrize("name", ["test-int8", "sim-int8"])
def test_gradients_that_are_finished_from_whole_sums_have_goldens_bits(name, share):
    shape = TrainingShape(NetworkShape(5, 9, 2), 3, 4, Execution(arithmetic=INT8), masked=True, gradient_sums=True)
    assert_same_training(interpreted(preset(name)), shape, iterations=2, seed=3, skip_cells=share)


def test_only_a_plan_with_sums_of_gradients_has_their_low_words_and_finishes_them():
    sizes = preset("test-int8"), NetworkShape(5, 9, 2), 3, 4, Execution(arithmetic=INT8)
    plain, summed = Plan(*sizes), Plan(*sizes, gradient_sums=True)
    assert summed.programs.keys() - plain.programs.keys() == {FINISH}
    assert [layer.integers.low_words for layer in plain.map.layers] == [None, None]
    gradients = sum(layer.gradient.vectors for layer in plain.map.layers)
    of_vector = plain.map.memory.vector_bytes * plain.config.channels
    assert summed.footprint()["optimizer"] - plain.footprint()["optimizer"] == gradients * of_vector


def test_dw_of_many_steps_is_summed_in_all_of_the_memory_with_goldens_bits(monkeypatch):
    tiles, choose = [], IntegerGradientLayer._share_memory
    monkeypatch.setattr(IntegerGradientLayer, "_share_memory", lambda *given: tiles.append(choose(*given)) or tiles[-1])
    same_training(preset("test-int8"), NetworkShape(3, 40), 5, 52, iterations=1)
    assert Plan(preset("test-int8"), NetworkShape(3, 40), 5, 51, Execution(arithmetic=INT8)).programs
    assert (tiles[0], tiles[-1]) == (2, 1)


def test_slices_change_nothing():
    session = same_training(preset("test-int8"), NetworkShape(5, 9), 6, 3, slices=3)
    assert session.plan.map.division.slices == 1


@pytest.mark.parametrize(
    ("network", "execution", "message"),
    [
        (NetworkShape(3, 5), Execution(arithmetic="int16"), "integers of this machine have 8 bits"),
        (NetworkShape(3, 5, 1, "hlstm"), Execution(arithmetic="int8"), "cells of one product"),
        (
            NetworkShape(1041, 5),
            Execution(arithmetic="int8", shared_tokens=4),
            "at most 1,040 inputs, input_size is 1,041",
        ),
    ],
)
def test_what_is_not_done_is_refused_by_name(network, execution, message):
    with pytest.raises(PlanError, match=message):
        Plan(preset("test-int8"), network, 2, 2, execution)


def test_a_bias_whose_sum_would_not_fit_a_word_is_refused():
    with pytest.raises(PlanError, match=r"holds the sum of 131,594 integers of δ of 15 bits"):
        Plan(preset("test-int8"), NetworkShape(3, 5), 2, 65798, Execution(arithmetic=INT8))


def test_what_needs_float32_sums_is_refused():
    session = same_training(preset("test-int8"), NetworkShape(3, 5), 2, 2, storage=Storage("ms1", 0.1), iterations=1)
    assert not session.takes_intermediates
    with pytest.raises(DeviceError, match="takes no intermediates"):
        session._load_intermediates(None, None, [], None, None)
    with pytest.raises(DeviceError, match="has no gradient_sums"):
        session._gradient_sums()


def test_a_budget_of_memory_is_refused():
    session = interpreted(preset("test-int8"))
    shape = TrainingShape(NetworkShape(5, 9, 2), 3, 12, Execution(arithmetic=INT8), memory_budget=90_000)
    with pytest.raises(PlanError, match=r"no memory budget can be kept|too small"):
        session.create(shape)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queue_depth": 16}, "queue_depth is 16"),
        ({"weight_depth": 16}, "weight_depth of 16 is too small"),
        ({"broadcast_words": 16}, "broadcast_words"),
    ],
)
def test_a_memory_that_is_too_small_is_named(change, message):
    config = replace(preset("test-int8"), **change)
    with pytest.raises(PlanError, match=message):
        assert Plan(config, NetworkShape(5, 9), 3, 4, Execution(arithmetic=INT8)).program_bytes
