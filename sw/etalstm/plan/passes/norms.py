"""Programs of the columns' norms where groups of channels share the rows of dW."""

from collections.abc import Iterator

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.operands import Place, Scratch
from etalstm.plan.memory.shards import Columns
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp

_SETS = 2  # buffers that alternate: one is loaded while another is added
_MOST_TILES = 32  # column tiles at a time: about as many additions as the adder has in flight
_MOST_VECTORS = 128  # loaded at a time: the first additions wait for so many


class NormLayer:
    """Emits Σ dW² of each of a layer's columns, rows in ascending order.

    A sum over rows cannot be divided, so a group reads the rows of all groups. The columns are divided: each group sums
    the norms of its column groups (:attr:`Shards.normed`). Each addition to a column waits for the one before. So as
    many columns as possible take turns: the rows of several column groups lie beside each other in the scratch memory.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._emitter, self._layer = emitter, layer
        most = min(_MOST_TILES, config.scratch_depth // (_SETS + 1))
        self._batches = list(_batches(layer.shards.normed, most))
        widest = max(map(_tiles, self._batches))
        scratch = Scratch(config)
        self._norms = scratch.take("norms", widest)
        self._room = min(max(widest, _MOST_VECTORS), (config.scratch_depth - widest) // _SETS)
        self._buffers = [scratch.take("squares", self._room) for _ in range(_SETS)]

    def emit(self) -> None:
        """Append the layer's instructions."""
        for batch in self._batches:
            tiles, place = _tiles(batch), Place(self._layer.norms, batch[0].first_tile)
            self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=tiles)
            for group, rows in self._layer.shards.owners(range(self._layer.tiling.rows)):
                self._rows_of_group(batch, tiles, group, len(rows))
            self._emitter.store(self._norms, place, Traffic.WEIGHTS, 1, tiles)

    def _rows_of_group(self, batch: list[Columns], tiles: int, group: int, rows: int) -> None:
        """Add the squares of the first rows of a group's shard."""
        most, shards = self._room // tiles, self._layer.shards

        def some_rows(turn: int, count: int = most) -> None:
            squares, norms = self._buffers[turn % _SETS], self._norms.at(0, outer=0)
            for columns in batch:
                place = self._layer.gradient_at(columns.number).at(turn * most * columns.count)
                to = squares.at(columns.first_tile - batch[0].first_tile, outer=tiles)
                stride = shards.normed_stride * shards.rows * columns.count
                self._emitter.load(to, place, Traffic.WEIGHTS, count, columns.count, group=group, group_stride=stride)
            self._emitter.vector(VectorOp.MULTIPLY, squares, squares, squares, inner=count * tiles)
            squares = squares.at(0, outer=tiles)
            self._emitter.vector(VectorOp.ADD, norms, norms, squares, outer=count, inner=tiles, serial=True)

        turns, rest = divmod(rows, most)
        self._emitter.loop(turns, some_rows)
        if rest:
            some_rows(turns, rest)


def _tiles(batch: list[Columns]) -> int:
    return sum(columns.count for columns in batch)


def _batches(columns: tuple[Columns, ...], most: int) -> Iterator[list[Columns]]:
    """Cut column groups into runs of at most so many tiles, or of one column group."""
    batch: list[Columns] = []
    for each in columns:
        if batch and _tiles(batch) + each.count > most:
            yield batch
            batch = []
        batch.append(each)
    yield batch
