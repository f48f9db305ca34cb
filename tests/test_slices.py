"""Slices divide a batch, and their results are added as the one tree that the design defines."""

import math

import pytest

from etalstm.slices import additions, check_slices, most_totals, slice_ranges, tree_total


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
