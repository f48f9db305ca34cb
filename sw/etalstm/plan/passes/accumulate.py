"""Programs that add the gradients of parts of a batch: of groups of channels, or of parts that follow one another."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

from etalstm.network.slices import most_totals, tree_total
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.shards import Columns
from etalstm.plan.passes.vectors import ZERO, add_squares
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp

_MOST_TILES = 32  # column tiles at a time: about as many additions as the adder has in flight
_MOST_VECTORS = 128  # loaded at a time: the first additions wait for so many


class NormLayer:
    """Emits Σ dW² of each of a layer's columns, rows in ascending order.

    A sum over rows cannot be divided, so a group reads the rows of all groups. The columns are divided: each group sums
    the norms of its column spans (:attr:`Shards.normed`). Each addition to a column waits for the one before. So as
    many columns as possible take turns: the rows of several column spans lie beside each other in the scratch memory.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._emitter, self._layer = emitter, layer
        most = min(_MOST_TILES, config.scratch_depth // (_SETS + 1))
        self._batches = list(_batches(layer.shards.normed, most))
        widest = max(map(_tiles, self._batches))
        scratch = Scratch(config)
        self._norms = scratch.take("norms", widest)
        self._room = min(max(widest, _MOST_VECTORS), (config.scratch_depth - widest) // _SETS)
        self._buffers = [scratch.take("gradients", self._room) for _ in range(_SETS)]

    def emit(self) -> None:
        """Append the layer's instructions."""
        for batch in self._batches:
            tiles, location = _tiles(batch), Location(self._layer.norms, batch[0].first_tile)
            self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=tiles)
            for group, rows in self._layer.shards.owners(range(self._layer.tiling.rows)):
                self._rows_of_group(batch, tiles, group, len(rows))
            self._emitter.store(self._norms, location, Traffic.WEIGHTS, 1, tiles)

    def _rows_of_group(self, batch: list[Columns], tiles: int, group: int, rows: int) -> None:
        most, shards = self._room // tiles, self._layer.shards

        def some_rows(turn: int, count: int) -> None:
            gradients = self._buffers[turn % _SETS]
            for columns in batch:
                source = self._layer.gradient_at(columns.number).at(turn * most * columns.count)
                to = gradients.at(columns.first_tile - batch[0].first_tile, outer=tiles)
                stride = shards.normed_stride * shards.rows * columns.count
                self._emitter.load(to, source, Traffic.WEIGHTS, count, columns.count, group=group, group_stride=stride)
            add_squares(self._emitter, self._norms, gradients, count, tiles)

        self._emitter.in_turns(rows, most, some_rows)


def _tiles(batch: list[Columns]) -> int:
    return sum(columns.count for columns in batch)


def _batches(columns: tuple[Columns, ...], most: int) -> Iterator[list[Columns]]:
    """Cut column spans into runs of at most so many tiles, or of one column span."""
    batch: list[Columns] = []
    for each in columns:
        if batch and _tiles(batch) + each.count > most:
            yield batch
            batch = []
        batch.append(each)
    yield batch


_SETS = 2  # sets of buffers that alternate: one is loaded while another is added

Sums = tuple[Array, Array]  # dW and db


class Accumulation(Enum):
    """What is done with a layer's gradients."""

    KEEP = "keep"  #: they are put aside
    ADD = "add"  #: those that were put aside are added to them
    RESTORE = "restore"  #: those that were put aside take their place


class GradientPass(ABC):
    """Goes through one layer's dW and db, some rows at a time: each group through its shard of dW, and all of db.

    Wherever dW changes, the columns' share of its norm is computed anew, rows in ascending order.

    Parameters
    ----------
    buffers : int    buffers in the scratch memory that each turn has to itself, 2 at least
    normed : bool    dW changes
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, buffers: int, normed: bool):
        self._emitter, self._layer = emitter, layer
        several = layer.shards.groups > 1
        self._normed_here = normed and not several
        self._normed_behind = NormLayer(config, emitter, layer) if normed and several else None
        scratch = Scratch(config)
        widest = max(columns.count for columns in layer.shards.columns)
        self._norms = scratch.take("norms", widest)
        self._room = (config.scratch_depth - widest) // (buffers * _SETS)
        self._sets = [[scratch.take("gradients", self._room) for _ in range(buffers)] for _ in range(_SETS)]

    def emit(self) -> None:
        """Append the layer's instructions."""
        for columns in self._layer.shards.columns:
            self._columns(columns)
        self._finish()

    def _finish(self) -> None:

        def biases(turn: int, count: int) -> None:
            self._move(None, turn * self._room, count, self._sets[turn % _SETS])

        self._emitter.in_turns(self._layer.tiling.gates * self._layer.tiling.units.tiles, self._room, biases)
        if self._normed_behind:
            self._emitter.join_parts()  # norms read column spans, dW was written in other parts
            self._normed_behind.emit()

    @abstractmethod
    def _move(self, columns: Columns | None, vector: int, vectors: int, buffers: list[Operand]) -> None:
        """Move or add some vectors of a column span of dW, or of db; the first buffer has the result.

        `vector` is the first of them, from the column span's first in the shard on.
        """

    def _columns(self, columns: Columns) -> None:
        rows = self._room // columns.count
        if self._normed_here:
            self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=columns.count)

        def some_rows(turn: int, count: int) -> None:
            buffers = self._sets[turn % _SETS]
            self._move(columns, turn * rows * columns.count, count * columns.count, buffers)
            if self._normed_here:
                add_squares(self._emitter, self._norms, buffers[0], count, columns.count)

        self._emitter.in_turns(self._layer.shards.rows, rows, some_rows)
        if self._normed_here:
            location = Location(self._layer.norms, columns.first_tile)
            self._emitter.store(self._norms, location, Traffic.WEIGHTS, 1, columns.count)


class AccumulateLayer(GradientPass):
    """Emits what is done with one layer's dW and db after the backward pass of a part.

    `number`: which of the layer's arrays of gradients that were put aside.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, number: int, how: Accumulation):
        super().__init__(config, emitter, layer, buffers=2, normed=how != Accumulation.KEEP)
        self._aside: Sums = layer.partial[number]
        self._present: Sums = layer.gradient, layer.bias_gradient
        self._how = how

    def _move(self, columns: Columns | None, vector: int, vectors: int, buffers: list[Operand]) -> None:
        emitter, how, (total, free) = self._emitter, self._how, buffers
        number, vector = (0, columns.first_in_shard + vector) if columns else (1, vector)
        aside, gradients = (Location(sums[number], vector, (vector,)) for sums in (self._aside, self._present))
        emitter.load(total, gradients if how == Accumulation.KEEP else aside, Traffic.WEIGHTS, 1, vectors)
        if how == Accumulation.ADD:
            emitter.load(free, gradients, Traffic.WEIGHTS, 1, vectors)
            emitter.vector(VectorOp.ADD, total, total, free, inner=vectors)
        emitter.store(total, aside if how == Accumulation.KEEP else gradients, Traffic.WEIGHTS, 1, vectors)


class TotalLayer(GradientPass):
    """Emits the addition of what all groups have for one layer's dW and db, as the tree of the groups.

    Each group adds the rows of its shard, and stores their total in an array of its own. So no group overwrites what
    another still reads. db is small: each group adds and keeps all of it.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._groups = layer.shards.groups
        super().__init__(config, emitter, layer, buffers=most_totals(self._groups), normed=True)

    def emit_behind(self, summed: Iterator[int]) -> None:
        """Append the layer's instructions between those of its dW: a column span's when the next one has been summed.

        So no group waits for what others have of it. `summed` appends a column span's dW and gives its number.
        """
        each = self._layer.shards.columns
        for before, _ in pairwise(summed):
            self._columns(each[before])
        self._columns(each[-1])
        self._finish()

    def _move(self, columns: Columns | None, vector: int, vectors: int, buffers: list[Operand]) -> None:
        layer, stride, free = self._layer, 0, list(reversed(buffers))
        source, target = Location(layer.db, vector), Location(layer.bias_gradient, vector)
        if columns:
            source, target = (at(columns.number).at(vector) for at in (layer.dw_at, layer.gradient_at))
            stride = layer.shards.stride * columns.count

        def terms() -> Iterator[Operand]:
            for group in range(self._groups):
                term = free.pop()
                self._emitter.load(term, source, Traffic.WEIGHTS, 1, vectors, group=group, group_stride=stride)
                yield term

        def add(left: Operand, right: Operand) -> Operand:
            self._emitter.vector(VectorOp.ADD, left, left, right, inner=vectors)
            free.append(right)
            return left

        total = tree_total(terms(), self._groups, add)
        self._emitter.store(total, target, Traffic.WEIGHTS, 1, vectors, made_of=source.array)
