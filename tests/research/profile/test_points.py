import pytest

from etalstm.research.profile.points import hysteresis_points, never_pays


def test_a_point_is_faster_than_every_larger_size():
    # 4 and 8 end their bins; 5 to 7 are as fast as 8 or slower
    latencies = {1: 1.0, 2: 3.0, 3: 2.5, 4: 2.0, 5: 5.0, 6: 4.0, 7: 5.0, 8: 4.0}
    assert hysteresis_points(latencies) == (1, 4, 8)
    assert never_pays(latencies) == 5 / 8


def test_where_every_size_is_slower_than_the_one_before_all_are_points():
    assert hysteresis_points({size: size for size in range(1, 9)}) == tuple(range(1, 9))
    assert never_pays({size: size for size in range(1, 9)}) == 0


def test_a_size_that_saves_the_tolerance_or_less_is_no_point():
    latencies = {1: 100, 2: 102, 3: 104.1, 4: 150}
    assert hysteresis_points(latencies, 0.02) == (2, 3, 4)
    assert hysteresis_points(latencies, 0.03) == (3, 4)


def test_the_order_in_which_sizes_are_given_does_not_matter():
    assert hysteresis_points({8: 2.0, 4: 1.0, 6: 2.0}) == (4, 8)


def test_a_size_that_does_not_fit_is_no_point():
    assert hysteresis_points({1: 1.0, 2: 2.0, 3: None}) == (1, 2)
    assert never_pays({1: 2.0, 2: 2.0, 3: None}) == 0.5
    assert never_pays({3: None}) == 0


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf")])
def test_a_tolerance_that_cannot_be_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance must be at least 0 and finite, got"):
        hysteresis_points({1: 1.0}, tolerance)
