"""The bias gradients of one product of a stage, in the scratch memory while the backward pass runs."""

from etalstm.network.slices import tree_total
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.operands import Operand, Place, Scratch
from etalstm.plan.memory.tiling import Span
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import Traffic, VectorOp


class BiasGradients:
    """Emits db of a product: each slice of the batch has its own; after the first step they are added as a tree.

    Parameters
    ----------
    emitter : Emitter
    scratch : Scratch
    layer : LayerArrays
    steps : int
        Of the iteration.
    """

    def __init__(self, emitter: Emitter, scratch: Scratch, layer: LayerArrays, steps: int):
        self._emitter, self._layer, self._steps = emitter, layer, steps
        self._size, slices = layer.tiling.gates * layer.tiling.units.tiles, layer.batch.slices
        base = scratch.take("the bias gradients", slices * self._size)
        self._of_slices = [base.at(number * self._size) for number in range(slices)]

    def begin(self, steps: range) -> None:
        """Have every slice's db of the steps that have run."""
        first, vectors = self._of_slices[0], len(self._of_slices) * self._size
        if steps.stop == self._steps:
            self._emitter.vector(VectorOp.MULTIPLY, first, ZERO, ZERO, inner=vectors)
        else:
            self._emitter.load(first, self._sums, Traffic.WEIGHTS, 1, vectors)

    def end(self, steps: range) -> None:
        """Keep every slice's db for the steps that follow, or after the last one the total."""
        if steps.start > 0:
            vectors = len(self._of_slices) * self._size
            self._emitter.store(self._of_slices[0], self._sums, Traffic.WEIGHTS, 1, vectors)
            return
        total = tree_total(self._of_slices, len(self._of_slices), self._total)
        self._emitter.store(total, Place(self._layer.db, 0), Traffic.WEIGHTS, 1, self._size)

    def add(self, delta: Operand, batch_tile: int, group: Span, size: int) -> None:
        """Add δ of a group of units and the sequences of a batch tile, [tile][gate][b]."""
        gates, each = self._layer.tiling.gates, delta.at(0, outer=1, inner=size)
        bias = self._of_slices[self._layer.batch.slice_of[batch_tile]].at(gates * group.first, outer=0)
        self._emitter.vector(VectorOp.ADD, bias, bias, each, outer=size, inner=gates * group.count, serial=True)

    def _total(self, left: Operand, right: Operand) -> Operand:
        """Add to the db of some slices that of those that follow."""
        self._emitter.vector(VectorOp.ADD, left, left, right, inner=self._size)
        return left

    @property
    def _sums(self) -> Place:
        """Where db lies between segments."""
        return Place(self._layer.bias_sums or self._layer.db, 0)
