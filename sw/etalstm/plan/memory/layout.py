"""Which element of a host's array each word of the channels' windows is, array by array."""

from functools import reduce

import numpy as np

from etalstm.plan.memory.shards import Shards
from etalstm.plan.memory.tiling import BatchTiles, LayerTiling, Partition
from etalstm_hw.config import Config


def owned_elements(partition: Partition) -> np.ndarray:
    """Which element each (channel, tile, lane) owns, -1 for padding; shape (channels, tiles, lanes)."""
    lane = np.arange(partition.tiles * partition.lanes)
    owned = np.arange(partition.channels)[:, None] * partition.per_channel + lane[None, :]
    owned = np.where((lane[None, :] < partition.per_channel) & (owned < partition.size), owned, -1)
    return owned.reshape(partition.channels, partition.tiles, partition.lanes)


def _combine(*parts: tuple[np.ndarray, int]) -> np.ndarray:
    """Number elements by (number, stride) pairs; padding in any of them is padding."""
    total = sum(np.where(number < 0, 0, number) * stride for number, stride in parts)
    padding = reduce(np.logical_or, [number < 0 for number, _ in parts])
    return np.where(padding, -1, total).astype(np.int64)


def sequence_elements(
    partition: Partition, steps: int, batch: BatchTiles, *, gates: int = 1, channels: int | None = None
) -> np.ndarray:
    """Elements of an array (steps, B, `gates`, size), [step][batch tile][tile][gate][b][lane] in every window.

    Short batch tiles are followed by unused vectors, so that every (step, batch tile) starts at the same stride. Where
    there are more `channels` than the partition has, the last ones hold nothing of it.
    """
    ours, vectors = partition.channels, partition.tiles * gates
    owned = owned_elements(partition)[:, None, :, None, None, :]
    elements = np.full((channels or ours, steps, batch.count, vectors * batch.size, partition.lanes), -1, np.int64)
    step = np.arange(steps)[None, :, None, None, None, None] * (batch.batch * gates * partition.size)
    gate = np.arange(gates)[None, None, None, :, None, None] * partition.size
    for number, tile in enumerate(batch.ranges):
        size = len(tile)
        sequence = np.array(tile)[None, None, None, None, :, None] * (gates * partition.size)
        flat = np.where(owned < 0, -1, step + sequence + gate + owned)
        elements[:ours, :, number, : vectors * size] = flat.reshape(ours, steps, vectors * size, partition.lanes)
    return elements


def mask_elements(config: Config, steps: int, batch: BatchTiles) -> np.ndarray:
    """Elements of an array (steps, B) that lies as [step][batch tile][b], the same in every lane of every channel."""
    elements = np.full((config.channels, steps, batch.count, batch.size, config.lanes), -1, np.int64)
    for number, tile in enumerate(batch.ranges):
        flat = np.arange(steps)[:, None] * batch.batch + np.array(tile)[None, :]
        elements[:, :, number, : len(tile)] = flat[None, :, :, None]
    return elements


def _rows(layer: LayerTiling) -> np.ndarray:
    """PyTorch row of each of the machine's rows, gates of a unit together, -1 for padding; shape (rows,)."""
    unit = np.arange(layer.units.padded)
    # Padding units only follow the last real one, since shares are filled in order.
    unit = np.where(unit < layer.units.size, unit, -1)
    gate = np.arange(layer.gates)
    return _combine((unit[:, None], 1), (gate[None, :], layer.units.size)).ravel()


def _columns(layer: LayerTiling) -> np.ndarray:
    """Column of the host's matrix of each (channel, column tile, lane), -1 for padding."""
    inputs, units = owned_elements(layer.inputs), owned_elements(layer.units)
    units = np.where(units < 0, -1, units + layer.inputs.size)
    return np.concatenate([inputs, units], axis=1)


def _columns_by_span(layer: LayerTiling, some: range) -> list[np.ndarray]:
    """Elements of some of the machine's rows of a matrix (4H, K), [row][column tile][lane] of each column span."""
    columns, width = _columns(layer), layer.inputs.size + layer.units.size
    rows = _rows(layer)[None, some.start : some.stop, None, None]
    return [_combine((rows, width), (columns[:, None, g.first : g.first + g.count], 1)) for g in layer.column_spans]


def _copy(spans: list[np.ndarray], narrow: bool) -> np.ndarray:
    """Lay the rows of spans, each (channels, rows, tiles, lanes), one after the other: (channels, vectors, lanes).

    With `narrow` a vector has two tiles that follow each other, (channels, vectors, lanes, 2). After an odd number of
    tiles follows padding.
    """
    if not narrow:
        return np.concatenate([span.reshape(span.shape[0], -1, span.shape[3]) for span in spans], axis=1)
    even = [np.pad(g, ((0, 0), (0, 0), (0, g.shape[2] % 2), (0, 0)), constant_values=-1) for g in spans]
    pairs = [span.reshape(span.shape[0], -1, 2, span.shape[3]).swapaxes(2, 3) for span in even]
    return np.concatenate(pairs, axis=1)


def column_copy_elements(layer: LayerTiling) -> np.ndarray:
    """Elements of a matrix (4H, K) that lies as [column span][row][column tile][lane] in its column owners' windows.

    Of narrow copies see :func:`_copy`.
    """
    return _copy(_columns_by_span(layer, range(layer.rows)), layer.narrow)


def shards_elements(shards: Shards) -> np.ndarray:
    """Elements of a matrix (4H, K) of which each group has its rows, [column span][row][column tile][lane]."""
    groups = [_columns_by_span(shards.tiling, shards.rows_of(group)) for group in range(shards.groups)]
    return np.concatenate([_copy(columns, narrow=False) for columns in groups])


def row_copy_elements(layer: LayerTiling) -> np.ndarray:
    """Elements of a matrix (4H, K) that lies as [unit span][column][unit tile][gate][lane] in its row owners' windows.

    Of narrow copies see :func:`_copy`; their tiles are the gates of unit tiles.
    """
    width = layer.inputs.size + layer.units.size
    units = owned_elements(layer.units)
    inputs = np.arange(layer.inputs.padded)
    inputs = np.where(inputs < layer.inputs.size, inputs, -1)
    state = np.arange(layer.units.padded)
    state = np.where(state < layer.units.size, state + layer.inputs.size, -1)
    columns = np.concatenate([inputs, state])[None, :, None, None, None]
    gate = np.arange(layer.gates)[None, None, None, :, None]
    spans = [
        _combine(
            (units[:, None, g.first : g.first + g.count, None, :], width),
            (gate, layer.units.size * width),
            (columns, 1),
        ).reshape(units.shape[0], layer.depth, -1, units.shape[2])
        for g in layer.unit_spans
    ]
    return _copy(spans, layer.narrow)


def bias_elements(layer: LayerTiling) -> np.ndarray:
    """Elements of a bias (4H,) that lies as [unit tile][gate][lane] in its row owners' windows."""
    return rows_elements(layer.units, layer.gates)


def rows_elements(units: Partition, gates: int, vectors: int | None = None) -> np.ndarray:
    """Elements of a vector with one for each row, so many gates of each unit, that lies likewise.

    The result, (channels, vectors, lanes), is filled up with padding to so many `vectors`.
    """
    each = _combine((owned_elements(units)[:, :, None, :], 1), (np.arange(gates)[None, None, :, None], units.size))
    rows = each.reshape(units.channels, gates * units.tiles, units.lanes)
    return np.pad(rows, ((0, 0), (0, max(0, (vectors or 0) - rows.shape[1])), (0, 0)), constant_values=-1)


def row_shards_elements(elements: np.ndarray, rows: int, parts: int) -> np.ndarray:
    """Elements of an array [column][row vector] of whose rows each group of channels has a shard.

    `elements`, (channels of a group, columns·rows, lanes), are those of the whole array. The rows of the last shard are
    filled up with padding.
    """
    channels, _, lanes = elements.shape
    of_columns = elements.reshape(channels, -1, rows, lanes)
    of_shard = -(-rows // parts)
    padded = np.pad(of_columns, ((0, 0), (0, 0), (0, parts * of_shard - rows), (0, 0)), constant_values=-1)
    shards = [padded[:, :, part * of_shard : (part + 1) * of_shard] for part in range(parts)]
    return np.concatenate(shards).reshape(parts * channels, -1, lanes)


def norms_elements(shards: Shards) -> np.ndarray:
    """Elements of a vector (K,) that lies as [column tile][lane] in its column owners' windows.

    Each group has the columns of those column spans whose norms it sums.
    """
    columns, width = _columns(shards.tiling), sum(columns.count for columns in shards.normed)
    firsts = [shards.columns[group * shards.normed_stride].first_tile for group in range(shards.groups)]
    return np.concatenate([columns[:, first : first + width] for first in firsts])
