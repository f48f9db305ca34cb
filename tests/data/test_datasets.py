"""Data sets give whole batches, deterministic splits and honest weights."""

import numpy as np
import pytest

from etalstm.data import DATASETS, SPLITS, open_dataset


@pytest.fixture(scope="module", params=sorted(DATASETS))
def dataset(request):
    return open_dataset(request.param)


def shuffled(dataset, split, batch, seed=1):
    return dataset.epoch(split, batch, dataset.steps, np.random.Generator(np.random.PCG64(seed)))


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"'mnist'.*digits, pydoc"):
        open_dataset("mnist")


def test_unknown_split_lists_the_known(dataset):
    with pytest.raises(ValueError, match=r"'dev'.*validation"):
        dataset.epoch("dev", 4, dataset.steps)


@pytest.mark.parametrize("batch", [1, 7, 32])
def test_every_batch_has_the_sizes_of_the_device(dataset, batch):
    for split in SPLITS:
        for item in [*shuffled(dataset, split, batch)[-2:], *dataset.epoch(split, batch, dataset.steps)[-2:]]:
            assert item.x.shape[:2] == (dataset.steps, batch)
            expected = (dataset.steps, batch) if dataset.per_step else (batch,)
            assert item.targets.shape == item.weights.shape == expected
            assert item.targets.min() >= 0 and item.targets.max() < dataset.classes
            assert ((item.lengths >= 1) & (item.lengths <= dataset.steps)).all()


def test_evaluation_counts_every_example_once(dataset):
    total = sum(item.weights.sum() for item in dataset.epoch("test", 32, dataset.steps))
    one = sum(item.weights.sum() for item in dataset.epoch("test", 1, dataset.steps))
    assert 0 <= one - total < 32 and (dataset.per_step or one == total)


def test_training_has_no_filling(dataset):
    assert all(item.weights.all() for item in shuffled(dataset, "train", 32))


def test_equal_generators_give_equal_epochs(dataset):
    for first, again in zip(shuffled(dataset, "train", 32), shuffled(dataset, "train", 32), strict=True):
        assert np.array_equal(first.x, again.x) and np.array_equal(first.targets, again.targets)


def test_too_large_a_batch_is_refused(dataset):
    with pytest.raises(ValueError, match="batch"):
        shuffled(dataset, "train", 10**6)


def test_digits_are_split_by_class_without_overlap():
    digits = open_dataset("digits")
    seen = {}
    for split, share in zip(SPLITS, (0.7, 0.1, 0.2), strict=True):
        batches = digits.epoch(split, 1, 8)
        counts = np.bincount([int(item.targets[0]) for item in batches], minlength=10)
        assert np.abs(counts - share * 179.7).max() < 6, split
        for item in batches:
            seen.setdefault(item.x.tobytes(), set()).add(split)
    assert sum(counts for counts in map(len, seen.values())) == len(seen) == 1797


def test_digits_show_one_row_a_step_from_0_to_1():
    first = open_dataset("digits").epoch("train", 4, 8)[0]
    assert first.x.dtype == np.float32 and first.x.min() == 0.0 and first.x.max() == 1.0
    with pytest.raises(ValueError, match="steps must be 8 for digits"):
        open_dataset("digits").epoch("train", 4, 9)


def test_digits_come_in_another_order_every_epoch():
    digits = open_dataset("digits")
    assert not np.array_equal(shuffled(digits, "train", 32, 1)[0].targets, shuffled(digits, "train", 32, 2)[0].targets)


def test_pydoc_rows_are_contiguous_text_across_batches():
    pydoc = open_dataset("pydoc")
    batches = pydoc.epoch("train", 4, 20)[:5]
    stream = np.concatenate([item.x[:, 2] for item in batches])
    following = np.concatenate([item.targets[:, 2] for item in batches])
    assert np.array_equal(stream[1:], following[:-1])
    text = "".join(pydoc.vocabulary[n] for n in stream)
    assert len(text) == 100 and " " in text


def test_pydoc_splits_follow_each_other():
    pydoc = open_dataset("pydoc")
    sizes = [sum(int(item.weights.sum()) for item in pydoc.epoch(split, 1, 1000)) for split in SPLITS]
    assert sizes[0] > 6 * sizes[1] and sizes[2] > 1.9 * sizes[1]
