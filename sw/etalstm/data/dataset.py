"""What a data set is to the trainer."""

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
    """Sequences for one iteration, always as many as the device takes; of at most as many steps."""

    x: np.ndarray  # float32, (T, B, I), or int64, (T, B): input vectors, or tokens for an embedding
    lengths: np.ndarray  # int64, (B,): steps of each sequence, 1 to T
    # int64, (B,) or (T, B): the class of each sequence (last-step loss) or of each step. Of the task ``regress``
    # float32, (B, C): the numbers of each sequence.
    targets: np.ndarray
    # float32, (B,) or (T, B): share in the loss, shape of `targets` without C; 0 for what only fills the batch
    weights: np.ndarray

    def part(self, sequences: slice) -> "Batch":
        """Give some of the sequences."""
        per_step = self.weights.ndim > 1
        targets, weights = ((a[:, sequences] if per_step else a[sequences]) for a in (self.targets, self.weights))
        return Batch(self.x[:, sequences], self.lengths[sequences], targets, weights)

    @property
    def places(self) -> int:
        """Steps that a device runs, of all sequences: T × B."""
        return len(self.x) * self.lengths.size

    @property
    def real_steps(self) -> int:
        """Steps that are no padding, of the sequences that do not only fill the batch."""
        counted = self.weights.any(axis=0) if self.weights.ndim > 1 else self.weights > 0
        return int(self.lengths[counted].sum())


def padding(batches: Sequence[Batch]) -> float:
    """Give the share of the steps of some batches, at least one, that is padding."""
    return 1 - sum(batch.real_steps for batch in batches) / sum(batch.places for batch in batches)


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
    stateful : bool             a batch goes on from the h and c that the one before left; the order is fixed
    masked : bool               sequences have unequal lengths
    steps : int                 steps T of the longest batch, unless the user chooses others
    fingerprint : int           changes with the data; a resumed run must meet the same
    encoding : Encoding         how texts become tokens, and classes texts
    notes : list of str         what a user should know of how the data were read
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
        """A target at every step, or one at a sequence's last step."""
        return self.task in (LANGUAGE, TAG)

    @property
    def tokens(self) -> int:
        """Different tokens, if inputs are tokens; as many as `classes` unless the data set says otherwise."""
        return self.classes

    @abstractmethod
    def epoch(self, split: str, batch: int, steps: int, generator: np.random.Generator | None = None) -> list[Batch]:
        """Cut a split, one of ``SPLITS``, into batches of B sequences.

        `steps` are T: of the longest batch where there are buckets, else of every one. A `generator` shuffles, and what
        does not fill a batch is dropped (training). Without it the order is fixed, and the last batch is filled with
        weight 0 (evaluation). Raises ``ValueError`` if there is no such split, `steps` does not suit the data, or the
        split fills no batch.
        """

    def in_buckets(self, bounds: tuple[int, ...] | str, batch: int) -> "DataSet":
        """Give the same data with batches of similar length: see :mod:`etalstm.data.buckets`.

        `bounds` ascend, or are ``auto`` or ``none``. Longer sequences are cut at the last bound; with ``auto`` at
        :attr:`steps`, and a bucket has `batch` sequences at least. With ``none`` nothing changes. Raises ``ValueError``
        if the data set has no examples that could be put together in another way, or a bucket no training sequence.
        """
        return self if bounds == NONE else self._bucketed(bounds, batch)

    def _bucketed(self, bounds: tuple[int, ...] | str, batch: int) -> "DataSet":
        raise ValueError(f"{self.name} are no sequences of lengths of their own: buckets must be {NONE}")

    def measures(self, outputs: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Measure outputs in other ways than by their loss, where the data set has such.

        Outputs and targets are float32, (B, C). For each measure, one of :data:`MEASURES`, the result is an array (B,).
        """
        return {}


def check_split(name: str) -> str:
    """Give `name`, or raise ``ValueError`` if it is no split."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; there are: {', '.join(SPLITS)}")
    return name
