"""Data sets whose sequences have published lengths, for measurements of padding; and buckets and batches of them."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from etalstm.data import Batch, DataSet, Sequences, open_dataset
from etalstm.data.buckets import read_buckets
from etalstm.data.dataset import CLASSIFY
from etalstm.data.ptb import sentence_lengths
from etalstm.data.sequences import Example

SYNTHETIC = "synthetic"
SENTENCES, MEAN, DEVIATION, LONGEST = 4000, 3.0, 0.5, 80  # their lengths are log-normal: about 20 steps


def of_lengths(name: str, lengths: list[int]) -> Sequences:
    """Give data of which nothing is known but the lengths of the training sequences."""
    examples = [Example(np.zeros(length, np.int64), 0) for length in lengths]
    return Sequences(name, CLASSIFY, {"train": examples}, 1, tokens=1, steps=max(lengths))


def synthetic() -> Sequences:
    """Draw lengths as those of sentences."""
    drawn = np.random.default_rng(0).lognormal(MEAN, DEVIATION, SENTENCES)
    return of_lengths(SYNTHETIC, np.clip(drawn.astype(int), 1, LONGEST).tolist())


READERS: dict[str, Callable[[Path], DataSet]] = {
    "ptb": lambda directory: of_lengths("ptb", sentence_lengths(directory)),
    "trec": partial(open_dataset, "trec"),
    "imdb": partial(open_dataset, "imdb"),
}


def sources(directory: Path | None) -> Iterator[DataSet]:
    """Open the data sets whose folders a directory has; without a directory the synthetic one.

    Raises
    ------
    ValueError
        If it has none.
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
    """Choose some batches of an epoch: evenly, by their steps and then by their real ones."""
    ordered = sorted(batches, key=lambda batch: (len(batch.x), batch.real_steps))
    places = (np.arange(min(count, len(ordered))) + 0.5) * len(ordered) / min(count, len(ordered))
    return [ordered[place] for place in places.astype(int)]


def static_buckets(text: str | None, steps: int) -> str:
    """Give bounds up to so many steps: those of a text that are below, or else three that make buckets equally wide.

    Raises
    ------
    ValueError
        If the text has no bounds.
    """
    bounds = [-(-steps * quarter // 4) for quarter in (1, 2, 3)] if text is None else read_buckets(text)
    if isinstance(bounds, str):
        raise ValueError(f"static must be numbers of steps with commas between, got {text!r}")
    return ",".join(map(str, [*(bound for bound in bounds if bound < steps), steps]))
