"""Numbers of a byte or of two digits, as they lie in memory and are sent."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from etalstm.network.arithmetic import DIGIT, split
from etalstm.plan.memory import layout
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Location, Sequence
from etalstm.plan.memory.tiling import BatchTiles, Partition, ceil_div
from etalstm_hw.contract.integers import PLANES, WORD_BYTES


@dataclass(frozen=True)
class Digits:
    """Numbers of some entries as they are sent: a byte each, or with two planes their upper and lower digits.

    Members
    -------
    sent : Sequence    [entry][batch tile][group][plane][b], vectors of words
    planes : int
    make_elements : callable
        Gives the element of (entries, B, numbers of a sequence) that each byte of a plane is, -1 for padding: int64,
        (channels, entries, batch tiles, groups, b, lanes, 4). Channels are those of all groups of channels.
    """

    sent: Sequence
    planes: int
    make_elements: Callable[[], np.ndarray]

    @property
    def groups(self) -> int:
        """Groups of a channel."""
        return self.sent.tiles // self.planes

    def at(self, entry: int, batch_tile: int, group: int = 0) -> Location:
        """Where a group lies, and those that follow."""
        return self.sent.at(entry, batch_tile, group * self.planes)

    def words(self, values: np.ndarray) -> np.ndarray:
        """Lay the first entries of numbers out, (entries, B, K): uint32, (channels, vectors, lanes)."""
        elements, batch, entries = self._elements(len(values)), self.sent.batch, len(values)
        channels, lanes, tiles = elements.shape[0], elements.shape[-2], self.sent.tiles
        planes = split(values) if self.planes == PLANES else (values,)
        padded = [np.append(plane.astype(np.int8).ravel(), np.int8(0)) for plane in planes]
        found = np.zeros((channels, entries, batch.count, tiles * batch.size, lanes, WORD_BYTES), np.int8)
        for number in range(batch.count):
            own = batch.size_of(number)
            each = np.stack([plane[elements[:, :, number, :, :own]] for plane in padded], axis=3)
            found[:, :, number, : tiles * own] = each.reshape(channels, entries, tiles * own, lanes, WORD_BYTES)
        return found.view(np.uint32).reshape(channels, -1, lanes)

    def section(self, entries: int) -> Array:
        """The memory of the first entries."""
        return self.sent.array.section(0, entries * self.sent.step_vectors)

    def numbers(self, words: np.ndarray, entries: int, shape: tuple[int, ...]) -> np.ndarray:
        """Gather numbers from the words of the first entries: int32 of a shape; the inverse of :meth:`words`."""
        elements, batch = self._elements(entries), self.sent.batch
        channels, lanes, count, size = len(words), words.shape[-1], batch.count, batch.size
        found = np.zeros(math.prod(shape) + 1, np.int32)
        tiles = np.ascontiguousarray(words).reshape(channels, entries, count, self.groups * self.planes * size, lanes)
        for number in range(count):
            own = batch.size_of(number)
            used = tiles[:, :, number, : self.groups * self.planes * own]
            planes = used.reshape(channels, entries, self.groups, self.planes, own, lanes)
            each = np.ascontiguousarray(planes).view(np.int8).reshape(*planes.shape, WORD_BYTES).astype(np.int32)
            value = each[:, :, :, -1] + (DIGIT * each[:, :, :, 0] if self.planes == PLANES else 0)
            found[elements[:, :, number, :, :own]] = value
        return found[:-1].reshape(shape)

    def _elements(self, entries: int) -> np.ndarray:
        return self.make_elements()[:, :entries]


@dataclass(frozen=True)
class Numbers:
    """An operand as integers.

    Members
    -------
    digits : Digits
    first : int         entry of step 0
    """

    digits: Digits
    first: int


@dataclass(frozen=True)
class Packed:
    """A matrix of weights of a byte: of each group of four vectors, a vector of words for each element.

    Members
    -------
    array : Array     [group][element]
    elements : int
    """

    array: Array
    elements: int

    def at(self, group: int, element: int) -> Location:
        """Vectors of a group from an element on."""
        return Location(self.array, group * self.elements + element)


def of_operand(
    memory: MemoryMap, tiling: IntegerTiling, operand: str, name: str, entries: int, planes: int = 1
) -> Digits:
    """Allocate numbers of x or of the other operand."""
    return of_partition(memory, tiling.columns_of(operand), tiling.batch, name, entries, planes)


def of_partition(
    memory: MemoryMap, partition: Partition, batch: BatchTiles, name: str, entries: int, planes: int
) -> Digits:
    """Allocate numbers that are divided as a partition says; `batch` is that of a part of the batch."""
    groups = ceil_div(partition.tiles, WORD_BYTES)
    array = memory.add_raw(name, "activations", entries * batch.vectors * groups * planes, zeroed=True)
    of_part = partial(operand_elements, partition, entries, batch)
    make, _ = memory.of_batch(of_part, (entries, batch.batch, partition.size), axis=1)
    return Digits(Sequence(array, groups * planes, batch), planes, make)


def of_delta(memory: MemoryMap, tiling: IntegerTiling, name: str) -> Digits:
    """Allocate the numbers of δ."""
    tiles = PLANES * tiling.units.tiles
    array = memory.add_raw(name, "deltas", tiling.steps * tiling.batch.vectors * tiles, zeroed=True)
    numbers = WORD_BYTES * tiling.units.size
    of_part = partial(_delta_elements, tiling.units, tiling.steps, tiling.batch)
    make, _ = memory.of_batch(of_part, (tiling.steps, tiling.batch.batch, numbers), axis=1)
    return Digits(Sequence(array, tiles, tiling.batch), PLANES, make)


def _elements(entries: int, batch: BatchTiles, owned: np.ndarray, numbers: int) -> np.ndarray:
    """Give elements of (entries, B, `numbers`) of what the channels own, (channels, groups, lanes, 4)."""
    entry = np.arange(entries)[:, None, None, None, None, None]
    number = np.arange(batch.count)[:, None] * batch.size + np.arange(batch.size)
    sequence = np.where(number < batch.batch, number, -1)[:, None, :, None, None]
    at = (entry * batch.batch + sequence) * numbers + owned[:, None, None, :, None]
    return np.where((owned[:, None, None, :, None] < 0) | (sequence < 0), -1, at)


def operand_elements(partition: Partition, entries: int, batch: BatchTiles) -> np.ndarray:
    """Elements of numbers that are divided as a partition says, see :class:`Digits`."""
    owned = layout.owned_elements(partition)
    groups = ceil_div(partition.tiles, WORD_BYTES)
    whole = np.pad(owned, ((0, 0), (0, groups * WORD_BYTES - partition.tiles), (0, 0)), constant_values=-1)
    by_group = whole.reshape(len(owned), groups, WORD_BYTES, partition.lanes).swapaxes(2, 3)
    return _elements(entries, batch, by_group, partition.size)


def _delta_elements(units: Partition, steps: int, batch: BatchTiles) -> np.ndarray:
    """A sequence's numbers are [unit][gate], the canonical order."""
    owned = layout.owned_elements(units)[..., None]
    of_gates = np.where(owned < 0, -1, WORD_BYTES * owned + np.arange(WORD_BYTES))
    return _elements(steps, batch, of_gates, WORD_BYTES * units.size)
