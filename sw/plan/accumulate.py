"""Programs that add the gradients of parts of a batch: of groups of channels, or of parts that follow one another."""

from abc import ABC, abstractmethod
from enum import Enum

from etalstm.hw.config import Config
from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Operand, Place, Scratch
from etalstm.plan.memory import Array
from etalstm.plan.tiling import Span
from etalstm.plan.vectors import ZERO
from etalstm.slices import most_totals, tree_total

_SETS = 2  # sets of buffers that alternate: one is loaded while another is added

Sums = tuple[Array, Array]  # dW and db


class Accumulation(Enum):
    """What becomes of a layer's gradients."""

    KEEP = "keep"  #: they are put aside
    ADD = "add"  #: those that were put aside are added to them
    RESTORE = "restore"  #: those that were put aside take their place


class GradientPass(ABC):
    """Goes through one layer's dW and db, some rows at a time.

    Wherever dW changes, the columns' share of its norm is computed anew, rows in ascending order.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    buffers : int
        Buffers in the scratch memory that each turn has to itself, 2 at least.
    normed : bool
        dW changes.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, buffers: int, normed: bool):
        self._emitter, self._layer, self._normed = emitter, layer, normed
        scratch = Scratch(config)
        widest = max(group.count for group in layer.tiling.column_groups)
        self._norms = scratch.take("norms", widest)
        self._room = (config.scratch_depth - widest) // (buffers * _SETS)
        self._sets = [[scratch.take("gradients", self._room) for _ in range(buffers)] for _ in range(_SETS)]

    def emit(self) -> None:
        """Append the layer's instructions."""
        first = 0
        for group in self._layer.tiling.column_groups:
            self._columns(group, first)
            first += self._layer.tiling.rows * group.count

        def biases(turn, count=self._room):
            self._move(1, turn * self._room, count, self._buffers(turn))

        self._in_turns(self._layer.tiling.gates * self._layer.tiling.units.tiles, self._room, biases)

    @abstractmethod
    def _move(self, number: int, vector: int, vectors: int, buffers: list[Operand]) -> None:
        """Move or add some vectors of dW (number 0) or db (1); the first buffer has the result."""

    def _columns(self, group: Span, first: int) -> None:
        """Append what is done with dW of a column group, whose vectors begin with `first`."""
        rows, norms = self._room // group.count, self._norms.at(0, outer=0)
        self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=group.count)

        def some_rows(turn, count=rows):
            vector, vectors = first + turn * rows * group.count, count * group.count
            total, free, *_ = buffers = self._buffers(turn)
            self._move(0, vector, vectors, buffers)
            if self._normed:
                self._emitter.vector(VectorOp.MULTIPLY, free, total, total, inner=vectors)
                squares = free.at(0, outer=group.count)
                self._emitter.vector(VectorOp.ADD, norms, norms, squares, outer=count, inner=group.count, serial=True)

        self._in_turns(self._layer.tiling.rows, rows, some_rows)
        if self._normed:
            self._emitter.store(self._norms, Place(self._layer.norms, group.first), Traffic.WEIGHTS, 1, group.count)

    def _in_turns(self, total: int, of_turn: int, emit) -> None:
        turns, rest = divmod(total, of_turn)
        self._emitter.loop(turns, emit)
        if rest:
            emit(turns, rest)

    def _buffers(self, turn: int) -> list[Operand]:
        return self._sets[turn % _SETS]


class AccumulateLayer(GradientPass):
    """Emits what is done with one layer's dW and db after the backward pass of a part.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    number : int
        Which of the layer's places for gradients that were put aside.
    how : Accumulation
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, number: int, how: Accumulation):
        super().__init__(config, emitter, layer, buffers=2, normed=how != Accumulation.KEEP)
        self._aside: Sums = layer.partial[number]
        self._present: Sums = layer.gradient, layer.bias_gradient
        self._how = how

    def _move(self, number, vector, vectors, buffers):
        emitter, how, (total, free) = self._emitter, self._how, buffers
        aside, gradients = (Place(sums[number], vector, (vector,)) for sums in (self._aside, self._present))
        emitter.load(total, gradients if how == Accumulation.KEEP else aside, Traffic.WEIGHTS, 1, vectors)
        if how == Accumulation.ADD:
            emitter.load(free, gradients, Traffic.WEIGHTS, 1, vectors)
            emitter.vector(VectorOp.ADD, total, total, free, inner=vectors)
        emitter.store(total, aside if how == Accumulation.KEEP else gradients, Traffic.WEIGHTS, 1, vectors)


class TotalLayer(GradientPass):
    """Emits the addition of what all groups have for one layer's dW and db, as the tree of the groups.

    Every group reads the sums of all groups, and stores the same total in an array of its own. So no group overwrites
    what another still reads.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    groups : int
        Two at least.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, groups: int):
        super().__init__(config, emitter, layer, buffers=most_totals(groups), normed=True)
        self._groups = groups
        self._total: Sums = layer.gradient, layer.bias_gradient

    def _move(self, number, vector, vectors, buffers):
        free, source = list(reversed(buffers)), Place(self._layer.sums[number], vector)

        def terms():
            for group in range(self._groups):
                term = free.pop()
                self._emitter.load(term, source, Traffic.WEIGHTS, 1, vectors, group=group)
                yield term

        def add(left, right):
            self._emitter.vector(VectorOp.ADD, left, left, right, inner=vectors)
            free.append(right)
            return left

        total = tree_total(terms(), self._groups, add)
        self._emitter.store(total, Place(self._total[number], vector), Traffic.WEIGHTS, 1, vectors)
