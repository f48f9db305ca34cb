"""The arrays of a layer with integers, beside those of float32."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from etalstm.network.arithmetic import DIGIT
from etalstm.plan.memory import layout
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Location, Sequence
from etalstm.plan.memory.tiling import BatchTiles, Partition, ceil_div
from etalstm_hw.contract.integers import PLANES, WORD_BYTES

OPERANDS = ("x", "h")


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


@dataclass(frozen=True)
class Transposed:
    """δ as it is sent for dW: of each row all steps and sequences, two planes of digits.

    Rows lie in the window of the channel that owns them, as [run][step][block of sequences][plane][row].

    Members
    -------
    array : Array
    tiling : IntegerTiling
    """

    array: Array
    tiling: IntegerTiling

    def plane_vectors(self, run: int) -> int:
        """Vectors of a block's plane: one for each of a run's rows."""
        return self.tiling.row_runs[run].count * self.tiling.config.lanes

    def vectors(self, run: int) -> int:
        """Vectors of a run of rows."""
        return self.tiling.steps * self.tiling.pair_blocks * PLANES * self.plane_vectors(run)

    def at(self, run: int, step: int, block: int) -> Location:
        """Where the rows lie of a step and block of sequences."""
        earlier = sum(self.vectors(r) for r in range(run))
        vector = earlier + (step * self.tiling.pair_blocks + block) * PLANES * self.plane_vectors(run)
        return Location(self.array, vector)


@dataclass(frozen=True)
class Digits:
    """Numbers of some entries as they are sent: a byte each, or with two planes their upper and lower digits.

    Members
    -------
    sent : Sequence    [entry][batch tile][group][plane][b], vectors of words
    planes : int
    make_elements : callable
        Gives the element of (entries, B, numbers of a sequence) that each byte of a plane is, -1 for padding: int64,
        (channels, entries, batch tiles, groups, b, lanes, 4).
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
        """Lay the first entries of numbers of one plane out, (entries, B, K): uint32, (channels, vectors, lanes)."""
        elements, batch = self._elements(len(values)), self.sent.batch
        channels, lanes = elements.shape[0], elements.shape[-2]
        padded = np.append(values.astype(np.int8).ravel(), np.int8(0))
        found = np.zeros((channels, len(values), batch.count, self.groups * batch.size, lanes, WORD_BYTES), np.int8)
        for number in range(batch.count):
            own = batch.size_of(number)
            each = padded[elements[:, :, number, :, :own]]
            used = channels, len(values), self.groups * own, lanes, WORD_BYTES
            found[:, :, number, : self.groups * own] = each.reshape(used)
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
class IntegerArrays:
    """Arrays of a layer.

    Members
    -------
    tiling : IntegerTiling
    constants : Array    exponents that the host sets, a vector each: see :class:`Constant`
    exponents : Array    e_r, [tile of units][gate]
    rows, columns : dict of Packed    weights by rows and by columns, by operand
    operands : dict of Numbers
    delta : Digits       a group is the gates of a tile of units
    transposed : Transposed
    noted : Array        of δ, a vector each: exponents of the largest ones, how many were clamped
    """

    tiling: IntegerTiling
    constants: Array
    exponents: Array
    rows: dict[str, Packed]
    columns: dict[str, Packed]
    operands: dict[str, Numbers]
    delta: Digits
    transposed: Transposed
    noted: Array

    @property
    def output(self) -> Numbers:
        """What the layer gives, entry 0 its initial state."""
        return self.operands["h"]


class Constant:
    """Numbers of the exponents that the host sets for a layer."""

    X, H = range(2)  # of the gates' sums with x, with h; without the rows' own
    PLACES = 2  # for h
    WEIGHT_PLACES = 3  # for weights, without the rows' own
    DELTA_PLACES = 4  # for δ, likewise
    BELOW = 5  # of Wᵀδ
    BIAS = 6  # of db
    GRADIENT_X, GRADIENT_H = 7, 8  # of dW
    COUNT = 9


class Noted:
    """Vectors of what a channel notes of δ."""

    EXPONENT, CLAMPED = range(2)
    COUNT = 2


def allocate(memory: MemoryMap, tiling: IntegerTiling, number: int, below: IntegerArrays | None) -> IntegerArrays:
    """Allocate the arrays of a layer; `below` are those of the layer below."""
    zeroed = partial(memory.add_raw, zeroed=True)
    of_transposed = tiling.steps * tiling.pair_blocks * PLANES * tiling.rows * tiling.config.lanes
    transposed = Transposed(zeroed(f"transposed{number}", "deltas", of_transposed), tiling)
    output = _operand(memory, tiling, "h", f"h{number}", 1)
    of_rows = partial(layout.rows_elements, tiling.units, tiling.gates)
    return IntegerArrays(
        tiling=tiling,
        constants=memory.add_raw(f"constants{number}", "weights", Constant.COUNT),
        exponents=memory.add(
            f"exponents{number}", "weights", tiling.rows, of_rows, (tiling.gates * tiling.units.size,)
        ),
        rows={
            name: _packed(memory, f"rows{number}_{name}", tiling.units.tiles, tiling.elements(name))
            for name in OPERANDS
        },
        columns={
            name: _packed(memory, f"columns{number}_{name}", tiling.groups_of(name), tiling.sent_rows)
            for name in OPERANDS
        },
        operands={
            "x": Numbers(below.output.digits, 1) if below else _operand(memory, tiling, "x", f"x{number}", 0),
            "h": output,
        },
        delta=_delta(memory, tiling, f"delta{number}"),
        transposed=transposed,
        noted=memory.add_raw(f"noted{number}", "deltas", Noted.COUNT),
    )


def _packed(memory: MemoryMap, name: str, groups: int, elements: int) -> Packed:
    return Packed(memory.add_raw(name, "weights", groups * elements, zeroed=True), elements)


def _operand(memory: MemoryMap, tiling: IntegerTiling, operand: str, name: str, more: int) -> Numbers:
    """Allocate an operand of `more` entries than steps."""
    partition, entries, groups = tiling.columns_of(operand), tiling.steps + more, tiling.groups_of(operand)
    vectors = entries * tiling.batch.vectors * groups
    array = memory.add_raw(f"numbers_{name}", "activations", vectors, zeroed=True)
    make = partial(_operand_elements, partition, entries, tiling.batch)
    return Numbers(Digits(Sequence(array, groups, tiling.batch), 1, make), 0)


def _delta(memory: MemoryMap, tiling: IntegerTiling, name: str) -> Digits:
    tiles = PLANES * tiling.units.tiles
    array = memory.add_raw(f"numbers_{name}", "deltas", tiling.steps * tiling.batch.vectors * tiles, zeroed=True)
    make = partial(_delta_elements, tiling.units, tiling.steps, tiling.batch)
    return Digits(Sequence(array, tiles, tiling.batch), PLANES, make)


def _elements(entries: int, batch: BatchTiles, owned: np.ndarray, numbers: int) -> np.ndarray:
    """Give elements of (entries, B, `numbers`) of what the channels own, (channels, groups, lanes, 4)."""
    entry = np.arange(entries)[:, None, None, None, None, None]
    number = np.arange(batch.count)[:, None] * batch.size + np.arange(batch.size)
    sequence = np.where(number < batch.batch, number, -1)[:, None, :, None, None]
    at = (entry * batch.batch + sequence) * numbers + owned[:, None, None, :, None]
    return np.where((owned[:, None, None, :, None] < 0) | (sequence < 0), -1, at)


def _operand_elements(partition: Partition, entries: int, batch: BatchTiles) -> np.ndarray:
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
