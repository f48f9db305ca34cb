"""What a data set is to the trainer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Batch:
    """Sequences for one iteration, always as many as the device takes.

    Members
    -------
    x : array, float32, (T, B, I), or int64, (T, B)
        Input vectors, or tokens for an embedding.
    lengths : array, int64, (B,)
        Steps of each sequence, 1 to T.
    targets : array, int64, (B,) or (T, B)
        Class of each sequence (last-step loss) or of each step.
    weights : array, float32, shape of `targets`
        Share in the loss; 0 for what only fills the batch.
    """

    x: np.ndarray
    lengths: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class DataSet(ABC):
    """A data set with three splits.

    Members
    -------
    name : str
    classes : int
        Classes to tell apart.
    input_size : int or None
        Size of an input vector; None if inputs are tokens.
    tokens : int
        Different tokens, if inputs are tokens; as many as `classes` unless the data set says otherwise.
    per_step : bool
        A target at every step (perplexity), or one at a sequence's last step (accuracy).
    stateful : bool
        A batch continues the sequences of the one before: h and c are carried over, and the order is fixed.
    masked : bool
        Sequences have unequal lengths.
    steps : int
        Steps T unless the user chooses others.
    fingerprint : int
        Changes with the data; a resumed run must meet the same.
    """

    name: ClassVar[str]
    classes: int
    input_size: int | None
    per_step: ClassVar[bool]
    stateful: ClassVar[bool]
    masked: ClassVar[bool] = False
    steps: int
    fingerprint: int

    @property
    def tokens(self) -> int:
        """Different tokens."""
        return self.classes

    @abstractmethod
    def epoch(self, split: str, batch: int, steps: int, generator: np.random.Generator | None = None) -> list[Batch]:
        """Cut a split into batches.

        Parameters
        ----------
        split : str
            One of ``SPLITS``.
        batch, steps : int
            Sequences B and steps T of every batch.
        generator : numpy.random.Generator, optional
            Shuffles and drops what does not fill a batch (training). Without it the order is fixed and the last batch
            is filled with weight 0 (evaluation).

        Raises
        ------
        ValueError
            If there is no such split, `steps` does not suit the data, or the split fills no batch.
        """


def check_split(name: str) -> str:
    """Give `name`, or raise ``ValueError`` if it is no split."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; there are: {', '.join(SPLITS)}")
    return name
