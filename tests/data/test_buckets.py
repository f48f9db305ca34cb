"""Length buckets: which there are, which batches they make, and what is refused."""

from collections import Counter

import numpy as np
import pytest

from etalstm.data import Sequences, open_dataset
from etalstm.data.buckets import NONE, cut_by_bucket, greedy_bounds, read_buckets
from etalstm.data.dataset import padding
from etalstm.data.sequences import Example
from etalstm.network.slices import AUTO
from tests.data.test_datasets import write_ptb

BATCH = 4


def examples(count, longest, seed=0):
    """Sequences that are told apart by their tokens."""
    lengths = np.random.default_rng(seed).integers(1, longest + 1, count)
    return [Example(np.full(length, number), int(length) % 3) for number, length in enumerate(lengths)]


def sequences(train=50, longest=12, **more):
    splits = {"train": examples(train, longest), "validation": examples(9, longest, 1), "test": examples(7, longest, 2)}
    return Sequences("made", "classify", splits, 3, tokens=max(train, 100), **more)


def generator(seed=1):
    return np.random.Generator(np.random.PCG64(seed))


def members(*batches):
    """Numbers of the sequences of batches, without those that only fill them."""
    return [number for batch in batches for number in batch.x[0, batch.weights > 0].tolist()]


@pytest.mark.parametrize(
    ("text", "expected"), [("none", NONE), ("auto", AUTO), ("5", (5,)), ("4,8,16", (4, 8, 16)), (" 4, 8", (4, 8))]
)
def test_buckets_are_read(text, expected):
    assert read_buckets(text) == expected


@pytest.mark.parametrize("text", ["", "4,", "a", "4,b", "4.5", "-4", "4,-8", "four,8", "Auto", "²"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="buckets must be numbers of steps with commas between, auto or none, got"):
        read_buckets(text)


@pytest.mark.parametrize("text", ["0", "0,4", "4,4", "8,4", "4,8,6"])
def test_bounds_that_do_not_ascend_are_refused(text):
    with pytest.raises(ValueError, match=f"buckets must be above 0 and ascend, got '{text}'"):
        read_buckets(text)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([3, 3, 3, 3, 5, 5, 5, 5], (3, 5)),  # as many as a batch end a bucket
        ([1, 2, 3, 4, 5, 6, 7, 8], (4, 8)),  # and fewer do not
        ([1, 1, 1, 1, 1, 1, 2, 2, 9, 9], (1, 9)),  # what is left goes to the longest bucket
        ([1, 1, 1, 1, 2, 2, 2, 2, 9, 9], (1, 9)),
        ([7, 2], (7,)),  # fewer than a batch
    ],
)
def test_automatic_buckets_hold_a_batch_each(lengths, expected):
    assert greedy_bounds(np.array(lengths), BATCH) == expected


def test_what_fills_no_batch_goes_on_to_the_next_bucket():
    lengths = np.array([2, 2, 2, 2, 2, 2, 3, 7, 3, 3])
    cut = [(steps, chosen.tolist()) for steps, chosen in cut_by_bucket(np.arange(10), lengths, (2, 3, 9), BATCH)]
    assert cut == [(2, [0, 1, 2, 3]), (3, [4, 5, 6, 8]), (9, [9, 7])]


@pytest.mark.parametrize("bounds", [AUTO, (3, 7, 12), (5, 8)], ids=str)
def test_an_epoch_has_every_sequence_that_one_without_buckets_has(bounds):
    data = sequences()
    found = data.in_buckets(bounds, BATCH)
    without, with_them = (each.epoch("train", BATCH, each.steps, generator()) for each in (data, found))
    assert len(with_them) == len(without) == 12
    assert sorted(members(*with_them)) == sorted(members(*without))
    for split in ("validation", "test"):
        batches = found.epoch(split, BATCH, found.steps)
        assert Counter(members(*batches)) == Counter(range(len(data._splits[split])))


@pytest.mark.parametrize("bounds", [AUTO, (3, 7, 12)], ids=str)
def test_a_batch_has_the_steps_of_its_longest_sequence_s_bucket(bounds):
    found = sequences().in_buckets(bounds, BATCH)
    bounds = list(found.buckets)
    for batch in found.epoch("train", BATCH, found.steps, generator()):
        assert len(batch.x) == bounds[np.searchsorted(bounds, batch.lengths.max())]
    steps = {len(batch.x) for batch in found.epoch("train", BATCH, found.steps, generator())}
    assert len(steps) > 1 and steps <= {*bounds}


def test_beyond_the_last_bound_sequences_are_cut_as_steps_cut_them():
    data = sequences(keep_end=True)
    found = data.in_buckets((3, 8), BATCH)
    assert found.steps == 8
    bucketed, cut = (each.epoch("validation", 9, 8)[0] for each in (found, data))
    assert sorted(bucketed.lengths) == sorted(cut.lengths) and cut.lengths.max() == 8


def test_a_sequence_longer_than_all_in_training_is_not_cut():
    data = sequences()
    longest = Example(np.zeros(20, np.int64), 0)
    data = Sequences("made", "classify", data._splits | {"test": [longest]}, 3, tokens=100)
    found = data.in_buckets(AUTO, BATCH)
    assert found.epoch("test", BATCH, found.steps)[0].lengths.max() == 20
    assert found.buckets[20] == 0


def test_the_order_is_shuffled_by_the_seed_over_all_buckets():
    found = sequences(200).in_buckets(AUTO, BATCH)

    def order(seed):
        return [members(batch) for batch in found.epoch("train", BATCH, found.steps, generator(seed))]

    assert order(1) == order(1) != order(2)
    steps = [len(batch.x) for batch in found.epoch("train", BATCH, found.steps, generator())]
    assert steps != sorted(steps)


def test_automatic_buckets_leave_little_padding():
    data = sequences(2000)
    found = data.in_buckets(AUTO, BATCH)
    before, after = (padding(each.epoch("train", BATCH, each.steps, generator())) for each in (data, found))
    assert list(found.buckets) == list(range(1, 13)) and before > 0.4 and after < 0.01


def test_padding_counts_the_steps_that_are_run_and_not_needed():
    (batch,) = sequences().in_buckets((12,), 16).epoch("validation", 16, 12)
    lengths = batch.lengths[:9]
    assert batch.all_steps == 16 * 12 and batch.real_steps == lengths.sum()
    assert padding([batch]) == 1 - lengths.sum() / (16 * 12)


def test_a_target_at_every_step_is_cut_with_its_steps():
    tagged = [Example(each.x, each.x % 3) for each in examples(30, 9)]
    data = Sequences("made", "tag", dict.fromkeys(("train", "validation", "test"), tagged), 3, tokens=30)
    found = data.in_buckets((4, 9), BATCH)
    for batch in found.epoch("train", BATCH, found.steps, generator()):
        assert batch.targets.shape == batch.weights.shape == batch.x.shape
        assert np.array_equal(batch.weights.sum(axis=0), batch.lengths)
    assert sum(batch.real_steps for batch in found.epoch("test", BATCH, 9)) == sum(len(each.x) for each in tagged)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((4, 12, 40), "bucket 40 is empty: it is for 13 to 40 steps, the training sequences have 1 to 12"),
     ((12, 13), "bucket 13 is empty: it is for 13 to 13 steps")],
)  # fmt: skip
def test_a_bucket_without_sequences_is_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        sequences().in_buckets(bounds, BATCH)


def test_fewer_sequences_than_a_batch_are_refused_as_without_buckets():
    found = sequences().in_buckets(AUTO, 60)
    assert list(found.buckets) == [12]
    with pytest.raises(ValueError, match="batch must be at most 50, the sequences in train, got 60"):
        found.epoch("train", 60, found.steps, generator())


def test_a_bucket_with_fewer_than_a_batch_shares_batches_with_the_next():
    data = sequences()
    found = data.in_buckets((1, 12), BATCH)
    assert found.buckets[1] > 0
    found = data.in_buckets((1, 12), 25)
    assert [len(batch.x) for batch in found.epoch("train", 25, 12, generator())] == [12, 12]


@pytest.mark.parametrize("name", ["digits", "pydoc", "ptb"])
def test_data_without_sequences_of_their_own_are_refused(name, tmp_path):
    write_ptb(tmp_path)
    data = open_dataset(name, tmp_path if name == "ptb" else None)
    with pytest.raises(ValueError, match=f"{name} are no sequences .*: buckets must be none"):
        data.in_buckets(AUTO, BATCH)
    assert data.in_buckets(NONE, BATCH) is data
