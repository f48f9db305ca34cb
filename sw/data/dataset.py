"""What a data set is to the trainer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from etalstm.data.encoding import Encoding

SPLITS = ("train", "validation", "test")
MEASURES = ("ade", "fde")  # mean and final displacement error
CLASSIFY, LANGUAGE, REGRESS, TAG = TASKS = ("classify", "language", "regress", "tag")


@dataclass(frozen=True)
class Batch:
    """Sequences for one iteration, always as many as the device takes.

    Members
    -------
    x : array, float32, (T, B, I), or int64, (T, B)
        Input vectors, or tokens for an embedding.
    lengths : array, int64, (B,)
        Steps of each sequence, 1 to T.
    targets : array
        int64, (B,) or (T, B): the class of each sequence (last-step loss) or of each step. Of the task ``regress``
        float32, (B, C): the numbers of each sequence.
    weights : array, float32, (B,) or (T, B)
        Share in the loss, shape of `targets` without C; 0 for what only fills the batch.
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
    task : str
        One of ``TASKS``: a class for each sequence (``classify``) or each step (``tag``), the next token at each step
        (``language``), or numbers for each sequence (``regress``).
    classes : int
        Classes C to tell apart, or numbers of each sequence.
    input_size : int or None
        Size of an input vector; None if inputs are tokens.
    tokens : int
        Different tokens, if inputs are tokens; as many as `classes` unless the data set says otherwise.
    per_step : bool
        A target at every step, or one at a sequence's last step.
    stateful : bool
        A batch continues the sequences of the one before: h and c are carried over, and the order is fixed.
    masked : bool
        Sequences have unequal lengths.
    steps : int
        Steps T unless the user chooses others.
    fingerprint : int
        Changes with the data; a resumed run must meet the same.
    encoding : Encoding
        How texts become tokens, and classes texts.
    notes : list of str
        What a user should know of how the data were read.
    """

    name: str
    task: str
    classes: int
    input_size: int | None
    stateful: ClassVar[bool] = False
    masked: bool = False
    steps: int
    fingerprint: int
    encoding: Encoding = Encoding()
    notes: Sequence[str] = ()

    @property
    def per_step(self) -> bool:
        """A target at every step."""
        return self.task in (LANGUAGE, TAG)

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

    def measures(self, outputs: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Measure outputs in other ways than by their loss, where the data set has such.

        Parameters
        ----------
        outputs, targets : arrays, float32, (B, C)

        Returns
        -------
        dict from one of :data:`MEASURES` to an array (B,)
        """
        return {}


def check_split(name: str) -> str:
    """Give `name`, or raise ``ValueError`` if it is no split."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; there are: {', '.join(SPLITS)}")
    return name
