"""Length buckets: a batch has sequences of similar length, and no more steps than they need.

A bucket is named by its bound: its sequences have at most so many steps, and more than the bound of the bucket before.
A batch of a bucket runs as many steps as the bound. Sequences that do not fill a batch of their bucket join the next
longer bucket, so there are as many batches as without buckets.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from etalstm.network.slices import AUTO

NONE = "none"  # instead of bounds: all batches have the same number of steps


def read_buckets(text: str) -> tuple[int, ...] | str:
    """Read the bounds of buckets: ascending numbers with commas between, ``auto`` or ``none``.

    Raises ``ValueError`` for any other text.
    """
    if text in (AUTO, NONE):
        return text
    numbers = str(text).split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ValueError(f"buckets must be numbers of steps with commas between, {AUTO} or {NONE}, got {text!r}")
    bounds = tuple(map(int, numbers))
    if bounds[0] < 1 or any(bound >= following for bound, following in pairwise(bounds)):
        raise ValueError(f"buckets must be above 0 and ascend, got {text!r}")
    return bounds


def greedy_bounds(lengths: np.ndarray, batch: int) -> tuple[int, ...]:
    """Choose the bounds of the narrowest buckets that each have at least a batch of sequences.

    The lengths, of at least one sequence, are visited in ascending order. A bucket ends with the first length at which
    it has enough sequences. The sequences left at the end go to the longest bucket.

    Source: H. Lin, Y. Wu, Performance Optimization of LSTM Training on GPU, "auto-generated buckets".
    """
    bounds, waiting = [], 0
    for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
        waiting += count
        if waiting >= batch:
            bounds.append(int(length))
            waiting = 0
    return (*bounds[:-1], int(np.max(lengths)))


def sizes_of(lengths: np.ndarray, bounds: Sequence[int]) -> dict[int, int]:
    """Count the sequences of each bucket, by its bound. The last bucket includes longer ones, which are cut."""
    return dict(zip(bounds, np.bincount(_buckets_of(lengths, bounds), minlength=len(bounds)).tolist(), strict=True))


def check_none_empty(lengths: np.ndarray, bounds: Sequence[int]) -> None:
    """Raise ``ValueError``, naming the bucket, if a bucket is empty."""
    above = 1
    for bound, count in sizes_of(lengths, bounds).items():
        if not count:
            raise ValueError(
                f"bucket {bound} is empty: it is for {above} to {bound} steps, the training sequences have "
                f"{min(lengths)} to {max(lengths)}"
            )
        above = bound + 1


def _buckets_of(lengths: np.ndarray, bounds: Sequence[int]) -> np.ndarray:
    """Give the number of each sequence's bucket."""
    return np.searchsorted(bounds, np.minimum(lengths, bounds[-1]))


def cut_by_bucket(
    order: np.ndarray, lengths: np.ndarray, bounds: Sequence[int], batch: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Cut sequences into batches, shorter buckets first; only the last batch may have fewer than `batch` sequences.

    `order` has the numbers of the sequences, and within a bucket they keep this order. `lengths` are by number,
    `bounds` ascend. Yields for each batch its steps, the bound of its longest sequence's bucket, and the numbers of its
    sequences.
    """
    buckets = _buckets_of(lengths[order], bounds)
    ascending = np.argsort(buckets, kind="stable")
    order, buckets = order[ascending], buckets[ascending]
    for first in range(0, order.size, batch):
        chosen = slice(first, first + batch)
        yield bounds[buckets[chosen][-1]], order[chosen]
