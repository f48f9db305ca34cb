"""Sequences of unequal lengths, each with an answer: a class, numbers, or a tag for every step."""

import copy
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.data.buckets import check_none_empty, cut_by_bucket, greedy_bounds, sizes_of
from etalstm.data.dataset import REGRESS, TAG, Batch, DataSet, check_split
from etalstm.data.encoding import Encoding
from etalstm.errors import DataError
from etalstm.network.slices import AUTO

POOL = 16  # batches that are sorted by length together: enough for similar lengths, few enough to stay shuffled
MOST_STEPS = 256  # of a batch, unless the user chooses others

Items = Sequence | np.ndarray


@dataclass(frozen=True)
class Example:
    """A sequence and its answer."""

    x: np.ndarray  # tokens, int64, (T,), or vectors, float32, (T, I)
    target: int | np.ndarray  # class; numbers, float32, (C,); or tags, int64, (T,)


class Sequences(DataSet):
    """Examples in memory. Batches for training hold sequences of similar length, so that few steps are padding.

    The `task` is ``classify``, ``regress`` or ``tag``. `classes` counts classes or tags, or the numbers of a target.
    `tokens` is 0 where inputs are vectors. `steps`, if not given, are those of the longest sequence, at most
    ``MOST_STEPS``. `masked` says whether lengths are unequal, None if the examples decide. With `keep_end` the last
    steps of a sequence that is longer than a batch are used, else the first. Raises :class:`DataError` if there is no
    example, or one does not agree with the others, `classes` or `tokens`; the message gives split and number.
    """

    def __init__(
        self, name: str, task: str, splits: dict[str, list[Example]], classes: int, tokens: int = 0,
        encoding: Encoding | None = None, steps: int | None = None, masked: bool | None = None,
        keep_end: bool = False,
    ):  # fmt: skip
        combined = [example for examples in splits.values() for example in examples]
        if not combined:
            raise DataError(f"{name}: there are no examples")
        self.name, self.task, self.classes, self._splits, self._tokens = name, task, classes, splits, tokens
        self.input_size = None if tokens else combined[0].x.shape[-1]
        for split, examples in splits.items():
            for number, example in enumerate(examples):
                self._check(f"{name}: sequence {number} of {split}", example)
        self.encoding, self._keep_end = encoding or Encoding(), keep_end
        lengths = {len(example.x) for example in combined}
        self._longest = max(lengths)
        self.steps = steps or min(self._longest, MOST_STEPS)
        self.masked = len(lengths) > 1 if masked is None else masked
        self.fingerprint = self._fingerprint(combined)

    def _check(self, where: str, example: Example) -> None:
        """Refuse an example whose arrays have other shapes than those that batches are made of."""
        x, target = example.x, np.asarray(example.target)
        inputs = () if self.input_size is None else (self.input_size,)
        if x.shape[1:] != inputs or not len(x):
            raise DataError(f"{where}: x must be steps of shape {inputs}, got {x.shape}")
        if not inputs and not 0 <= x.min() <= x.max() < self._tokens:
            raise DataError(f"{where}: tokens must be 0 to {self._tokens - 1}, got {x.min()} to {x.max()}")
        shape = {REGRESS: (self.classes,), TAG: (len(x),)}.get(self.task, ())
        if target.shape != shape:
            raise DataError(f"{where}: the answer to x, {x.shape}, must have shape {shape}, got {target.shape}")
        if self.task != REGRESS and not 0 <= target.min() <= target.max() < self.classes:
            raise DataError(f"{where}: answers must be 0 to {self.classes - 1}, got {target.tolist()}")

    def _fingerprint(self, examples: list[Example]) -> int:
        summary = zlib.crc32(self.encoding.json.encode())
        for example in examples:
            summary = zlib.crc32(np.ascontiguousarray(example.x).tobytes(), summary)
            summary = zlib.crc32(np.asarray(example.target).tobytes(), summary)
        return zlib.crc32(repr([len(examples) for examples in self._splits.values()]).encode(), summary)

    @property
    def tokens(self) -> int:
        """Different tokens."""
        return self._tokens

    def epoch(self, split, batch, steps, generator=None):
        """Cut a split into batches of sequences; see :meth:`DataSet.epoch`."""
        members = self._splits.get(check_split(split), [])
        if generator is not None and not self.masked and steps > self._longest:
            raise ValueError(f"steps must be at most {self._longest}, those of every sequence, got {steps}")
        if not members:
            raise ValueError(f"there is no sequence in {split}")
        order = np.arange(len(members))
        if generator is not None:
            order = generator.permutation(order)[: order.size // batch * batch]
            if not order.size:
                raise ValueError(f"batch must be at most {len(members)}, the sequences in {split}, got {batch}")
        if generator is None or self.buckets:
            bounds = [*(bound for bound in self.buckets if bound < steps), steps]
            cut = list(cut_by_bucket(order, _lengths(members), bounds, batch))
        else:
            cut = [(steps, chosen) for chosen in pooled(order, _lengths(members), batch)]
        numbers = range(len(cut)) if generator is None else generator.permutation(len(cut))
        return [self._batch(members, cut[n][1], batch, cut[n][0]) for n in numbers]

    def _bucketed(self, bounds, batch):
        train = self._splits.get("train")
        lengths = _lengths(train or [example for split in self._splits.values() for example in split])
        if bounds == AUTO:
            bounds = self._automatic_bounds(lengths, batch)
        elif train:
            check_none_empty(lengths, bounds)
        found = copy.copy(self)
        found.buckets, found.steps = sizes_of(lengths, bounds), bounds[-1]
        return found

    def _automatic_bounds(self, lengths: np.ndarray, batch: int) -> tuple[int, ...]:
        """Choose bounds by the training lengths; longer sequences of other splits get one more bucket."""
        bounds = greedy_bounds(np.minimum(lengths, self.steps), batch)
        most = min(self.steps, self._longest)
        return bounds if bounds[-1] == most else (*bounds, most)

    def _batch(self, members: list[Example], chosen: np.ndarray, batch: int, steps: int) -> Batch:
        inputs = () if self.input_size is None else (self.input_size,)
        x = np.zeros((steps, batch, *inputs), np.float32 if inputs else np.int64)
        lengths = np.ones(batch, np.int64)
        shape = {REGRESS: (batch, self.classes), TAG: (steps, batch)}.get(self.task, (batch,))
        targets = np.zeros(shape, np.float32 if self.task == REGRESS else np.int64)
        for b, n in enumerate(chosen):
            example = members[n]
            length = lengths[b] = min(len(example.x), steps)
            used = slice(len(example.x) - length, None) if self._keep_end else slice(length)
            x[:length, b] = example.x[used]
            if self.task == TAG:
                targets[:length, b] = example.target[used]
            else:
                targets[b] = example.target
        weights = (np.arange(batch) < chosen.size).astype(np.float32)
        if self.task == TAG:
            weights = weights * (np.arange(steps)[:, None] < lengths).astype(np.float32)
        return Batch(x, lengths, targets, weights)


def _lengths(members: list[Example]) -> np.ndarray:
    return np.array([len(example.x) for example in members])


def pooled(order: np.ndarray, lengths: np.ndarray, batch: int) -> list[np.ndarray]:
    """Cut sequences into full batches of similar length."""
    pools = [order[n : n + POOL * batch] for n in range(0, order.size, POOL * batch)]
    sorted_pools = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    return list(np.concatenate(sorted_pools).reshape(-1, batch))


def hold_out(items: Sequence, share: float) -> tuple[list, list]:
    """Divide items in two at random, alike in every run; the second list has the share. Both keep the items' order."""
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(items))
    count = round(share * order.size)
    first, second = ([items[n] for n in np.sort(numbers)] for numbers in (order[count:], order[:count]))
    return first, second


def examples_of(x: Items, y: Items, lengths: Items | None, task: str) -> list[Example]:
    """Give the examples of arrays.

    `x` is (N, T, I) numbers or (N, T) integers (tokens); or a list of N arrays (T, I) or (T,). `y` is integers, (N,)
    (``classify``) or (N, T) (``tag``; a sequence's tags may end with it), or numbers, (N,) or (N, C) (``regress``).
    `lengths` are N integers, the steps of each sequence; all if not given. Raises :class:`DataError` if arrays are of
    other shapes or kinds, or a number is not finite; the message gives the sequence.
    """
    steps = lengths_of(x, lengths)
    if isinstance(y, np.ndarray) and not y.ndim:
        raise DataError(f"y must be an answer for each sequence, got {y}")
    if len(x) != len(y):
        raise DataError(f"x has {len(x)} sequences, y {len(y)}")
    found = []
    for n, (inputs, target, length) in enumerate(zip(x, y, steps, strict=True)):
        inputs, target = np.asarray(inputs), np.asarray(target)
        shape = inputs.shape
        inputs = _checked(n, "x", inputs, 1 if np.issubdtype(inputs.dtype, np.integer) else 2)[:length]
        target = _checked(n, "y", target, {TAG: 1, REGRESS: min(target.ndim, 1)}.get(task, 0))
        if task == REGRESS:
            found.append(Example(inputs, np.atleast_1d(target).astype(np.float32)))
            continue
        if not np.issubdtype(target.dtype, np.integer):
            raise DataError(f"sequence {n}: y must be integers for the task {task}, got {target.dtype}")
        if task == TAG and len(target) not in (length, shape[0]):
            raise DataError(f"sequence {n}: x has shape {shape} and {length} steps, y has shape {target.shape}")
        found.append(Example(inputs, target[:length] if task == TAG else int(target)))
    return found


def lengths_of(x: Items, lengths: Items | None) -> list[int]:
    """Give the steps of each sequence.

    Raises :class:`DataError` if `x` is no list of sequences, or an empty one, or a length is no integer or not 1 to the
    steps there are; the message gives the sequence.
    """
    if isinstance(x, np.ndarray) and x.ndim < (1 if x.dtype == object else 2):
        raise DataError(f"x must be sequences of steps, got an array of shape {x.shape}")
    if not len(x):
        raise DataError("there is no sequence in x")
    most = [len(np.atleast_1d(inputs)) for inputs in x]
    found = np.array(most, np.int64) if lengths is None else np.asarray(lengths)
    if found.shape != (len(x),) or not np.issubdtype(found.dtype, np.integer):
        raise DataError(f"lengths must be {len(x)} integers, got shape {found.shape}, {found.dtype}")
    for number, (length, steps) in enumerate(zip(found, most, strict=True)):
        if not 1 <= length <= steps:
            raise DataError(f"sequence {number}: its length must be 1 to {steps}, got {length}")
    return found.tolist()


def _checked(number: int, name: str, array: np.ndarray, dimensions: int) -> np.ndarray:
    """Give an array as int64 or float32."""
    if array.ndim != dimensions:
        raise DataError(f"sequence {number}: {name} must have {dimensions} dimensions, got shape {array.shape}")
    if np.issubdtype(array.dtype, np.integer):
        if array.size and array.min() < 0:
            raise DataError(f"sequence {number}: {name} must be at least 0, got {array.min()}")
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise DataError(f"sequence {number}: {name} must be below 2^63, got {array.max()}")
        return array.astype(np.int64)
    return finite_float32(number, name, array)


def finite_float32(number: int, name: str, array: np.ndarray) -> np.ndarray:
    """Give an array of the sequence `number` as float32; :class:`DataError` if a value is no number, or not finite."""
    if array.dtype.kind not in "iuf":
        raise DataError(f"sequence {number}: {name} must be numbers, got {array.dtype}")
    with np.errstate(over="ignore"):
        found = array.astype(np.float32)
    lost = array[~np.isfinite(found)]
    if lost.size:
        raise DataError(f"sequence {number}: {name} must be finite in float32, got {lost[0]}")
    return found
