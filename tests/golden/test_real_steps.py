"""Threads take real steps out of padded batches, and put them back, as the reference does."""

import numpy as np
import pytest

from etalstm.golden import padding
from etalstm.golden.passes import active_steps, with_padding, without_padding

STEPS = 5
LENGTHS = {"full": [5, 5, 5], "descending": [5, 3, 1], "mixed": [2, 5, 1]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_real_steps_have_the_order_of_the_reference_and_return(lengths, dtype):
    active = active_steps(np.array(LENGTHS[lengths]), STEPS)
    steps = np.random.default_rng(1).normal(size=(STEPS, 3, 7)).astype(dtype)
    terms = padding.real_steps(steps, active)
    assert np.array_equal(terms, without_padding(steps, active))
    padded = padding.padded_steps(terms, active)
    assert np.array_equal(padded, with_padding(terms, active)) and padded.dtype == dtype


def test_steps_in_another_order_of_memory():
    active = active_steps(np.array(LENGTHS["mixed"]), STEPS)
    steps = np.random.default_rng(1).normal(size=(7, 3, STEPS)).T
    terms = padding.real_steps(steps, active)
    assert np.array_equal(terms, steps[active])
    expanded = np.broadcast_to(np.float32(1), terms.shape)
    assert np.array_equal(padding.padded_steps(expanded, active)[active], expanded)


def test_padding_is_positive_zero():
    padded = padding.padded_steps(np.full((6, 2), -1, np.float32), active_steps(np.array([4, 2]), 4))
    assert padded[2:, 1].view(np.uint32).tolist() == [[0, 0], [0, 0]]
