"""Characters of Python's own manual: the text of ``pydoc_data.topics``, the next character at every step."""

import zlib
from pydoc_data.topics import topics
from typing import ClassVar

import numpy as np

from etalstm.data.dataset import Batch, DataSet, check_split

SHARES = (0.7, 0.1)  # of training and validation; the rest is the test split


class Pydoc(DataSet):
    """About 465,000 characters of about 100 kinds; its splits are contiguous, and every batch row is one long stream.

    The text, and with it vocabulary and fingerprint, is that of the running Python.
    """

    name: ClassVar[str] = "pydoc"
    per_step: ClassVar[bool] = True
    stateful: ClassVar[bool] = True
    input_size: ClassVar[None] = None

    def __init__(self):
        text = "\n".join(topics[title] for title in sorted(topics))
        self.vocabulary = "".join(sorted(set(text)))
        self.classes, self.steps = len(self.vocabulary), 32
        number = {character: n for n, character in enumerate(self.vocabulary)}
        tokens = np.array([number[character] for character in text], np.int64)
        first = int(SHARES[0] * tokens.size)
        second = first + int(SHARES[1] * tokens.size)
        self._tokens = dict(zip(("train", "validation", "test"), np.split(tokens, [first, second]), strict=True))
        self.fingerprint = zlib.crc32(text.encode())

    def epoch(self, split, batch, steps, generator=None):
        """Cut a split into `batch` streams and these into segments; see :meth:`DataSet.epoch`.

        The order is that of the text, so `generator` only says that a last, shorter segment is dropped. Characters that
        do not fill the streams evenly, fewer than `batch`, are left out.
        """
        tokens = self._tokens[check_split(split)]
        length = (tokens.size - 1) // batch  # each stream needs a target after its last input
        segments = length // steps if generator is not None else -(-length // steps)
        if not segments:
            raise ValueError(
                f"batch × steps must be below {tokens.size}, the characters in {split}, got {batch} × {steps}"
            )
        inputs = tokens[: batch * length].reshape(batch, length).T
        targets = tokens[1 : batch * length + 1].reshape(batch, length).T
        return [
            self._segment(inputs[n : n + steps], targets[n : n + steps], steps)
            for n in range(0, segments * steps, steps)
        ]

    @staticmethod
    def _segment(inputs: np.ndarray, targets: np.ndarray, steps: int) -> Batch:
        missing = steps - inputs.shape[0]
        batch = inputs.shape[1]
        weights = np.broadcast_to((np.arange(steps) < steps - missing)[:, None], (steps, batch)).astype(np.float32)
        fill = ((0, missing), (0, 0))
        return Batch(np.pad(inputs, fill), np.full(batch, steps), np.pad(targets, fill), weights)
