"""Programs that add the gradients of parts of a batch, where the whole batch does not fit the memory."""

from enum import Enum

from etalstm.hw.config import Config
from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Place, Scratch
from etalstm.plan.tiling import Span
from etalstm.plan.vectors import ZERO

_SETS = 2  # buffers that alternate: one is loaded while the other is added


class Accumulation(Enum):
    """What becomes of a layer's gradients."""

    KEEP = "keep"  #: they are put aside
    ADD = "add"  #: those that were put aside are added to them
    RESTORE = "restore"  #: those that were put aside take their place


class AccumulateLayer:
    """Emits what is done with one layer's dW and db after the backward pass of a part.

    Wherever dW changes, the columns' share of its norm is computed anew.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    number : int
        Which of the layer's places for gradients that were put aside.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, number: int):
        self._emitter, self._layer = emitter, layer
        self._aside, self._bias_aside = layer.partial[number]
        scratch = Scratch(config)
        widest = max(group.count for group in layer.tiling.column_groups)
        self._norms = scratch.take("norms", widest)
        self._room = (config.scratch_depth - widest) // (2 * _SETS)
        self._sets = [[scratch.take(name, self._room) for name in ("aside", "gradients")] for _ in range(_SETS)]

    def emit(self, how: Accumulation) -> None:
        """Append the layer's instructions."""
        first = 0
        for group in self._layer.tiling.column_groups:
            self._columns(group, first, how)
            first += self._layer.tiling.rows * group.count
        vectors = self._layer.tiling.gates * self._layer.tiling.units.tiles

        def biases(turn, count=self._room):
            self._move((self._bias_aside, self._layer.bias_gradient), turn * self._room, count, turn, how)

        self._in_turns(vectors, self._room, biases)

    def _columns(self, group: Span, first: int, how: Accumulation) -> None:
        """Append what is done with dW of a column group, whose vectors begin with `first`."""
        rows, norms = self._room // group.count, self._norms.at(0, outer=0)
        self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=group.count)

        def some_rows(turn, count=rows):
            vector, vectors = first + turn * rows * group.count, count * group.count
            free, total = self._move((self._aside, self._layer.gradient), vector, vectors, turn, how)
            if how != Accumulation.KEEP:
                self._emitter.vector(VectorOp.MULTIPLY, free, total, total, inner=vectors)
                squares = free.at(0, outer=group.count)
                self._emitter.vector(VectorOp.ADD, norms, norms, squares, outer=count, inner=group.count, serial=True)

        self._in_turns(self._layer.tiling.rows, rows, some_rows)
        if how != Accumulation.KEEP:
            self._emitter.store(self._norms, Place(self._layer.norms, group.first), Traffic.WEIGHTS, 1, group.count)

    def _in_turns(self, total: int, of_turn: int, emit) -> None:
        turns, rest = divmod(total, of_turn)
        self._emitter.loop(turns, emit)
        if rest:
            emit(turns, rest)

    def _move(self, arrays, vector: int, vectors: int, turn: int, how: Accumulation):
        """Move or add some vectors; give the buffer that is free then, and the one that has the result."""
        emitter = self._emitter
        aside, gradients = (Place(array, vector, (vector,)) for array in arrays)
        free, total = self._sets[turn % _SETS]
        emitter.load(total, gradients if how == Accumulation.KEEP else aside, Traffic.WEIGHTS, 1, vectors)
        if how == Accumulation.ADD:
            emitter.load(free, gradients, Traffic.WEIGHTS, 1, vectors)
            emitter.vector(VectorOp.ADD, total, total, free, inner=vectors)
        emitter.store(total, aside if how == Accumulation.KEEP else gradients, Traffic.WEIGHTS, 1, vectors)
        return free, total
