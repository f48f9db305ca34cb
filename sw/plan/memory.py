"""The memory map: named arrays in every channel's window, and how host arrays lie in them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from etalstm.hw.config import Config
from etalstm.hw.contract import PAGE_BYTES
from etalstm.plan.tiling import BatchTiles, LayerTiling, Share, ceil_div
from etalstm.slices import Parts


def whole_pages(count: int) -> int:
    """Give the first multiple of a page from `count` bytes on: where windows and programs may begin."""
    return ceil_div(count, PAGE_BYTES) * PAGE_BYTES


@dataclass(frozen=True)
class Array:
    """A named run of vectors at the same place of every channel's window.

    Members
    -------
    name : str
    kind : str
        What it is counted as in the footprint: weights, activations, intermediates, deltas, optimizer.
    first, vectors : int
        First vector in the window, and how many there are.
    words : tuple of int
        Shape of what the channels hold of it: (channels, vectors, lanes).
    shape : tuple of int
        Shape of the host's array.
    make_index : function
        Makes `index`: for a large array that takes twice the memory of its words, so it is not done before data moves.
    padding : float
        What words hold that are no element.
    copies : int
        1, or the number of groups of channels if each group holds the whole array.
    """

    name: str
    kind: str
    first: int
    words: tuple[int, int, int]
    shape: tuple[int, ...]
    make_index: Callable[[], np.ndarray] = field(compare=False)
    padding: float = 0.0
    copies: int = 1

    @property
    def copy_words(self) -> tuple[int, int, int]:
        """Shape of what the channels hold that share one copy: (channels, vectors, lanes)."""
        return self.words[0] // self.copies, *self.words[1:]

    @property
    def vectors(self) -> int:
        """Length, in vectors of each window."""
        return self.words[1]

    @cached_property
    def index(self) -> np.ndarray:
        """Which element of the host's array each word is, int64, of shape `copy_words`; -1 is padding."""
        return self.make_index().reshape(self.copy_words)

    @property
    def raw(self) -> bool:
        """It holds no array of the host's: streams, their indices, the gates of dense cells."""
        return self.shape == (0,)

    def part(self, first: int, vectors: int) -> "Array":
        """Take `vectors` vectors, from the `first`; the host's array stays the whole one."""
        words = self.words[0], vectors, self.words[2]
        index = lambda: self.index[:, first : first + vectors]  # noqa: E731
        return replace(self, first=self.first + first, words=words, make_index=index)


class MemoryMap:
    """Allocates arrays one after the other; every channel's window has the same layout.

    Arrays with a batch axis are divided among the groups of channels: group g holds part g of the batch. Every group
    holds a copy of any other array.

    Parameters
    ----------
    config : Config
        The machine of one group.
    parts : Parts
        The parts of the batch, one for each group.

    Members
    -------
    groups, channels : int
        Groups of channels, and channels of all of them.
    arrays : dict from name to Array
    """

    def __init__(self, config: Config, parts: Parts):
        self._config, self._parts = config, parts
        self.groups, self.channels = parts.count, parts.count * config.channels
        self._vectors = 0
        self.arrays: dict[str, Array] = {}

    def add(
        self,
        name: str,
        kind: str,
        vectors: int,
        index: Callable[[], np.ndarray],
        shape: tuple[int, ...],
        padding: float = 0.0,
        batch_axis: int | None = None,
    ) -> Array:
        """Allocate an array of so many vectors, whose words are the elements `index` of a host array of `shape`.

        With a `batch_axis`, `index` and `shape` are those of one part of the batch; the host's array has the whole one.
        """
        words = self.channels, vectors, self._config.lanes
        if batch_axis is None:
            return self._add(Array(name, kind, self._vectors, words, shape, index, padding, self._parts.count))
        make_index, shape = self.of_batch(index, shape, batch_axis)
        return self._add(Array(name, kind, self._vectors, words, shape, make_index, padding))

    def of_batch(self, index: Callable[[], np.ndarray], shape: tuple[int, ...], axis: int):
        """Give what makes the index of all groups' words, and the host's shape, from those of one part of the batch."""
        whole = *shape[:axis], self._parts.batch, *shape[axis + 1 :]
        return partial(_index_of_batch, self._parts, index, math.prod(shape[axis + 1 :])), whole

    def _add(self, array: Array) -> Array:
        if array.name in self.arrays:
            raise ValueError(f"array {array.name!r} is allocated already")
        self.arrays[array.name] = array
        self._vectors += array.vectors
        return array

    def add_raw(self, name: str, kind: str, vectors: int) -> Array:
        """Allocate memory that holds no array of the host's."""
        words = self.channels, vectors, self._config.lanes
        make_index = partial(np.broadcast_to, np.int64(-1), words)
        return self._add(Array(name, kind, self._vectors, words, (0,), make_index))

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector in memory."""
        return self._config.vector_beats * self._config.beat_bytes

    @property
    def window_bytes(self) -> int:
        """Size of a channel's window."""
        return whole_pages(self._vectors * self.vector_bytes)

    def footprint(self) -> dict[str, int]:
        """Bytes by kind, all channels together, padding included."""
        kinds = dict.fromkeys(sorted({array.kind for array in self.arrays.values()}), 0)
        for array in self.arrays.values():
            kinds[array.kind] += array.vectors * self.vector_bytes * self.channels
        return kinds


def pack(array: Array, values: np.ndarray) -> np.ndarray:
    """Lay a host array out as the channels' windows hold it.

    Parameters
    ----------
    values : array, float32, of ``array.shape``

    Returns
    -------
    array, float32, of ``array.copy_words``
    """
    padded = np.append(np.asarray(values, np.float32).ravel(), np.float32(array.padding))
    return padded[array.index]


def unpack(array: Array, words: np.ndarray) -> np.ndarray:
    """Gather a host array from what the windows of one copy's channels hold: the inverse of :func:`pack`."""
    values = np.zeros(int(np.prod(array.shape)) + 1, np.float32)
    values[array.index] = words.reshape(array.copy_words)
    return values[:-1].reshape(array.shape)


def elements(share: Share) -> np.ndarray:
    """Which element each (channel, tile, lane) owns, -1 for padding; shape (channels, tiles, lanes)."""
    lane = np.arange(share.tiles * share.lanes)
    owned = np.arange(share.channels)[:, None] * share.share + lane[None, :]
    owned = np.where((lane[None, :] < share.share) & (owned < share.size), owned, -1)
    return owned.reshape(share.channels, share.tiles, share.lanes)


def _index_of_batch(parts: Parts, make_index: Callable[[], np.ndarray], inner: int) -> np.ndarray:
    """Index of an array of the whole batch in the windows of all groups, from one of a part in those of its group.

    Parameters
    ----------
    parts : Parts
    make_index : function
        Makes the index of a part: int64, (channels of a group, ...).
    inner : int
        Elements of the axes behind the batch axis.

    Returns
    -------
    array, int64, (channels, ...)
    """
    index = make_index()
    if parts.count == 1:
        return index
    outer, place, element = index // (parts.places * inner), index // inner % parts.places, index % inner
    groups = []
    for part in range(parts.count):
        sequence = parts.sequences(part)[place]
        whole = (outer * parts.batch + sequence) * inner + element
        groups.append(np.where((index < 0) | (sequence < 0), -1, whole))
    return np.concatenate(groups)


def _combine(*parts: tuple[np.ndarray, int]) -> np.ndarray:
    """Flat index from (index, stride) pairs; padding in any of them is padding."""
    total, padding = 0, False
    for index, stride in parts:
        total = total + np.where(index < 0, 0, index) * stride
        padding = padding | (index < 0)
    return np.where(padding, -1, total).astype(np.int64)


def sequence_index(share: Share, steps: int, batch: BatchTiles) -> np.ndarray:
    """Index of an array (steps, B, size) that lies as [step][batch tile][tile][b][lane] in every window.

    Short batch tiles are followed by unused vectors, so that every (step, batch tile) starts at the same stride.
    """
    owned = elements(share)
    index = np.full((share.channels, steps, batch.count, share.tiles * batch.size, share.lanes), -1, np.int64)
    step = np.arange(steps)[None, :, None, None, None] * (batch.batch * share.size)
    for number, tile in enumerate(batch.ranges):
        size = len(tile)
        sequence = np.array(tile)[None, None, None, :, None] * share.size
        block = owned[:, None, :, None, :]
        flat = np.where(block < 0, -1, step + sequence + block)
        index[:, :, number, : share.tiles * size] = flat.reshape(share.channels, steps, share.tiles * size, share.lanes)
    return index


def mask_index(config: Config, steps: int, batch: BatchTiles) -> np.ndarray:
    """Index of an array (steps, B) that lies as [step][batch tile][b], the same in every lane of every channel."""
    index = np.full((config.channels, steps, batch.count, batch.size, config.lanes), -1, np.int64)
    for number, tile in enumerate(batch.ranges):
        flat = np.arange(steps)[:, None] * batch.batch + np.array(tile)[None, :]
        index[:, :, number, : len(tile)] = flat[None, :, :, None]
    return index


def _rows(layer: LayerTiling) -> np.ndarray:
    """PyTorch row of each of the machine's rows, gates of a unit together, -1 for padding; shape (rows,)."""
    unit = np.arange(layer.units.padded)
    # Padding units only follow the last real one, since shares are filled in order.
    unit = np.where(unit < layer.units.size, unit, -1)
    gate = np.arange(layer.gates)
    return _combine((unit[:, None], 1), (gate[None, :], layer.units.size)).ravel()


def _columns(layer: LayerTiling) -> np.ndarray:
    """Column of the host's matrix of each (channel, column tile, lane), -1 for padding."""
    inputs, units = elements(layer.inputs), elements(layer.units)
    units = np.where(units < 0, -1, units + layer.inputs.size)
    return np.concatenate([inputs, units], axis=1)


def column_copy_index(layer: LayerTiling) -> np.ndarray:
    """Index of a matrix (4H, K) that lies as [column group][row][column tile][lane] in its column owners' windows."""
    columns, width = _columns(layer), layer.inputs.size + layer.units.size
    rows = _rows(layer)[None, :, None, None]
    groups = [
        _combine((rows, width), (columns[:, None, g.first : g.first + g.count], 1)).reshape(
            columns.shape[0], -1, columns.shape[2]
        )
        for g in layer.column_groups
    ]
    return np.concatenate(groups, axis=1)


def row_copy_index(layer: LayerTiling) -> np.ndarray:
    """Index of a matrix (4H, K) that lies as [unit group][column][unit tile][gate][lane] in its row owners' windows."""
    width = layer.inputs.size + layer.units.size
    units = elements(layer.units)
    inputs = np.arange(layer.inputs.padded)
    inputs = np.where(inputs < layer.inputs.size, inputs, -1)
    state = np.arange(layer.units.padded)
    state = np.where(state < layer.units.size, state + layer.inputs.size, -1)
    columns = np.concatenate([inputs, state])[None, :, None, None, None]
    gate = np.arange(layer.gates)[None, None, None, :, None]
    groups = [
        _combine(
            (units[:, None, g.first : g.first + g.count, None, :], width),
            (gate, layer.units.size * width),
            (columns, 1),
        ).reshape(units.shape[0], -1, units.shape[2])
        for g in layer.unit_groups
    ]
    return np.concatenate(groups, axis=1)


def bias_index(layer: LayerTiling) -> np.ndarray:
    """Index of a bias (4H,) that lies as [unit tile][gate][lane] in its row owners' windows."""
    return _combine(
        (elements(layer.units)[:, :, None, :], 1), (np.arange(layer.gates)[None, None, :, None], layer.units.size)
    )


def column_index(layer: LayerTiling) -> np.ndarray:
    """Index of a vector (K,) that lies as [column tile][lane] in its column owners' windows."""
    return _columns(layer)


def gates_index(share: Share, gates: int, steps: int, batch: BatchTiles) -> np.ndarray:
    """Index of an array (steps, B, gates, H) that lies as [step][batch tile][unit tile][gate][b] in every window."""
    owned = elements(share)[:, None, :, None, None, :]
    index = np.full((share.channels, steps, batch.count, share.tiles * gates * batch.size, share.lanes), -1, np.int64)
    step = np.arange(steps)[None, :, None, None, None, None] * (batch.batch * gates * share.size)
    gate = np.arange(gates)[None, None, None, :, None, None] * share.size
    for number, tile in enumerate(batch.ranges):
        size = len(tile)
        sequence = np.array(tile)[None, None, None, None, :, None] * (gates * share.size)
        flat = np.where(owned < 0, -1, step + sequence + gate + owned)
        vectors = share.tiles * gates * size
        index[:, :, number, :vectors] = flat.reshape(share.channels, steps, vectors, share.lanes)
    return index
