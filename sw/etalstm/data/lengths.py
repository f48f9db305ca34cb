"""Inputs of benches: data sets with the lengths of published ones, their buckets, and chosen batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from etalstm.data import Batch, DataSet, Sequences, open_dataset
from etalstm.data.buckets import read_buckets
from etalstm.data.dataset import CLASSIFY
from etalstm.data.sequences import Example
from etalstm.data.streams import sentence_lengths
from etalstm.network.shape import check_size

SYNTHETIC = "synthetic"
SENTENCES, MEAN, DEVIATION, LONGEST = 4000, 3.0, 0.5, 80  # their lengths are log-normal: about 20 steps


def of_lengths(name: str, lengths: list[int]) -> Sequences:
    """Give a data set of zeros whose training sequences have these lengths."""
    examples = [Example(np.zeros(length, np.int64), 0) for length in lengths]
    return Sequences(name, CLASSIFY, {"train": examples}, 1, tokens=1, steps=max(lengths))


def synthetic() -> Sequences:
    """Give a data set whose lengths are drawn like those of sentences."""
    drawn = np.random.default_rng(0).lognormal(MEAN, DEVIATION, SENTENCES)
    return of_lengths(SYNTHETIC, np.clip(drawn.astype(int), 1, LONGEST).tolist())


READERS: dict[str, Callable[[Path], DataSet]] = {
    "ptb": lambda directory: of_lengths("ptb", sentence_lengths(directory)),
    "trec": partial(open_dataset, "trec"),
    "imdb": partial(open_dataset, "imdb"),
}


def sources(directory: Path | None) -> Iterator[DataSet]:
    """Open the data sets whose folders a directory has; without a directory the synthetic one.

    Raises ``ValueError`` if the directory has none.
    """
    if directory is None:
        yield synthetic()
        return
    names = [name for name in READERS if (directory / name).is_dir()]
    if not names:
        raise ValueError(f"{directory}: must have one of the folders {', '.join(READERS)}")
    for name in names:
        yield READERS[name](directory / name)


def spread(batches: list[Batch], count: int) -> list[Batch]:
    """Choose `count` batches of an epoch, evenly spread in the order of their steps and then of their real steps."""
    ordered = sorted(batches, key=lambda batch: (len(batch.x), batch.real_steps))
    ranks = (np.arange(min(count, len(ordered))) + 0.5) * len(ordered) / min(count, len(ordered))
    return [ordered[rank] for rank in ranks.astype(int)]


def static_buckets(text: str | None, steps: int) -> str:
    """Give bounds of buckets up to `steps`: the smaller ones of a text; without a text, four equally wide buckets.

    Raises ``ValueError`` if the text has no bounds.
    """
    bounds = [-(-steps * quarter // 4) for quarter in (1, 2, 3)] if text is None else read_buckets(text)
    if isinstance(bounds, str):
        raise ValueError(f"static must be numbers of steps with commas between, got {text!r}")
    return ",".join(map(str, [*(bound for bound in bounds if bound < steps), steps]))


@dataclass(frozen=True)
class Amount:
    """How much is measured. Raises ``ValueError`` if a number is not above 0."""

    batches: int = 1
    # Steps of every sequence; others are left out. None: sequences of all lengths, padded.
    length: int | None = None

    def __post_init__(self):
        check_size("batches", self.batches)
        if self.length is not None:
            check_size("length", self.length)

    def choose(self, data: DataSet, size: int, steps: int) -> list[Batch]:
        """Give batches of `size` sequences and so many steps, from the first epochs of training.

        Raises ``ValueError`` if fewer sequences than a batch takes have the length.
        """
        generator = np.random.default_rng(0)
        chosen: list[Batch] = []
        while len(chosen) < self.batches:
            if self.length is None:
                chosen += data.epoch("train", size, steps, generator)
            else:
                chosen += of_length(data.epoch("train", size, data.steps, generator), self.length, size, data.per_step)
        return chosen[: self.batches]


def of_length(epoch: list[Batch], length: int, size: int, per_step: bool) -> list[Batch]:
    """Give batches of those sequences of an epoch that have `length` steps; sequences that fill no batch are left out.

    Raises ``ValueError`` if fewer than `size` sequences have the length.
    """
    lengths = np.concatenate([batch.lengths for batch in epoch])
    fitting = np.flatnonzero(lengths == length)
    if len(fitting) < size:
        raise ValueError(f"a batch takes {size} sequences, but only {len(fitting)} have {length} steps")

    def cut(name: str, by_step: bool, columns: np.ndarray) -> np.ndarray:
        array = np.concatenate([getattr(batch, name) for batch in epoch], axis=int(by_step))
        return array[:length, columns] if by_step else array[columns]

    by_step = {"x": True, "lengths": False, "targets": per_step, "weights": per_step}
    return [
        Batch(**{name: cut(name, steps, fitting[first : first + size]) for name, steps in by_step.items()})
        for first in range(0, len(fitting) - size + 1, size)
    ]
