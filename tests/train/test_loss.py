"""Losses of networks that have learnt nothing."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from etalstm.data import Batch
from etalstm.data.dataset import TASKS
from etalstm.train.loss import squared_error, untrained_loss


def data_of(task, classes, batches=()):
    return SimpleNamespace(task=task, classes=classes, epoch=lambda split, batch, steps: list(batches))


@pytest.mark.parametrize("task", [task for task in TASKS if task != "regress"])
def test_of_classes_it_is_the_logarithm_of_their_number(task):
    assert untrained_loss(data_of(task, 6), 4, 3) == math.log(6)


def test_of_numbers_it_is_the_squared_error_of_their_mean():
    generator = np.random.default_rng(3)
    targets = generator.normal(2, 3, (2, 5, 4)).astype(np.float32)
    weights = np.ones((2, 5), np.float32)
    weights[1, 3:] = 0  # fills the last batch
    batches = [Batch(None, None, part, weight) for part, weight in zip(targets, weights, strict=True)]
    real = np.concatenate([targets[0], targets[1, :3]])
    loss, _ = squared_error(np.broadcast_to(real.mean(axis=0), real.shape), real, np.ones(8, np.float32))
    assert untrained_loss(data_of("regress", 4, batches), 5, 3) == pytest.approx(loss.mean, rel=1e-5)
