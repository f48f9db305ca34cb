import pytest

from etalstm.research.compress.changes import Attempt, Guides, grown_counts, next_attempt

FREE = [None, None]


def test_a_share_of_each_dimension_goes():
    assert next_attempt([20, 10], 0.2, None, FREE) == Attempt((16, 8), 0.2)


def test_at_least_one_element_goes_and_one_stays():
    assert next_attempt([3, 1], 0.2, None, FREE) == Attempt((2, 1), 0.2)
    assert next_attempt([1, 1], 0.2, None, FREE) is None


def test_the_ratio_is_halved_until_the_sizes_are_others_than_those_that_failed():
    assert next_attempt([20, 10], 0.2, [16, 8], FREE) == Attempt((18, 9), 0.1)
    assert next_attempt([10, 10], 0.1, [9, 9], FREE) is None


def test_guided_sizes_are_points_only(make_profile):
    guides = [None, make_profile([4, 8, 10])]
    assert next_attempt([20, 10], 0.2, None, guides) == Attempt((16, 8), 0.2)
    assert next_attempt([20, 10], 0.5, None, guides) == Attempt((10, 4), 0.5)
    assert next_attempt([20, 10], 0.5, [10, 4], guides) == Attempt((15, 8), 0.25)
    assert next_attempt([20, 9], 0.5, [10, 8], guides) == Attempt((10, 4), 0.5), "others than those that failed"
    assert next_attempt([20, 9], 0.1, [18, 8], guides) is None, "fewer inputs alone are no other sizes"
    assert next_attempt([1, 4], 0.5, None, guides) is None, "there is no point below 4"


def test_growth_leads_to_the_next_point_and_not_beyond_the_size(make_profile):
    guide = make_profile([4, 8, 16])
    assert grown_counts([7, 5, 8, 9], [12] * 4, [None, guide, guide, guide]) == (7, 8, 8, 9)


@pytest.mark.parametrize("other", [{"tolerance": 0.5}, {"batch": 5}])
def test_guides_that_differ_have_other_digests(other, make_profile):
    one = Guides(make_profile([4, 8]))
    assert one.digest == Guides(make_profile([4, 8])).digest
    assert one.digest != Guides(make_profile([4, 8], **other)).digest
    assert one.digest != Guides(None, make_profile([4, 8])).digest
