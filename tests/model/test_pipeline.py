"""The time of an iteration in a pipeline, against sums made by hand."""

import pytest

from etalstm.model.boards import (
    Durations,
    Links,
    StageTimes,
    durations,
    exchange_seconds,
    last_additions,
    pipeline_bytes,
    pipeline_seconds,
)
from etalstm.network.pipeline_grid import Grid
from etalstm.network.shape import NetworkShape

LINKS = Links(pcie=100, network=10, host=1000, latency=0.5)
STAGES = (range(1), range(1, 2), range(2, 3))


@pytest.mark.parametrize(("depth", "count"), [(1, 4), (2, 1), (2, 5), (3, 8)])
def test_equal_stages_wait_only_while_a_pipeline_fills_and_empties(depth, count):
    stages = [Durations(forward=1.0, backward=2.0, added=0.0, end=0.0)] * depth
    assert max(last_additions(Grid(STAGES[:depth], 1, count), stages)) == (count + depth - 1) * 3.0


def test_the_slowest_stage_sets_the_pace():
    stages = [Durations(1.0, 2.0, 0.0, 0.0), Durations(2.0, 4.0, 0.0, 0.0)]
    assert last_additions(Grid(STAGES[:2], 1, 6), stages)[0] == 1 + 6 * 6 + 2


def test_additions_are_beside_the_passes_unless_they_take_longer():
    grid, short, long = Grid(STAGES[:1], 1, 4), Durations(1.0, 2.0, 3.0, 0.0), Durations(1.0, 2.0, 8.0, 0.0)
    assert last_additions(grid, [short]) == [4 * 3 + 2 * 3], "of the tree of four, two additions follow the last"
    assert last_additions(grid, [long]) == [2 * 3 + 3 * 8]


def test_what_moves_is_part_of_a_step():
    network, grid, times = NetworkShape(3, 5, 2), Grid((range(1), range(1, 2)), 2, 4), StageTimes(1.0, 2.0, 0.25)
    low, top = (durations(stage, times, grid, network, 6, 7, LINKS) for stage in range(2))
    x, y = 4 * 6 * 7 * 3, 4 * 6 * 7 * 5
    of_low, of_top = 4 * 20 * (3 + 5 + 1), 4 * 20 * (5 + 5 + 1)
    assert low.forward == pytest.approx((x + y) / 100 + 1)
    assert top.forward == pytest.approx(y / 10 + 0.5 + 2 * y / 100 + 1)
    assert low.backward == pytest.approx(y / 10 + 0.5 + (x + y) / 100 + 2 + of_low / 100)
    assert top.backward == pytest.approx(2 * (y / 10 + 0.5) + 2 * y / 100 + 2 + of_top / 100)
    assert low.added == pytest.approx(3 * of_low / 1000)
    assert low.end == pytest.approx(exchange_seconds(of_low, 2, LINKS) + 2 * (of_low / 100 + 0.25))
    ends = last_additions(grid, [low, top])
    expected = 2 * 4 * x / 10 + max(ends[0] + low.end, ends[1] + top.end)
    assert pipeline_seconds([times, times], grid, network, 6, 7, LINKS) == pytest.approx(expected)


def test_the_link_of_rank_0_has_room_for_so_much():
    network, grid = NetworkShape(3, 5, 2), Grid((range(1), range(1, 2)), 4, 8)
    nothing = [StageTimes(0.0, 0.0, 0.0)] * 2
    links = Links(pcie=1e9, network=10, host=1e9, latency=1e-9)
    assert pipeline_seconds(nothing, grid, network, 6, 7, links) > 4 * 6 * 7 * (32 * 5 + 2 * 24 * 3) / 10


def test_all_that_hosts_send_is_counted():
    network, of_batch = NetworkShape(3, 5, 2), 4 * 2 * 30 * 7
    assert pipeline_bytes(network, 30, 7, Grid((range(1), range(1, 2)), 1, 8)) == of_batch * 2 * 5
    gradients = 4 * 20 * (3 + 5 + 1) + 4 * 20 * (5 + 5 + 1)
    found = pipeline_bytes(network, 30, 7, Grid((range(1), range(1, 2)), 3, 8))
    assert found == of_batch * (2 + 2 * 5) + 2 * 2 * gradients
