"""Batches of the user's own: any iterable of them, such as a ``DataLoader`` of PyTorch."""

import zlib
from collections.abc import Iterable

import numpy as np

from etalstm.data.dataset import REGRESS, Batch, DataSet, check_split
from etalstm.data.encoding import Encoding
from etalstm.errors import DataError


class Batches(DataSet):
    """A data set of three iterables, one for each split, that give batches anew each time they are iterated over.

    An item is a :class:`Batch`, or ``(x, y)`` or ``(x, y, lengths)`` with the sequences first, whatever
    :func:`numpy.asarray` takes: x numbers, (B, T, I), or tokens, (B, T); y classes, (B,), classes of the steps, (B, T),
    or numbers, (B,) or (B, C). A batch with fewer sequences and steps than the trainer's is filled with weight zero.
    The order is the iterable's own. A resumed run has the same bits only if the iterable shuffles alike again.

    The `task` is one of :data:`etalstm.data.TASKS`. `classes` counts classes, or the numbers of a sequence. `steps` are
    the most of a sequence. `input_size` is that of an input vector, None if inputs are tokens. `tokens` counts
    different tokens, if they are not the classes. The `encoding` is saved with the trained network, which needs it to
    answer texts. Raises ``ValueError`` if an iterable gives its batches only once, as a generator does.
    """

    name = "batches"

    def __init__(
        self, train: Iterable, validation: Iterable, test: Iterable, task: str, classes: int, steps: int,
        input_size: int | None = None, tokens: int | None = None, encoding: Encoding | None = None,
    ):  # fmt: skip
        self._splits = {"train": train, "validation": validation, "test": test}
        for split, batches in self._splits.items():
            if iter(batches) is batches:
                raise ValueError(f"{split} must give its batches anew each time, got {type(batches).__name__}")
        self.task, self.classes, self.steps, self.input_size = task, classes, steps, input_size
        self.encoding, self._tokens = encoding or Encoding(), tokens or classes
        self.masked = True
        sizes = task, classes, input_size, self._tokens, self.encoding.digest
        self.fingerprint = zlib.crc32(repr(sizes).encode())  # the batches themselves may come in another order

    @property
    def tokens(self) -> int:
        """Different tokens."""
        return self._tokens

    def epoch(self, split, batch, steps, generator=None):
        """Give a split's batches; see :meth:`DataSet.epoch`. `generator` does not change their order.

        Raises :class:`DataError` if a batch has other sizes, or a value that is not finite or none of the classes; the
        message gives its number.
        """
        found = [
            item if isinstance(item, Batch) else self._filled(f"batch {n} of {split}", item, batch, steps)
            for n, item in enumerate(self._splits[check_split(split)])
        ]
        if not found:
            raise ValueError(f"there is no batch in {split}")
        return found

    def _filled(self, where: str, item, batch: int, steps: int) -> Batch:
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise DataError(f"{where}: must be (x, y) or (x, y, lengths), got {type(item).__name__}")
        x, y = (np.asarray(array) for array in item[:2])
        inputs = () if self.input_size is None else (self.input_size,)
        if x.ndim != 2 + len(inputs) or x.shape[2:] != inputs or not 0 < x.shape[0] <= batch or x.shape[1] > steps:
            sizes = ", ".join(map(str, (f"up to {batch}", f"up to {steps}", *inputs)))
            raise DataError(f"{where}: x must have shape ({sizes}), got {x.shape}")
        count, length = x.shape[:2]
        lengths = np.ones(batch, np.int64)
        lengths[:count] = np.asarray(item[2]) if len(item) == 3 else length
        if not ((lengths >= 1) & (lengths <= length)).all():
            raise DataError(f"{where}: lengths must be 1 to {length}, got {lengths[:count].tolist()}")
        filled = np.zeros((steps, batch, *inputs), np.float32 if inputs else np.int64)
        filled[:length, :count] = x.swapaxes(0, 1)
        if not (np.isfinite(filled).all() if inputs else ((filled >= 0) & (filled < self.tokens)).all()):
            raise DataError(f"{where}: x must be {'finite' if inputs else f'0 to {self.tokens - 1}'}")
        targets, weights = self._targets(where, y, lengths, count, steps)
        return Batch(filled, lengths, targets, weights)

    def _targets(self, where: str, y: np.ndarray, lengths: np.ndarray, count: int, steps: int):
        """Give targets and weights of a batch."""
        expected: tuple[int, ...]
        filled: np.ndarray
        length = y.shape[-1] if y.ndim else 0  # steps, where there is a target for each
        present = (np.arange(lengths.size) < count).astype(np.float32)
        if self.task == REGRESS:
            expected, filled = (count, self.classes), np.zeros((lengths.size, self.classes), np.float32)
            y = y.reshape(count, -1) if y.size == count * self.classes else y
        elif self.per_step:
            expected, filled = (count, length), np.zeros((steps, lengths.size), np.int64)
        else:
            expected, filled = (count,), np.zeros(lengths.size, np.int64)
        if y.shape != expected or (self.per_step and length > steps):
            raise DataError(f"{where}: y must have shape {expected}, got {y.shape}")
        if self.task == REGRESS:
            if not np.isfinite(y).all():
                raise DataError(f"{where}: y must be finite")
            filled[:count] = y
            return filled, present
        if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= self.classes:
            raise DataError(
                f"{where}: y must be integers, 0 to {self.classes - 1}, got {y.min()} to {y.max()}, {y.dtype}"
            )
        if not self.per_step:
            filled[:count] = y
            return filled, present
        filled[:length, :count] = y.T
        return filled, present * (np.arange(steps)[:, None] < lengths).astype(np.float32)
