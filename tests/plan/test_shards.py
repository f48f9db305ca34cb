"""How groups of channels divide the optimiser's state."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.plan.memory.memory_map import pack, unpack
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset

CONFIG = replace(preset("test"), channels=12, broadcasters=6)
NETWORK = NetworkShape(5, 61, 2)
UNLIKE = NetworkShape(40, 61)  # two groups cut its columns into column spans of 1, 2 and 2 tiles


def layer(groups, network=NETWORK):
    return Plan(CONFIG, network, 12, 2, Execution(slices=groups), groups=groups, parts=3).map.layers[-1]


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 6])
def test_every_row_has_one_owner_that_keeps_it(groups):
    shards = layer(groups).shards
    rows = range(shards.tiling.rows)
    owned = [(group, row) for group, some in shards.owners(rows) for row in some]
    assert [row for _, row in owned] == list(rows)
    assert all(row in shards.rows_of(group) for group, row in owned)
    assert shards.rows_of(groups - 1).stop == shards.tiling.rows
    assert groups * shards.rows - shards.tiling.rows < groups**2, "neighbours overlap by more than the remainder"


def test_rows_that_are_asked_for_are_cut_where_owners_change():
    shards = layer(4).shards
    edge = shards.stride
    assert list(shards.owners(range(edge - 3, edge + 2))) == [(0, range(edge - 3, edge)), (1, range(edge, edge + 2))]
    assert list(shards.owners(range(edge, edge + 2))) == [(1, range(edge, edge + 2))]


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 6])
def test_every_column_span_has_its_norms_summed(groups):
    shards = layer(groups).shards
    firsts = [group * shards.normed_stride for group in range(groups)]
    summed = [shards.columns[first : first + len(shards.normed)] for first in firsts]
    assert {columns for some in summed for columns in some} == set(shards.columns)
    assert {len(some) for some in summed} == {len(shards.normed)}
    assert groups * len(shards.normed) - len(shards.columns) < groups**2


def test_column_spans_of_different_widths_are_summed_by_every_group():
    shards = layer(2, UNLIKE).shards
    assert len({columns.count for columns in shards.columns}) == 2
    assert shards.normed == shards.columns and shards.normed_stride == 0


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("name", ["gradient", "velocity", "norms"])
def test_a_divided_array_comes_back_as_it_was_written(name, groups):
    array = getattr(layer(groups), name)
    values = np.random.default_rng(1).random(array.shape, np.float32)
    words = pack(array, values)
    assert words.shape[0] == CONFIG.channels
    np.testing.assert_array_equal(unpack(array, words), values)


def test_groups_hold_gradients_and_velocities_once():
    """Or twice, where the rows cannot be divided equally."""
    arrays = layer(4)
    overlap = arrays.shards.rows - arrays.shards.stride
    assert len(arrays.partial) == 2 and overlap < 4
    for divided in (arrays.gradient, arrays.velocity, *(dw for dw, _ in arrays.partial)):
        copies = np.bincount(divided.elements[divided.elements >= 0])
        assert copies.size == np.prod(divided.shape) and set(copies) <= {1, 2}
        assert np.count_nonzero(copies == 2) <= 3 * overlap * divided.shape[1]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_exchange_has_room_for_two_column_spans_of_any_layer(groups):
    plan = Plan(CONFIG, NETWORK, 12, 2, Execution(slices=groups), groups=groups)
    exchange, several = plan.map.layers[0].exchange, groups > 1
    assert (exchange is not None) == several == ("exchange" in plan.map.memory.arrays)
    if several:
        sizes = [a.tiling.rows * columns.count for a in plan.map.layers for columns in a.shards.columns]
        assert exchange.array.vectors == 2 * max(sizes) < max(arrays.columns.vectors for arrays in plan.map.layers)
        slots = [exchange.sums(number) for number in range(3)]
        assert slots[0] == slots[2] and slots[0].first + slots[0].vectors == slots[1].first
        assert all(exchange.updated(turn).vectors >= a.shards.rows for turn in range(4) for a in plan.map.layers)
