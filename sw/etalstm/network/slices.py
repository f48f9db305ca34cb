"""Slices of a batch: the order in which the gradients of its sequences are added, the same on every machine.

Slice s of S holds the sequences floor(s·B/S) to floor((s + 1)·B/S) - 1 of a batch of B. The weights' and the bias's
gradient are summed within each slice; the slices' results are added as a balanced tree. S is part of a training run, as
B is; how many slices a machine works on at once is not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from etalstm.network.shape import check_size

AUTO = "auto"
"""Instead of a number of slices: the number that suits the device best."""

Term = TypeVar("Term")


def check_slices(slices: object, batch: int) -> int:
    """Give `slices` as a Python int, or raise ``ValueError`` unless it is an integer from 1 to `batch`."""
    checked = check_size("slices", slices)
    if checked > batch:
        raise ValueError(f"slices must be at most the batch, {batch} sequences, got {checked}")
    return checked


def slice_ranges(batch: int, slices: int) -> list[range]:
    """Give the sequences of each slice of a batch."""
    edges = [number * batch // slices for number in range(slices + 1)]
    return [range(first, end) for first, end in pairwise(edges)]


def additions(slices: int, backwards: bool = False) -> list[int]:
    """Count the additions that follow each slice, if each is done as soon as both operands are known.

    The tree is ``total(a, n) = total(a, n - m) + total(a + n - m, m)`` with ``m = n // 2``. An addition takes the two
    youngest totals; at most ``ceil(log2(slices)) + 1`` totals are alive at once. With `backwards` the last slice comes
    first: the tree is the same.
    """
    if slices == 1:
        return [0]
    right = slices // 2
    halves = [right, slices - right] if backwards else [slices - right, right]
    counts = [count for half in halves for count in additions(half, backwards)]
    counts[-1] += 1
    return counts


def most_totals(slices: int, backwards: bool = False) -> int:
    """Count the totals that are alive at once, at most, in the order of :func:`additions`."""
    alive = most = 0
    for count in additions(slices, backwards):
        alive += 1
        most = max(most, alive)
        alive -= count
    return most


def tree_total(terms: Iterable[Term], slices: int, add: Callable[[Term, Term], Term]) -> Term:
    """Add the results of all slices as the tree; `terms` gives them in order, each drawn when it is needed.

    `add` gives the sum of the left and the right operand.
    """
    totals = []
    for term, count in zip(terms, additions(slices), strict=True):
        totals.append(term)
        for _ in range(count):
            right = totals.pop()
            totals.append(add(totals.pop(), right))
    return totals[0]


def part_counts(slices: int) -> list[int]:
    """Give the numbers of parts, 1 first, that the slices can be divided into so that each part is a node of the tree.

    All parts have the same number of slices: the tree is cut at a depth where all nodes are of one size, or at its
    leaves. So the total of a part is the tree of its own slices, and the total of all is the tree of the parts.
    """
    counts = [1]
    while slices % (2 * counts[-1]) == 0:
        counts.append(2 * counts[-1])
    return counts if counts[-1] == slices else [*counts, slices]


@dataclass(frozen=True)
class Parts:
    """The places of a batch's sequences in its parts; `count`, the number of parts, is one of :func:`part_counts`.

    Every part has the same number of slices, and every slice as many places as the largest slice has sequences. The
    last places of a shorter slice are empty. A single part has the batch as it is, without empty places.
    """

    batch: int
    slices: int
    count: int

    @property
    def slices_of_part(self) -> int:
        """Slices of every part."""
        return self.slices // self.count

    @property
    def places(self) -> int:
        """Places of every part."""
        if self.count == 1:
            return self.batch
        return self.slices_of_part * -(-self.batch // self.slices)

    @property
    def full(self) -> bool:
        """Whether no place is empty."""
        return self.count * self.places == self.batch

    def sequences(self, part: int) -> np.ndarray:
        """Give the sequence at each place of a part, -1 where there is none; int64, (places,)."""
        if self.count == 1:
            return np.arange(self.batch)
        ranges = slice_ranges(self.batch, self.slices)[part * self.slices_of_part : (part + 1) * self.slices_of_part]
        found = np.full((self.slices_of_part, self.places // self.slices_of_part), -1, np.int64)
        for of_slice, sequences in zip(found, ranges, strict=True):
            of_slice[: len(sequences)] = sequences
        return found.ravel()

    def take(self, array: np.ndarray, part: int, axis: int) -> np.ndarray:
        """Give a part of an array of the whole batch; zeros where there is no sequence."""
        sequences = self.sequences(part)
        taken = array.take(sequences, axis)
        np.moveaxis(taken, axis, 0)[sequences < 0] = 0
        return taken

    def join(self, arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
        """Join the parts of an array, without the empty places: the inverse of :meth:`take`."""
        filled = [array.compress(self.sequences(part) >= 0, axis) for part, array in enumerate(arrays)]
        return np.concatenate(filled, axis)
