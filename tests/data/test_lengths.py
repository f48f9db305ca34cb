"""Batches of sequences of one length, put together from batches of any lengths."""

import numpy as np
import pytest

from etalstm.data.dataset import Batch
from etalstm.data.lengths import Amount, of_length

STEPS, SIZE = 4, 3


def batch(lengths, first, per_step):
    """Sequences that are told apart: every number of sequence n is n, or 10 n + step."""
    names = first + np.arange(len(lengths))
    by_step = 10 * names + np.arange(STEPS)[:, None]
    targets = by_step if per_step else names
    return Batch(by_step, np.array(lengths), targets, targets.astype(np.float32))


@pytest.mark.parametrize("per_step", [False, True])
def test_sequences_keep_what_belongs_to_them(per_step):
    epoch = [batch([2, 4, 2], 0, per_step), batch([1, 2, 2], 3, per_step), batch([2, 2, 3], 6, per_step)]
    found = of_length(epoch, 2, SIZE, per_step)
    assert [list(b.x[0] // 10) for b in found] == [[0, 2, 4], [5, 6, 7]]
    for one in found:
        names, by_step = one.x[0] // 10, one.x
        assert one.x.shape == (2, SIZE) and np.array_equal(by_step, 10 * names + np.arange(2)[:, None])
        assert np.array_equal(one.targets, by_step if per_step else names)
        assert np.array_equal(one.weights, one.targets) and set(one.lengths) == {2}


class Endless:
    """A data set whose epochs are told apart."""

    per_step, steps, epochs = False, STEPS, 0

    def epoch(self, split, size, steps, generator):
        assert (split, size) == ("train", SIZE)
        self.epochs += 1
        return [batch([steps] * SIZE, 10 * self.epochs + SIZE * n, False) for n in range(2)]


@pytest.mark.parametrize("length", [None, STEPS])
def test_more_batches_than_an_epoch_has_come_from_the_next(length):
    data = Endless()
    chosen = Amount(5, length).choose(data, SIZE, STEPS)
    assert [one.targets[0] for one in chosen] == [10, 13, 20, 23, 30] and data.epochs == 3
