"""Handwritten digits: scikit-learn's bundled 8 × 8 images, one row of pixels a step, the class after the last."""

import importlib
import zlib

import numpy as np

from etalstm.data.dataset import CLASSIFY, Batch, DataSet, check_split
from etalstm.data.encoding import Encoding

ROWS = COLUMNS = 8
BRIGHTEST = 16  # pixels are 0 to 16
SHARES = (0.7, 0.1)  # of training and validation; the rest is the test split


class Digits(DataSet):
    """1,797 images of ten digits: 70 % for training, 10 % for validation, 20 % for test, of every class alike."""

    name = "digits"
    task = CLASSIFY

    def __init__(self):
        # Not at the top: scikit-learn imports scipy.stats. That takes longer than all other imports of a command.
        bundle = importlib.import_module("sklearn.datasets").load_digits()
        self.classes, self.input_size, self.steps = 10, COLUMNS, ROWS
        self.encoding = Encoding(labels=tuple("0123456789"))
        self._images = (bundle.images / BRIGHTEST).astype(np.float32)  # exact: a power of two divides
        self._labels = bundle.target.astype(np.int64)
        self._members = self._split()
        self.fingerprint = zlib.crc32(self._images.tobytes() + self._labels.tobytes())

    def _split(self) -> dict[str, np.ndarray]:
        generator = np.random.Generator(np.random.PCG64(0))  # the same split for every run and seed
        splits: dict[str, list[np.ndarray]] = {"train": [], "validation": [], "test": []}
        for label in range(self.classes):
            members = generator.permutation(np.flatnonzero(self._labels == label))
            first = round(SHARES[0] * members.size)
            second = first + round(SHARES[1] * members.size)
            for split, chosen in zip(splits.values(), np.split(members, [first, second]), strict=True):
                split.append(chosen)
        return {name: np.sort(np.concatenate(split)) for name, split in splits.items()}

    def epoch(self, split, batch, steps, generator=None):
        """Cut a split into batches of images; see :meth:`DataSet.epoch`."""
        members = self._members[check_split(split)]
        if steps != ROWS:
            raise ValueError(f"steps must be {ROWS} for digits, one per row of an image, got {steps}")
        if generator is not None:
            members = generator.permutation(members)[: members.size // batch * batch]
            if not members.size:
                most = self._members[split].size
                raise ValueError(f"batch must be at most {most}, the images in {split}, got {batch}")
        return [self._batch(members[n : n + batch], batch) for n in range(0, members.size, batch)]

    def _batch(self, members: np.ndarray, batch: int) -> Batch:
        filled = np.concatenate([members, np.zeros(batch - members.size, np.int64)])
        weights = (np.arange(batch) < members.size).astype(np.float32)
        x = np.ascontiguousarray(self._images[filled].swapaxes(0, 1))
        return Batch(x, np.full(batch, ROWS), self._labels[filled], weights)
