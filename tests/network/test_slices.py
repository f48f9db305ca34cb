"""Slices divide a batch, and their results are added as the one tree that the design defines."""

import math

import numpy as np
import pytest

from etalstm.network.slices import Parts, additions, check_slices, most_totals, part_counts, slice_ranges, tree_total


def drawn(first, count):
    """The tree as the design words it, as text."""
    if count == 1:
        return str(first)
    right = count // 2
    return f"({drawn(first, count - right)}+{drawn(first + count - right, right)})"


def test_slices_are_consecutive_and_differ_by_one_sequence_at_most():
    assert slice_ranges(8, 3) == [range(0, 2), range(2, 5), range(5, 8)]
    for batch in range(1, 20):
        for slices in range(1, batch + 1):
            ranges = slice_ranges(batch, slices)
            assert [n for sequences in ranges for n in sequences] == list(range(batch))
            assert {len(sequences) for sequences in ranges} <= {batch // slices, math.ceil(batch / slices)}


def test_the_total_is_the_balanced_tree():
    assert tree_total("01234", 5, lambda left, right: f"({left}+{right})") == "(((0+1)+2)+(3+4))"
    for slices in range(1, 40):
        terms = map(str, range(slices))
        assert tree_total(terms, slices, lambda left, right: f"({left}+{right})") == drawn(0, slices)


def test_the_total_is_the_same_tree_from_the_last_slice_on():
    for slices in range(1, 40):
        totals = []
        for number, count in zip(reversed(range(slices)), additions(slices, backwards=True), strict=True):
            totals.append(str(number))
            for _ in range(count):
                totals.append(f"({totals.pop()}+{totals.pop()})")
        assert totals == [drawn(0, slices)]
        assert most_totals(slices, backwards=True) == math.ceil(math.log2(slices)) + 1


def test_parts_are_nodes_of_the_tree():
    assert [part_counts(slices) for slices in (1, 2, 5, 6, 8)] == [[1], [1, 2], [1, 5], [1, 2, 6], [1, 2, 4, 8]]
    for slices in range(1, 40):
        for count in part_counts(slices):
            each = slices // count
            parts = [drawn(first, each) for first in range(0, slices, each)]
            assert tree_total(parts, count, lambda left, right: f"({left}+{right})") == drawn(0, slices)


def test_a_single_part_is_the_batch_as_it_is():
    parts = Parts(batch=8, slices=6, count=1)
    assert parts.full and parts.places == 8 and parts.sequences(0).tolist() == list(range(8))


@pytest.mark.parametrize("count", [2, 6])
def test_places_of_parts_hold_every_sequence_once(count):
    parts = Parts(batch=8, slices=6, count=count)
    whole = np.arange(1, 25).reshape(3, 8)
    taken = [parts.take(whole, part, 1) for part in range(count)]
    assert {array.shape for array in taken} == {(3, parts.places)} and not parts.full
    assert np.array_equal(parts.join(taken, 1), whole)
    for part, array in enumerate(taken):
        of_slices = array.reshape(3, parts.slices_of_part, -1)
        for number in range(parts.slices_of_part):
            sequences = slice_ranges(8, 6)[part * parts.slices_of_part + number]
            expected = np.zeros((3, 2), int)
            expected[:, : len(sequences)] = whole[:, sequences]
            assert np.array_equal(of_slices[:, number], expected)


def test_few_totals_are_alive_at_once():
    assert [most_totals(slices) for slices in (1, 2, 3, 4, 5, 8)] == [1, 2, 2, 3, 3, 4]
    for slices in range(1, 200):
        assert sum(additions(slices)) == slices - 1
        assert most_totals(slices) <= math.ceil(math.log2(slices)) + 1


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        (0, "slices must be above 0, got 0"),
        (5, "slices must be at most the batch, 4 sequences, got 5"),
        (1.0, r"slices must be an integer, got 1\.0"),
    ],
)
def test_slices_that_cannot_be_are_refused(slices, message):
    with pytest.raises(ValueError, match=message):
        check_slices(slices, 4)
