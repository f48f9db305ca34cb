"""Long token streams, the next token at every step: what language models train on."""

from copy import copy
from typing import Self

import numpy as np

from etalstm.data.dataset import LANGUAGE, Batch, DataSet, check_split
from etalstm.network.shape import check_size


class TokenStreams(DataSet):
    """A text whose splits are contiguous, and every batch row of which is one long stream.

    Parameters
    ----------
    splits : dict from a split's name to int64 tokens, (N,)
    """

    task = LANGUAGE
    stateful = True
    input_size = None
    unit: str  # what a token is, in words

    def __init__(self, splits: dict[str, np.ndarray]):
        self._tokens = splits

    def epoch(self, split, batch, steps, generator=None):
        """Cut a split into `batch` streams and these into segments; see :meth:`DataSet.epoch`.

        The order is that of the text, so `generator` only says that a last, shorter segment is dropped. Tokens that
        do not fill the streams evenly, fewer than `batch`, are left out.
        """
        tokens = self._tokens.get(check_split(split))
        if tokens is None:
            raise ValueError(f"there is no text in {split}")
        length = (tokens.size - 1) // batch  # each stream needs a target after its last input
        segments = length // steps if generator is not None else -(-length // steps)
        if not segments:
            raise ValueError(
                f"batch × steps must be below {tokens.size}, the {self.unit} in {split}, got {batch} × {steps}"
            )
        inputs = tokens[: batch * length].reshape(batch, length).T
        targets = tokens[1 : batch * length + 1].reshape(batch, length).T
        return [
            self._segment(inputs[n : n + steps], targets[n : n + steps], steps)
            for n in range(0, segments * steps, steps)
        ]

    def first(self, tokens: dict[str, int | None]) -> Self:
        """Give the same text, cut: the first so many tokens of the splits that are named, all where None is said.

        Raises
        ------
        ValueError
            If there is no such split, or a number is not above 0.
        """
        other = copy(self)
        other._tokens = dict(self._tokens)
        for split, count in tokens.items():
            if check_split(split) not in self._tokens:
                raise ValueError(f"there is no text in {split}")
            if count is not None:
                other._tokens[split] = self._tokens[split][: check_size(f"tokens of {split}", count)]
        return other

    @staticmethod
    def _segment(inputs: np.ndarray, targets: np.ndarray, steps: int) -> Batch:
        missing = steps - inputs.shape[0]
        batch = inputs.shape[1]
        weights = np.broadcast_to((np.arange(steps) < steps - missing)[:, None], (steps, batch)).astype(np.float32)
        fill = ((0, missing), (0, 0))
        return Batch(np.pad(inputs, fill), np.full(batch, steps), np.pad(targets, fill), weights)
