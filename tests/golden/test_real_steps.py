"""Real steps are taken out of padded batches, and put back."""

import numpy as np
import pytest

from etalstm.golden.passes import active_steps, term_numbers, with_padding, without_padding

STEPS = 5
LENGTHS = {"full": [5, 5, 5], "descending": [5, 3, 1], "mixed": [2, 5, 1]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_real_steps_ascend_in_t_then_in_b_and_return(lengths, dtype):
    active = active_steps(np.array(LENGTHS[lengths]), STEPS)
    steps = np.random.default_rng(1).normal(size=(STEPS, 3, 7)).astype(dtype)
    terms = without_padding(steps, active)
    places = [(t, b) for t in range(STEPS) for b in range(3) if t < LENGTHS[lengths][b]]
    assert np.array_equal(terms, [steps[place] for place in places])
    assert [term_numbers(active)[place] for place in places] == list(range(len(places)))
    padded = with_padding(terms, active)
    assert np.array_equal(padded, np.where(active[:, :, None], steps, 0)) and padded.dtype == dtype


def test_steps_in_another_order_of_memory():
    active = active_steps(np.array(LENGTHS["mixed"]), STEPS)
    steps = np.random.default_rng(1).normal(size=(7, 3, STEPS)).T
    terms = without_padding(steps, active)
    assert np.array_equal(terms, steps[active])
    expanded = np.broadcast_to(np.float32(1), terms.shape)
    assert np.array_equal(with_padding(expanded, active)[active], expanded)


def test_padding_is_positive_zero():
    padded = with_padding(np.full((6, 2), -1, np.float32), active_steps(np.array([4, 2]), 4))
    assert padded[2:, 1].view(np.uint32).tolist() == [[0, 0], [0, 0]]
