"""Anybody's batches train, whatever makes them, and those that do not suit are refused by number."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.data import Batch, Batches, Encoding, Sequences, examples_of
from etalstm.device import open_device
from etalstm.errors import CheckpointError, DataError
from etalstm.train import load
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings


class Tensor:
    """An array as other libraries have it: nothing but ``__array__`` is asked for."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype)


class Loader:
    """What a ``DataLoader`` is to a trainer: lists of tensors, sequences first, the last batch smaller."""

    def __init__(self, count, batch=8, seed=0):
        generator = np.random.default_rng(seed)
        self.x = generator.standard_normal((count, 5, 3)).astype(np.float32)
        self.y = (self.x[:, :, 0].sum(axis=1) > 0).astype(np.int64)
        self._batch = batch

    def __iter__(self):
        for n in range(0, len(self.x), self._batch):
            yield [Tensor(self.x[n : n + self._batch]), Tensor(self.y[n : n + self._batch])]


def loaders():
    return [Loader(count, seed=seed) for seed, count in enumerate((201, 43, 44))]


def batches_of(item, task="classify", **others):
    return Batches([item], [item], [item], task, classes=2, steps=5, **({"input_size": 3} | others))


def test_a_loader_trains_as_its_arrays_do(tmp_path):
    settings = Settings(hidden=12, batch=8, epochs=6)
    data = Batches(*loaders(), "classify", classes=2, steps=5, input_size=3)
    last = Trainer(settings, open_device("golden"), tmp_path / "run", data=data).run()
    assert last["accuracy"] > 0.8
    with load(tmp_path / "run") as model:
        assert model.evaluate(data)["accuracy"] > 0.8
        assert set(model.predict([loaders()[2].x[0], loaders()[2].x[1][:3]])) <= {"0", "1"}
    splits = {
        name: examples_of(loader.x, loader.y, None, "classify")
        for name, loader in zip(("train", "validation", "test"), loaders(), strict=True)
    }
    arrays = Sequences("mine", "classify", splits, 2)
    assert Trainer(settings, open_device("golden"), tmp_path / "arrays", data=arrays).run()["accuracy"] > 0.8


def test_what_fills_a_batch_has_no_weight():
    item = batches_of((np.ones((2, 4, 3)), np.array([1, 0]), [4, 2])).epoch("train", 3, 5)[0]
    assert item.x.shape == (5, 3, 3) and item.lengths.tolist() == [4, 2, 1] and item.weights.tolist() == [1, 1, 0]
    tags = batches_of((np.zeros((2, 4), int), np.ones((2, 4), int), [4, 2]), "tag", input_size=None).epoch("test", 3, 5)
    assert tags[0].weights.sum(axis=0).tolist() == [4, 2, 0] and tags[0].targets[:4, :2].all()
    numbers = batches_of((np.ones((2, 4, 3)), np.ones((2, 2))), "regress").epoch("train", 2, 5)[0]
    assert numbers.targets.dtype == np.float32 and numbers.targets.shape == (2, 2)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (np.zeros(3), r"must be \(x, y\) or \(x, y, lengths\), got ndarray"),
        ((np.zeros((2, 5, 4)), [0, 1]), r"x must have shape \(up to 8, up to 5, 3\), got \(2, 5, 4\)"),
        ((np.zeros((9, 5, 3)), [0] * 9), r"x .* got \(9, 5, 3\)"),
        ((np.zeros((2, 6, 3)), [0, 1]), r"x .* got \(2, 6, 3\)"),
        ((np.full((2, 5, 3), np.nan), [0, 1]), "x must be finite"),
        ((np.zeros((2, 5, 3)), [0, 2]), "y must be integers, 0 to 1, got 0 to 2, int64"),
        ((np.zeros((2, 5, 3)), [0.5, 1]), "y must be integers, 0 to 1, got 0.5 to 1.0, float64"),
        ((np.zeros((2, 5, 3)), [0]), r"y must have shape \(2,\), got \(1,\)"),
        ((np.zeros((2, 5, 3)), [0, 1], [0, 5]), r"lengths must be 1 to 5, got \[0, 5\]"),
        ((np.zeros((2, 5, 3)), [0, 1], 5), r"lengths must be 2 integers, got shape \(\), int64"),
        ((np.zeros((2, 5, 3)), [0, 1], [5]), r"lengths must be 2 integers, got shape \(1,\)"),
        ((np.zeros((2, 5, 3)), [0, 1], [5, 2.5]), "lengths must be 2 integers, .* float64"),
        ((np.zeros((2, 5, 3)).astype(str), [0, 1]), "x must be numbers, got <U"),
        ((np.full((2, 5, 3), 1e40), [0, 1]), "x must be finite in float32"),
        ((np.zeros((2, 0, 3)), [0, 1]), r"x .* got \(2, 0, 3\)"),
        ((np.zeros((2, 5, 3)), np.zeros((2, 1), int)), r"y must have shape \(2,\), got \(2, 1\)"),
        ((np.zeros((2, 5, 3)), [True, False]), "y must be integers, 0 to 1, got False to True, bool"),
    ],
)
def test_batches_that_do_not_suit_are_refused_by_number(item, message):
    with pytest.raises(DataError, match=f"batch 0 of train: {message}"):
        batches_of(item).epoch("train", 8, 5)


@pytest.mark.parametrize("task", ["tag", "language"])
@pytest.mark.parametrize("answers", [1, 4, 6])
def test_a_step_has_one_answer(task, answers):
    item = np.zeros((2, 5), int), np.ones((2, answers), int)
    with pytest.raises(DataError, match=rf"y must have shape \(2, 5\), got \(2, {answers}\)"):
        batches_of(item, task, input_size=None).epoch("train", 8, 5)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (6,), (3, 2, 1)])
def test_numbers_are_not_brought_into_shape(shape):
    with pytest.raises(DataError, match=r"y must have shape \(3, 2\), got "):
        batches_of((np.zeros((3, 5, 3)), np.zeros(shape)), "regress").epoch("train", 8, 5)


WHOLE = Batch(np.zeros((5, 2, 3), np.float32), np.array([5, 4]), np.array([0, 1]), np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"x": np.zeros((5, 1, 3), np.float32)}, "x must have 2 sequences, got 1"),
        ({"x": np.zeros((5, 2, 4), np.float32)}, "x must have shape"),
        ({"lengths": np.array([5])}, r"lengths must be 2 integers, got shape \(1,\)"),
        ({"lengths": np.array([5, 6])}, r"lengths must be 1 to 5, got \[5, 6\]"),
        ({"targets": np.array([0])}, r"y must have shape \(2,\), got \(1,\)"),
        ({"targets": np.array([0, 2])}, "y must be integers, 0 to 1"),
        ({"weights": np.ones((5, 2), np.float32)}, r"weights must have shape \(2,\), got \(5, 2\)"),
        ({"weights": np.array([1, -1], np.float32)}, "weights must be finite and at least 0"),
    ],
)
def test_a_whole_batch_agrees_with_itself(change, message):
    data = batches_of(replace(WHOLE, **change))
    if message is None:
        assert data.epoch("train", 2, 5) == [WHOLE]
        return
    with pytest.raises(DataError, match=f"batch 0 of train: {message}"):
        data.epoch("train", 2, 5)


def test_what_gives_its_batches_only_once_is_refused():
    with pytest.raises(ValueError, match="validation must give its batches anew each time, got generator"):
        Batches([], (item for item in []), [], "classify", classes=2, steps=5)


def test_tokens_are_of_the_vocabulary():
    with pytest.raises(DataError, match="x must be integers, 0 to 6, got 7 to 7"):
        batches_of((np.full((2, 5), 7), [0, 1]), input_size=None, tokens=7).epoch("train", 8, 5)


def test_a_run_goes_on_with_data_of_its_own_sizes_only(tmp_path):
    settings = Settings(hidden=4, batch=8, iterations=2)
    data = Batches(*loaders(), "classify", classes=2, steps=5, input_size=3)
    Trainer(settings, open_device("golden"), tmp_path, data=data).run()
    other = Batches(*loaders(), "classify", 2, 5, input_size=3, encoding=Encoding(labels=("no", "yes")))
    with pytest.raises(CheckpointError, match="its encoding is"):
        Trainer(settings, open_device("golden"), tmp_path, resume=True, data=other)
    Trainer(settings, open_device("golden"), tmp_path, resume=True, data=data).run()
