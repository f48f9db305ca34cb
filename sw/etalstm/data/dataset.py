"""The interface of a data set, and the batches that it gives the trainer."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from etalstm.data.buckets import NONE
from etalstm.data.encoding import Encoding

SPLITS = ("train", "validation", "test")
MEASURES = ("ade", "fde")  # mean and final displacement error
CLASSIFY, LANGUAGE, REGRESS, TAG = TASKS = ("classify", "language", "regress", "tag")


@dataclass(frozen=True)
class Batch:
    """Sequences for one iteration: exactly the device's number of sequences, and at most its number of steps."""

    x: np.ndarray  # float32, (T, B, I), or int64, (T, B): input vectors, or tokens for an embedding
    lengths: np.ndarray  # int64, (B,): steps of each sequence, 1 to T
    # int64, (B,) or (T, B): the class of each sequence (last-step loss) or of each step. Of the task ``regress``
    # float32, (B, C): the numbers of each sequence.
    targets: np.ndarray
    # float32, (B,) or (T, B): weight in the loss, shape of `targets` without C; 0 for padding and filled sequences
    weights: np.ndarray

    def of_sequences(self, sequences: slice) -> "Batch":
        """Give some of the sequences."""
        per_step = self.weights.ndim > 1
        targets, weights = ((a[:, sequences] if per_step else a[sequences]) for a in (self.targets, self.weights))
        return Batch(self.x[:, sequences], self.lengths[sequences], targets, weights)

    @property
    def all_steps(self) -> int:
        """Steps that a device runs, of all sequences: T × B."""
        return len(self.x) * self.lengths.size

    @property
    def real_steps(self) -> int:
        """Steps without padding, of the sequences that do not merely fill the batch."""
        counted = self.weights.any(axis=0) if self.weights.ndim > 1 else self.weights > 0
        return int(self.lengths[counted].sum())


def padding(batches: Sequence[Batch]) -> float:
    """Give the share of padding in the steps of batches, at least one."""
    return 1 - sum(batch.real_steps for batch in batches) / sum(batch.all_steps for batch in batches)


class DataSet(ABC):
    """A data set with three splits.

    Members
    -------
    name : str
    task : str
        One of ``TASKS``: a class for each sequence (``classify``) or each step (``tag``), the next token at each step
        (``language``), or numbers for each sequence (``regress``).
    classes : int               classes C to tell apart, or numbers of each sequence
    input_size : int or None    size of an input vector; None if inputs are tokens
    stateful : bool             each batch begins with the last h and c of the batch before; the order is fixed
    masked : bool               sequences have unequal lengths
    steps : int                 steps T of the longest batch, unless the user chooses others
    fingerprint : int           changes with the data; a resumed run must meet the same
    encoding : Encoding         how texts become tokens, and classes texts
    notes : list of str         notes for the user on how the data were read
    buckets : dict from int to int
        Bounds of the length buckets, with the training sequences of each; empty if all batches have T steps.
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
    buckets: Mapping[int, int] = MappingProxyType({})

    @property
    def per_step(self) -> bool:
        """Whether there is a target at every step; if not, there is one at a sequence's last step."""
        return self.task in (LANGUAGE, TAG)

    @property
    def tokens(self) -> int:
        """Different tokens, if inputs are tokens; as many as `classes` unless the data set says otherwise."""
        return self.classes

    @abstractmethod
    def epoch(self, split: str, batch: int, steps: int, generator: np.random.Generator | None = None) -> list[Batch]:
        """Cut a split, one of ``SPLITS``, into batches of B sequences.

        `steps` are T: of the longest batch if there are buckets, else of every batch. For training a `generator`
        shuffles, and sequences that do not fill a batch are dropped. Without a generator, for evaluation, the order is
        fixed, and the last batch is filled with weight 0. Raises ``ValueError`` if there is no such split, `steps` does
        not suit the data, or the split fills no batch.
        """

    def in_buckets(self, bounds: tuple[int, ...] | str, batch: int) -> "DataSet":
        """Give the same data with batches of similar length: see :mod:`etalstm.data.buckets`.

        `bounds` ascend, or are ``auto`` or ``none``. Longer sequences are cut at the last bound. ``auto`` cuts at
        :attr:`steps`, and gives each bucket at least `batch` sequences. ``none`` changes nothing. Raises ``ValueError``
        if the data set's examples cannot be regrouped, or a bucket has no training sequence.
        """
        return self if bounds == NONE else self._bucketed(bounds, batch)

    def _bucketed(self, bounds: tuple[int, ...] | str, batch: int) -> "DataSet":
        raise ValueError(f"{self.name} are no sequences of lengths of their own: buckets must be {NONE}")

    def measures(self, outputs: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Give the data set's own measures of outputs besides the loss: by name, of :data:`MEASURES`, an array (B,).

        Outputs and targets are float32, (B, C).
        """
        return {}


def check_split(name: str) -> str:
    """Give `name`, or raise ``ValueError`` if it is no split."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; there are: {', '.join(SPLITS)}")
    return name
