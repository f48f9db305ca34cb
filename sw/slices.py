"""Slices of a batch: the order in which the gradients of its sequences are added, whatever machine adds them.

Slice s of S holds the sequences floor(s·B/S) to floor((s + 1)·B/S) - 1 of a batch of B. The weights' and the bias's
gradient are summed within each slice; the slices' results are added as a balanced tree. S is part of a training run, as
B is; how many slices a machine works on at once is not.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

from etalstm.network import check_size

AUTO = "auto"
"""In the place of a number of slices: what the device at hand uses best."""

Term = TypeVar("Term")


def check_slices(slices: int, batch: int) -> int:
    """Give `slices` as a Python int, or raise ``ValueError`` unless it is an integer from 1 to `batch`."""
    slices = check_size("slices", slices)
    if slices > batch:
        raise ValueError(f"slices must be at most the batch, {batch} sequences, got {slices}")
    return slices


def slice_ranges(batch: int, slices: int) -> list[range]:
    """Give the sequences of each slice of a batch."""
    edges = [number * batch // slices for number in range(slices + 1)]
    return [range(first, end) for first, end in pairwise(edges)]


def additions(slices: int) -> list[int]:
    """Give how many additions follow each slice, if every addition is done as soon as both of its operands are known.

    The tree is ``total(a, n) = total(a, n - m) + total(a + n - m, m)`` with ``m = n // 2``. An addition takes the two
    youngest totals; at most ``ceil(log2(slices)) + 1`` totals are alive at once.
    """
    if slices == 1:
        return [0]
    right = slices // 2
    counts = additions(slices - right) + additions(right)
    counts[-1] += 1
    return counts


def most_totals(slices: int) -> int:
    """Give how many totals are alive at once in the order of :func:`additions`, the last slice's included."""
    alive = most = 0
    for count in additions(slices):
        alive += 1
        most = max(most, alive)
        alive -= count
    return most


def tree_total(terms: Iterable[Term], slices: int, add: Callable[[Term, Term], Term]) -> Term:
    """Add the results of all slices.

    Parameters
    ----------
    terms : iterable
        Each slice's result, the first slice's first; `slices` of them. Each is taken when it is needed.
    slices : int
    add : function
        From the left and the right operand to their sum.
    """
    totals = []
    for term, count in zip(terms, additions(slices), strict=True):
        totals.append(term)
        for _ in range(count):
            right = totals.pop()
            totals.append(add(totals.pop(), right))
    return totals[0]
