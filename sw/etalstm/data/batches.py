"""Batches of the user's own: any iterable of them, such as a ``DataLoader`` of PyTorch."""

import zlib
from collections.abc import Iterable

import numpy as np

from etalstm.data.dataset import CLASSIFY, REGRESS, Batch, DataSet, check_split
from etalstm.data.encoding import Encoding
from etalstm.data.tables import LARGEST_NUMBER
from etalstm.errors import DataError


class Batches(DataSet):
    """A data set of three iterables, one for each split, that give batches anew each time they are iterated over.

    An item is a :class:`Batch`, or ``(x, y)`` or ``(x, y, lengths)`` with the sequences first, whatever
    :func:`numpy.asarray` takes: x numbers, (B, T, I), or tokens, (B, T); y classes, (B,), classes of the steps, (B, T),
    or numbers, (B, C), or (B,) if C is 1. Nothing is cut, repeated or reshaped to fit. A batch with fewer sequences and
    steps than the trainer's is filled with weight zero. The order is the iterable's own. A resumed run has the same
    bits only if the iterable shuffles alike again.

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
            (self._checked if isinstance(item, Batch) else self._filled)(f"batch {n} of {split}", item, batch, steps)
            for n, item in enumerate(self._splits[check_split(split)])
        ]
        if not found:
            raise ValueError(f"there is no batch in {split}")
        return found

    def _checked(self, where: str, item: Batch, batch: int, steps: int) -> Batch:
        """Give a batch that somebody has made whole, once it agrees with itself and with the data set."""
        length = len(item.x)
        self._check_inputs(where, item.x.swapaxes(0, 1) if item.x.ndim > 1 else item.x, batch, steps)
        if item.x.shape[1] != batch:
            raise DataError(f"{where}: x must have {batch} sequences, got {item.x.shape[1]}")
        _check_lengths(where, item.lengths, batch, length)
        answers = (length, batch) if self.per_step else (batch,)
        self._check_answers(where, item.targets, (*answers, self.classes) if self.task == REGRESS else answers)
        if item.weights.shape != answers:
            raise DataError(f"{where}: weights must have shape {answers}, got {item.weights.shape}")
        if not (np.isfinite(item.weights) & (item.weights >= 0)).all():
            raise DataError(f"{where}: weights must be finite and at least 0")
        return item

    def _filled(self, where: str, item, batch: int, steps: int) -> Batch:
        """Make a batch of arrays with the sequences first."""
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise DataError(f"{where}: must be (x, y) or (x, y, lengths), got {type(item).__name__}")
        x, y = (np.asarray(array) for array in item[:2])
        self._check_inputs(where, x, batch, steps)
        count, length = x.shape[:2]
        given = np.asarray(item[2]) if len(item) == 3 else np.full(count, length)
        _check_lengths(where, given, count, length)
        lengths = np.ones(batch, np.int64)
        lengths[:count] = given
        filled = np.zeros((steps, batch, *x.shape[2:]), np.int64 if self.input_size is None else np.float32)
        filled[:length, :count] = x.swapaxes(0, 1)
        if self.task == REGRESS and self.classes == 1 and y.ndim == 1:
            y = y[:, None]
        shape = {REGRESS: (count, self.classes), CLASSIFY: (count,)}.get(self.task, (count, length))
        self._check_answers(where, y, shape)
        weights = (np.arange(batch) < count).astype(np.float32)
        if self.per_step:
            targets = np.zeros((steps, batch), np.int64)
            targets[:length, :count] = y.T
            return Batch(filled, lengths, targets, weights * (np.arange(steps)[:, None] < lengths).astype(np.float32))
        targets = np.zeros((batch, *shape[1:]), np.float32 if self.task == REGRESS else np.int64)
        targets[:count] = y
        return Batch(filled, lengths, targets, weights)

    def _check_inputs(self, where: str, x: np.ndarray, batch: int, steps: int) -> None:
        """Refuse inputs, sequences first, of other sizes or kinds."""
        inputs = () if self.input_size is None else (self.input_size,)
        if x.ndim != 2 + len(inputs) or x.shape[2:] != inputs or not 0 < len(x) <= batch or not 0 < x.shape[1] <= steps:
            sizes = ", ".join(map(str, (f"up to {batch}", f"up to {steps}", *inputs)))
            raise DataError(f"{where}: x must have shape ({sizes}), got {x.shape}")
        if inputs:
            _check_numbers(where, "x", x)
        else:
            _check_integers(where, "x", x, self.tokens)

    def _check_answers(self, where: str, y: np.ndarray, shape: tuple[int, ...]) -> None:
        """Refuse answers of another shape or kind."""
        if y.shape != shape:
            raise DataError(f"{where}: y must have shape {shape}, got {y.shape}")
        if self.task == REGRESS:
            _check_numbers(where, "y", y)
        else:
            _check_integers(where, "y", y, self.classes)


def _check_lengths(where: str, lengths: np.ndarray, count: int, steps: int) -> None:
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        raise DataError(f"{where}: lengths must be {count} integers, got shape {lengths.shape}, {lengths.dtype}")
    if not ((lengths >= 1) & (lengths <= steps)).all():
        raise DataError(f"{where}: lengths must be 1 to {steps}, got {lengths.tolist()}")


def _check_numbers(where: str, name: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "iuf":
        raise DataError(f"{where}: {name} must be numbers, got {array.dtype}")
    if not (np.abs(array) <= LARGEST_NUMBER).all():
        raise DataError(f"{where}: {name} must be finite in float32")


def _check_integers(where: str, name: str, array: np.ndarray, count: int) -> None:
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= count:
        found = f"{array.min()} to {array.max()}, {array.dtype}" if array.dtype.kind in "iufb" else f"{array.dtype}"
        raise DataError(f"{where}: {name} must be integers, 0 to {count - 1}, got {found}")
