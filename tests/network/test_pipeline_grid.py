"""How layers are spread over machines, and in which order they work."""

from itertools import combinations, pairwise

import pytest

from etalstm.network.pipeline_grid import (
    BACKWARD,
    FORWARD,
    PER_STAGE,
    Grid,
    best_micro_batches,
    grid_of,
    micro_batches_of,
    spread,
)

GRIDS = [Grid(tuple(range(n, n + 1) for n in range(depth)), 2, count) for depth in (1, 2, 4) for count in (1, 3, 8)]


@pytest.mark.parametrize("grid", GRIDS)
def test_each_stage_keeps_no_more_micro_batches_than_it_may(grid):
    for rank in range(grid.ranks):
        role, kept, most = grid.role(rank), set(), 0
        for way, number in role.order():
            if way == FORWARD:
                kept.add(number)
            else:
                assert number == min(kept), "the oldest comes first"
                kept.remove(number)
            most = max(most, len(kept))
        assert most == role.most_kept <= grid.depth - role.stage
        assert sorted(role.order()) == sorted(
            (way, n) for way in (FORWARD, BACKWARD) for n in range(grid.micro_batches)
        )


@pytest.mark.parametrize("grid", GRIDS)
def test_every_rank_has_a_place_of_its_own(grid):
    roles = [grid.role(rank) for rank in range(grid.ranks)]
    assert len({(role.pipeline, role.stage) for role in roles}) == grid.ranks
    for rank, role in enumerate(roles):
        assert role.first or roles[role.below].above == rank
        assert role.last or roles[role.above].stage == role.stage + 1
    assert sorted({part for role in roles for part in role.parts}) == list(range(grid.parts))


@pytest.mark.parametrize("costs", [[1, 1, 1], [3, 1, 1, 1, 2], [1, 5, 1, 1, 1, 4]])
def test_the_most_costly_stage_costs_least(costs):
    for stages in range(1, len(costs) + 1):
        divisions = (
            [sum(costs[a:b]) for a, b in pairwise((0, *cuts, len(costs)))]
            for cuts in combinations(range(1, len(costs)), stages - 1)
        )
        found = spread(costs, stages)
        assert [n for layers in found for n in layers] == list(range(len(costs)))
        assert max(sum(costs[n] for n in layers) for layers in found) == min(map(max, divisions))


def test_micro_batches_have_several_slices_where_there_are_many():
    assert [micro_batches_of(slices, 2) for slices in (1, 4, 8, 16, 12, 20, 15)] == [1, 4, 8, 8, 12, 20, 15]
    grid = grid_of(8, 2, 64, [2, 1, 1])
    assert (grid.pipelines, grid.micro_batches, grid.stages) == (4, 8, (range(1), range(1, 3)))


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("each", [1, 5])
def test_the_best_micro_batches_are_those_that_their_slices_are_divided_into(depth, each):
    count = best_micro_batches(depth, 100)
    assert PER_STAGE * depth <= count < 2 * PER_STAGE * depth
    assert micro_batches_of(count * each, depth) == count
    assert best_micro_batches(depth, 6) == 4, "no more than sequences"
