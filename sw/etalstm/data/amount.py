"""Which batches of a data set ``eta-lstm bench iteration --weights`` measures."""

from dataclasses import dataclass

import numpy as np

from etalstm.data import DataSet
from etalstm.data.dataset import Batch
from etalstm.network.shape import check_size


@dataclass(frozen=True)
class Amount:
    """How much is measured.

    Members
    -------
    batches : int
    length : int, optional
        Steps of every sequence; others are left out. Not given: sequences are as long as they come, and padded.

    Raises
    ------
    ValueError
        If one of them is not above 0.
    """

    batches: int = 1
    length: int | None = None

    def __post_init__(self):
        check_size("batches", self.batches)
        if self.length is not None:
            check_size("length", self.length)

    def choose(self, data: DataSet, size: int, steps: int) -> list[Batch]:
        """Give batches of `size` sequences and so many steps, from the first epochs of training.

        Raises
        ------
        ValueError
            If fewer sequences than a batch takes have the length.
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
    """Put together batches of `size` sequences of an epoch that have just so many steps; what fills no batch is left.

    Parameters
    ----------
    per_step : bool
        See :class:`etalstm.data.DataSet`.

    Raises
    ------
    ValueError
        If there are fewer than `size`.
    """
    lengths = np.concatenate([batch.lengths for batch in epoch])
    fitting = np.flatnonzero(lengths == length)
    if len(fitting) < size:
        raise ValueError(f"a batch takes {size} sequences, but only {len(fitting)} have {length} steps")

    def cut(name: str, by_step: bool, columns: np.ndarray) -> np.ndarray:
        whole = np.concatenate([getattr(batch, name) for batch in epoch], axis=int(by_step))
        return whole[:length, columns] if by_step else whole[columns]

    by_step = {"x": True, "lengths": False, "targets": per_step, "weights": per_step}
    return [
        Batch(**{name: cut(name, steps, fitting[first : first + size]) for name, steps in by_step.items()})
        for first in range(0, len(fitting) - size + 1, size)
    ]
