"""Cells that add little are found, at either end, with any lengths, and the guard stops what harms."""

import numpy as np
import pytest

from etalstm.train.significance import BAND, EPOCHS_FULL, MEASURE_EVERY, Significance, extrapolate

STEPS = 6
FALLING = 2.0 ** -np.arange(STEPS)  # by distance from the end: what a loss at the last step gives
LAST_IS_LEAST = FALLING[::-1].copy()


def contributions(profile, lengths):
    """What sequences add, as the profile says; (1, T, B)."""
    distance = np.asarray(lengths)[None, :] - 1 - np.arange(STEPS)[:, None]
    return np.where(distance >= 0, profile[np.maximum(distance, 0)], 0.0)[None]


def ready(tau=0.2, profile=FALLING, per_step=False, losses=(4.0, 2.0, 1.0), lengths=(6, 6)):
    significance = Significance(1, STEPS, tau, per_step)
    lengths = np.array(lengths)
    significance.measure(contributions(profile, lengths), lengths)
    for loss in losses:
        significance.end_iteration(loss)
        significance.end_epoch(1.0)
    return significance


def skipped(significance, *lengths):
    plan, _ = significance.plan(1, np.array(lengths))
    return "".join("-x"[int(cell)] for cell in plan[0])


@pytest.mark.parametrize(
    ("losses", "expected"),
    [([4, 2, 1], 0.5), ([4, 2, 1.5], 1.375), ([2, 1], 1), ([1], 1), ([1, 2, 3], 3), ([3, 3, 2], 2), ([4, 3, 0.5], 0)],
)
def test_losses_are_extrapolated_by_the_ratio_of_their_falls(losses, expected):
    assert extrapolate(losses) == expected


def test_a_loss_at_the_last_step_drops_the_first_cells():
    assert skipped(ready(losses=(1, 1, 1)), 6, 6) == "xxx---"


def test_a_loss_that_is_about_to_fall_drops_more():
    assert skipped(ready(losses=(4, 2, 1)), 6, 6) == "xxxx--"


def test_the_largest_cell_is_kept_however_fast_the_loss_falls():
    assert skipped(ready(tau=0.9, losses=(4, 2, 1)), 6, 6) == "xxxxx-"
    assert skipped(ready(tau=0.9, losses=(4, 2, 1), profile=LAST_IS_LEAST, per_step=True), 6, 6) == "-xxxxx"


def test_a_loss_at_every_step_drops_the_last_cells():
    assert skipped(ready(profile=LAST_IS_LEAST, per_step=True, losses=(1, 1, 1)), 6, 6) == "---xxx"


def test_short_sequences_keep_their_ends_and_padding_is_skipped():
    significance = ready(losses=(1, 1, 1))
    assert skipped(significance, 4, 4) == "x---xx"
    assert skipped(significance, 2, 6) == "--x---"
    assert skipped(significance, 4, 6) == "x-----"


def test_cells_that_no_gradient_reaches_are_skipped():
    hump = np.array([0.01, 1, 1, 1, 1, 1])  # by distance: the last cell, through which everything comes, is small
    assert skipped(ready(profile=hump, losses=(1, 1, 1)), 6, 6) == "xxxxxx"
    assert skipped(ready(profile=hump, losses=(1, 1, 1), per_step=True), 6, 6) == "-----x"


def test_a_lower_layer_is_reached_through_the_one_above():
    significance = Significance(2, 3, 0.5, False)
    profile = np.array([[[1.0], [1.0], [0.1]], [[0.1], [1.0], [1.0]]])  # layer, step: one sequence
    significance.measure(profile, np.array([3]))
    for _ in range(3):
        significance.end_iteration(1.0)
        significance.end_epoch(1.0)
    plan, _ = significance.plan(1, np.array([3]))
    assert plan.tolist() == [[False, False, True], [True, False, False]]


def test_distances_that_were_never_measured_are_kept():
    assert skipped(ready(lengths=(4, 4), losses=(1, 1, 1), per_step=True), 6, 6) == "--x---"


def test_a_few_long_sequences_do_not_set_the_reference():
    noisy = FALLING.copy()
    noisy[5] = 100.0
    significance = ready(profile=noisy, losses=(1, 1, 1), lengths=(5, 5, 5, 6))
    assert skipped(significance, 5, 5) == "xx---x"
    assert skipped(ready(profile=noisy, losses=(1, 1, 1)), 5, 5) == "xxxxxx"


def test_compensation_is_everything_predicted_over_what_is_kept():
    _, compensation = ready(losses=(1, 1, 1)).plan(1, np.array([6, 6]))
    assert compensation == pytest.approx(FALLING.sum() / FALLING[:3].sum())


def test_first_epochs_and_measured_iterations_are_full():
    significance = Significance(1, STEPS, 0.2, False)
    lengths = np.array([6, 6])
    for _ in range(EPOCHS_FULL):
        assert significance.plan(1, lengths) == (None, 1.0)
        significance.measure(contributions(FALLING, lengths), lengths)
        significance.end_iteration(1.0)
        significance.end_epoch(1.0)
    assert significance.plan(1, lengths)[0].any()
    assert significance.plan(5 * MEASURE_EVERY, lengths) == (None, 1.0)


def epoch(significance, validation_loss):
    full = significance.plan(1, np.array([6, 6]))[0] is None
    significance.end_iteration(1.0)
    significance.end_epoch(validation_loss)
    return full


def test_the_guard_halves_tau_when_a_full_epoch_heals():
    significance = ready(losses=(1, 1, 1))
    assert not epoch(significance, 1.0 + BAND / 2)
    assert not epoch(significance, 1.1 * (1 + BAND))
    assert significance.tau == pytest.approx(0.1)
    assert epoch(significance, 1.0)
    assert not epoch(significance, 1.0) and significance.tau == pytest.approx(0.1)


def test_the_guard_restores_tau_when_a_full_epoch_is_no_better():
    significance = ready(losses=(1, 1, 1))
    assert not epoch(significance, 2.0)
    assert epoch(significance, 2.0)
    assert significance.tau == pytest.approx(0.2)
    assert not epoch(significance, 2.1), "the trend has moved"
    assert significance.tau == pytest.approx(0.2)


def test_state_comes_back_from_its_arrays():
    first = ready()
    epoch(first, 2.0)
    first.end_iteration(0.3)
    again = Significance(1, STEPS, 0.2, False)
    again.arrays = {name: array.copy() for name, array in first.arrays.items()}
    for significance in (first, again):
        epoch(significance, 2.0)
    assert all(np.array_equal(again.arrays[name], array, equal_nan=True) for name, array in first.arrays.items())
    assert skipped(first, 3, 6) == skipped(again, 3, 6)
    other = Significance(1, STEPS, 0.7, False)
    other.arrays = first.arrays
    assert other.tau == pytest.approx(0.7) and first.tau != 0.2
