from dataclasses import replace

import numpy as np
import pytest
import torch

from etalstm.data.dataset import Batch
from etalstm.errors import DivergedError
from etalstm.research.compress import prune
from etalstm.research.compress.learner import Learner
from etalstm.research.compress.masks import stored
from etalstm.research.compress.network import Sizes
from etalstm.research.compress.task import MaskedLanguageModel

WORDS, STEPS, STREAMS = 11, 4, 3


def learner_of(dropout=0.0):
    torch.manual_seed(3)
    return Learner(MaskedLanguageModel(Sizes(WORDS, 5, (6, 4)), dropout), clip=1.0, seed=7)


def batch_of(seed=0, real=STEPS):
    words = np.random.default_rng(seed).integers(0, WORDS, (STEPS + 1, STREAMS))
    weights = np.broadcast_to((np.arange(STEPS) < real)[:, None], (STEPS, STREAMS)).astype(np.float32)
    return Batch(words[:-1], np.full(STREAMS, STEPS), words[1:], weights)


def test_dropout_is_drawn_from_the_number_of_the_iteration():
    losses = []
    for number in (0, 1, 0):
        learner = learner_of(dropout=0.5)
        losses.append(learner.iterate(batch_of(), number, 0.0)[0])
    assert losses[0] == losses[2] != losses[1]


def test_states_go_from_one_batch_to_the_next():
    learner = learner_of()
    first = learner.iterate(batch_of(), 0, 0.0)[0]
    assert learner.iterate(batch_of(), 1, 0.0)[0] != first
    learner.rewind()
    assert learner.iterate(batch_of(), 2, 0.0)[0] == first


def test_the_perplexity_of_equal_scores_is_the_number_of_words():
    learner = learner_of()
    with torch.no_grad():
        for parameter in learner.model.output.parameters():
            parameter.zero_()
    assert learner.score([batch_of()]) == pytest.approx(WORDS)


def test_steps_that_only_fill_a_batch_do_not_count():
    learner = learner_of()
    cut = batch_of(real=2)
    other = Batch(cut.x, cut.lengths, np.where(cut.weights > 0, cut.targets, 0), cut.weights)
    assert learner.score([cut]) == learner.score([other]) != learner.score([batch_of()])


def test_gradients_are_means_over_the_batches_and_reach_removed_units():
    learner = learner_of()
    units = learner.model.dimensions[1]
    prune(units, 2)
    found = []
    for batches in ([batch_of(1)], [batch_of(1), batch_of(1)]):
        learner.gradients(batches, [units])
        found.append(units.makers[0].stored.grad.clone())
    assert (units.makers[0].sums(found[0])[~units.kept] > 0).all() and units.count == 2
    assert found[1].abs().max() < 1.5 * found[0].abs().max()


def test_what_is_not_finite_changes_no_weight():
    learner = learner_of()
    with torch.no_grad():
        stored(learner.model.output, "bias")[:] = torch.tensor([-torch.inf] + [0.0] * (WORDS - 1))
    before = [parameter.detach().clone() for parameter in learner.model.parameters()]
    with pytest.raises(DivergedError, match="iteration 5: loss inf"):
        learner.iterate(replace(batch_of(), targets=np.zeros((STEPS, STREAMS), np.int64)), 4, 0.1)
    assert all(torch.equal(*pair) for pair in zip(before, learner.model.parameters(), strict=True))
