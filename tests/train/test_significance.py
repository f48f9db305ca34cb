"""Cells that add little are found, at either end, with any lengths, and the guard stops what harms."""

import numpy as np
import pytest

from etalstm.train.significance import (
    BAND,
    EPOCHS_FULL,
    MEASURE_EVERY,
    MEASURE_FULL,
    MOST_COMPENSATION,
    NEW_SHARE,
    Significance,
    Skipping,
    extrapolate,
    read_parts,
)

STEPS = 6
FALLING = 2.0 ** -np.arange(STEPS)  # by distance from the end: what a loss at the last step gives
UNTRAINED = 4.0
ALLOWED = BAND * (UNTRAINED - 1.0)  # rise of a validation loss whose trend is 1
LAST_IS_LEAST = FALLING[::-1].copy()


def contributions(profile, lengths):
    """What sequences add, as the profile says; (1, T, B)."""
    distance = np.asarray(lengths)[None, :] - 1 - np.arange(STEPS)[:, None]
    return np.where(distance >= 0, profile[np.maximum(distance, 0)], 0.0)[None]


def significance_of(layers, steps, skipping, per_step):
    return Significance(layers, steps, skipping, per_step, UNTRAINED)


def ready(tau=0.2, profile=FALLING, per_step=False, losses=(1.0, 1.0, 1.0), lengths=(6, 6), **rule):
    significance = significance_of(1, STEPS, Skipping(tau, **rule), per_step)
    lengths = np.array(lengths)
    significance.measure(contributions(profile, lengths), lengths, 1.0)
    for loss in losses:
        significance.end_iteration(loss)
        significance.end_epoch(1.0)
    return significance


def skipped(significance, *lengths):
    plan, _ = significance.plan(1, np.array(lengths), STEPS)
    return "".join("-s"[int(cell)] for cell in plan[0])


@pytest.mark.parametrize(
    ("losses", "expected"),
    [([4, 2, 1], 0.5), ([4, 2, 1.5], 1.375), ([2, 1], 1), ([1], 1), ([1, 2, 3], 3), ([3, 3, 2], 2), ([4, 3, 0.5], 0)],
)
def test_losses_are_extrapolated_by_the_ratio_of_their_falls(losses, expected):
    assert extrapolate(losses) == expected


def test_a_loss_at_the_last_step_drops_the_first_cells():
    assert skipped(ready(), 6, 6) == "sss---"


@pytest.mark.parametrize("losses", [(1, 1, 1), (4, 2, 1), (4, 2, 1.5)])
def test_how_fast_the_loss_falls_does_not_move_the_choice(losses):
    assert skipped(ready(losses=losses), 6, 6) == "sss---"


def test_the_largest_cell_is_kept_whatever_tau():
    assert skipped(ready(tau=0.9), 6, 6) == "sssss-"
    assert skipped(ready(tau=0.9, profile=LAST_IS_LEAST, per_step=True), 6, 6) == "-sssss"


def test_a_loss_at_every_step_drops_the_last_cells():
    assert skipped(ready(profile=LAST_IS_LEAST, per_step=True), 6, 6) == "---sss"


def test_short_sequences_keep_their_ends_and_padding_is_skipped():
    significance = ready()
    assert skipped(significance, 4, 4) == "s---ss"
    assert skipped(significance, 2, 6) == "--s---"
    assert skipped(significance, 4, 6) == "s-----"


def test_cells_between_a_large_one_and_the_loss_are_kept():
    hump = np.array([0.01, 1, 1, 0.01, 0.01, 0.01])  # by distance: what the large ones have comes through the last cell
    assert skipped(ready(profile=hump), 6, 6) == "sss---"
    assert skipped(ready(profile=hump, per_step=True), 6, 6) == "sss--s", "there they have a loss of their own"


def test_what_lies_beyond_a_skipped_cell_is_skipped():
    dip = np.array([1, 1, 0.01, 0.5, 0.5, 0.5])
    assert skipped(ready(profile=dip), 6, 6) == "ssss--"
    assert skipped(ready(profile=dip[::-1].copy(), per_step=True), 6, 6) == "--ssss"


@pytest.mark.parametrize("per_step", [False, True])
def test_no_kept_cell_of_one_layer_has_a_gap_before_its_gradient(per_step):
    generator = np.random.default_rng(7)
    for _ in range(50):
        significance = significance_of(2, STEPS, Skipping(0.4), per_step)
        lengths = np.full(3, STEPS)
        significance.measure(generator.random((2, STEPS, 3)) ** 4, lengths, 1.0)
        for _ in range(EPOCHS_FULL):
            significance.end_iteration(1.0)
            significance.end_epoch(1.0)
        plan, _ = significance.plan(1, lengths, STEPS)
        runs = np.count_nonzero(np.diff(plan.astype(int), axis=1, prepend=1) == -1, axis=1)
        assert (runs <= 1).all() and runs[1] == 1
        assert per_step or not plan[:, -1].any()


def test_a_lower_layer_keeps_what_its_large_cells_get_their_gradient_through():
    significance = significance_of(2, 3, Skipping(0.5), False)
    profile = np.array([[[1.0], [1.0], [0.1]], [[0.1], [1.0], [1.0]]])  # layer, step: one sequence
    significance.measure(profile, np.array([3]), 1.0)
    for _ in range(3):
        significance.end_iteration(1.0)
        significance.end_epoch(1.0)
    plan, _ = significance.plan(1, np.array([3]), 3)
    assert plan.tolist() == [[False, False, False], [True, False, False]]


def test_cells_that_no_gradient_reaches_are_skipped():
    significance = significance_of(2, 4, Skipping(0.5), True)
    profile = np.array([[0.1, 0.1, 1, 1], [1, 1, 0.1, 0.1]])[:, :, None]  # layer, step: above them nothing is kept
    significance.measure(profile, np.array([4]), 1.0)
    for _ in range(3):
        significance.end_iteration(1.0)
        significance.end_epoch(1.0)
    plan, _ = significance.plan(1, np.array([4]), 4)
    assert plan.tolist() == [[True, True, True, True], [False, False, True, True]]


def test_measurements_at_different_losses_go_together():
    significance = significance_of(1, STEPS, Skipping(0.2), False)
    lengths = np.array([6, 6])
    significance.measure(4 * contributions(np.ones(STEPS), lengths), lengths, 4.0)
    significance.measure(0.1 * contributions(FALLING, lengths), lengths, 0.1)
    assert np.allclose(significance.arrays["profile"], (1 - NEW_SHARE) + NEW_SHARE * FALLING)


def test_distances_that_were_never_measured_are_kept_unless_beyond_a_skipped_one():
    assert skipped(ready(tau=0.1, lengths=(4, 4)), 6, 6) == "------"
    assert skipped(ready(tau=0.2, lengths=(4, 4)), 6, 6) == "sss---"


def test_a_few_long_sequences_do_not_set_the_reference():
    noisy = FALLING.copy()
    noisy[5] = 100.0
    significance = ready(profile=noisy, lengths=(5, 5, 5, 6))
    assert skipped(significance, 5, 5) == "ss---s"
    assert skipped(ready(profile=noisy), 5, 5) == "-----s"


def test_compensation_is_everything_predicted_over_what_is_kept():
    _, compensation = ready().plan(1, np.array([6, 6]), STEPS)
    norms = np.linalg.norm(FALLING), np.linalg.norm(FALLING[:3])
    assert compensation == pytest.approx(norms[0] / norms[1])


def test_first_epochs_and_measured_iterations_are_full():
    significance = significance_of(1, STEPS, Skipping(0.2), False)
    lengths = np.array([6, 6])
    for _ in range(EPOCHS_FULL):
        assert significance.plan(1, lengths, STEPS) == (None, 1.0)
        significance.measure(contributions(FALLING, lengths), lengths, 1.0)
        significance.end_iteration(1.0)
        significance.end_epoch(1.0)
    assert significance.plan(1, lengths, STEPS)[0].any()
    assert significance.plan(5 * MEASURE_EVERY, lengths, STEPS) == (None, 1.0)


def test_full_epochs_measure_more_often():
    significance = significance_of(1, STEPS, Skipping(0.2), False)
    assert [n for n in range(3 * MEASURE_FULL) if significance.measures(n)] == [0, MEASURE_FULL, 2 * MEASURE_FULL]
    assert [n for n in range(3 * MEASURE_EVERY) if ready().measures(n)] == [0, MEASURE_EVERY, 2 * MEASURE_EVERY]


def epoch(significance, validation_loss, loss=1.0):
    full = significance.plan(1, np.array([6, 6]), STEPS)[0] is None
    significance.end_iteration(loss)
    significance.end_epoch(validation_loss)
    return full


def test_the_guard_halves_tau_when_a_full_epoch_heals():
    significance = ready()
    assert not epoch(significance, 1.0 + ALLOWED / 2)
    assert not epoch(significance, 1.0 + 1.1 * ALLOWED)
    assert significance.tau == pytest.approx(0.1)
    assert epoch(significance, 1.0)
    assert not epoch(significance, 1.0) and significance.tau == pytest.approx(0.1)


def test_the_guard_restores_tau_when_a_full_epoch_is_no_better():
    significance = ready()
    assert not epoch(significance, 2.0)
    assert epoch(significance, 2.0)
    assert significance.tau == pytest.approx(0.2)
    assert not epoch(significance, 2.1), "the trend has moved"
    assert significance.tau == pytest.approx(0.2)


def test_the_guard_lets_a_network_overfit():
    falling = ready(losses=(8, 4, 2))
    assert not epoch(falling, 2.0, loss=1.4), "more than half of the fall to 1"
    assert not epoch(falling, 2.0, loss=1.0) and falling.tau == pytest.approx(0.2)
    slower = ready(losses=(8, 4, 2))
    assert not epoch(slower, 2.0, loss=1.6)
    assert epoch(slower, 2.0) and slower.tau == pytest.approx(0.2), "the full epoch was no better"


def test_the_guard_allows_a_share_of_what_has_been_learnt():
    lengths = np.array([6, 6])
    for untrained, halved in ((1.5, True), (3.0, False)):
        significance = Significance(1, STEPS, Skipping(0.2), False, untrained)
        significance.measure(contributions(FALLING, lengths), lengths, 1.0)
        for _ in range(EPOCHS_FULL):
            significance.end_epoch(1.0)
        epoch(significance, 1.0 + BAND)
        assert (significance.tau < 0.2) == halved, untrained


def test_without_its_guard_no_loss_stops_the_skipping():
    significance = ready(without=("guard",))
    for loss in (2.0, 4.0, 8.0):
        assert not epoch(significance, loss)
    assert significance.tau == pytest.approx(0.2)


def test_without_compensation_the_gradient_stays_as_it_is():
    plan, compensation = ready(without=("compensation",)).plan(1, np.array([6, 6]), STEPS)
    assert compensation == 1.0 and plan.tolist() == ready().plan(1, np.array([6, 6]), STEPS)[0].tolist()


def test_without_the_loss_measurements_are_averaged_as_they_are():
    significance = significance_of(1, STEPS, Skipping(0.2, without=("loss",)), False)
    lengths = np.array([6, 6])
    significance.measure(4 * contributions(np.ones(STEPS), lengths), lengths, 4.0)
    significance.measure(0.1 * contributions(FALLING, lengths), lengths, 0.1)
    assert np.allclose(significance.arrays["profile"], 4 * (1 - NEW_SHARE) + 0.1 * NEW_SHARE * FALLING)


def test_truncation_keeps_so_many_last_steps_of_each_sequence():
    significance = ready(profile=LAST_IS_LEAST, last_steps=2)
    assert skipped(significance, 6, 6) == "ssss--"
    assert skipped(significance, 4, 6) == "ss----"
    assert skipped(significance, 1, 1) == "-sssss"
    norms = np.linalg.norm(LAST_IS_LEAST), np.linalg.norm(LAST_IS_LEAST[:2])
    assert significance.plan(1, np.array([6, 6]), STEPS)[1] == pytest.approx(
        min(norms[0] / norms[1], MOST_COMPENSATION)
    )


def test_truncation_alone_measures_nothing_and_no_guard_stops_it():
    rule = {"last_steps": 2, "without": ("compensation",)}
    significance = ready(**rule)
    assert not any(significance.measures(n) for n in range(2 * MEASURE_EVERY))
    assert not epoch(significance, 9.0) and not epoch(significance, 9.0)
    from_the_start = significance_of(1, STEPS, Skipping(full_epochs=0, **rule), False)
    assert skipped(from_the_start, 6, 6) == "ssss--"


@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_so_many_epochs_skip_no_cell(epochs):
    significance, lengths = significance_of(1, STEPS, Skipping(0.2, full_epochs=epochs), False), np.array([6, 6])
    significance.measure(contributions(FALLING, lengths), lengths, 1.0)
    assert [epoch(significance, 1.0) for _ in range(7)] == [True] * epochs + [False] * (7 - epochs)


@pytest.mark.parametrize("text", ["profile", "loss,", "loss, guard"])
def test_refuses_what_is_no_part(text):
    assert read_parts("guard,loss") == ("guard", "loss") and read_parts("") == ()
    with pytest.raises(ValueError, match="ms2_without must be of compensation, loss, guard, with commas between"):
        read_parts(text)


def test_state_comes_back_from_its_arrays():
    first = ready()
    epoch(first, 2.0)
    first.end_iteration(0.3)
    again = significance_of(1, STEPS, Skipping(0.2), False)
    again.arrays = {name: array.copy() for name, array in first.arrays.items()}
    for significance in (first, again):
        epoch(significance, 2.0)
    assert all(np.array_equal(again.arrays[name], array, equal_nan=True) for name, array in first.arrays.items())
    assert skipped(first, 3, 6) == skipped(again, 3, 6)
    other = significance_of(1, STEPS, Skipping(0.7), False)
    other.arrays = first.arrays
    assert other.tau == pytest.approx(0.7) and first.tau != 0.2
