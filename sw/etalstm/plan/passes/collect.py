"""Collects the gradient of an operand of which only changes are sent: see :mod:`etalstm.network.delta_inputs`."""

from collections.abc import Sequence
from functools import partial

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Operand
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.memory.tiling import Span
from etalstm.plan.passes.vectors import MINUS_ZERO, ZERO, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import Traffic, VectorOp

COLLECTING = 4  # scratch vectors of each element: collected, sent up to a step and up to the one before, its gradient


class Collector:
    """Emits the gradients of an operand's elements: what has been collected where an element was sent, else nothing.

    Parameters
    ----------
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
    operand : SentOperand
        Of the layer.
    skipped : set of int
        Steps of which no gradient passes.
    """

    def __init__(self, emitter: Emitter, network: NetworkMap, layer: LayerArrays, operand: SentOperand, skipped: Steps):
        self._emitter, self._operand, self._refreshes = emitter, operand, layer.delta_inputs.refreshes
        self._skipped, self._last = skipped, network.steps - 1

    def collect(
        self, step: int, batch_tile: int, tiles: Span, size: int, sums: Operand, vectors: Sequence[Operand]
    ) -> Operand:
        """Add a step's sums of some tiles to what is collected, and take out what was sent.

        Parameters
        ----------
        step, batch_tile : int
        tiles : Span
        size : int
            Sequences of the batch tile.
        sums : Operand
            Wᵀδ of the step, tiles in the outer loop.
        vectors : sequence of ``COLLECTING`` Operand
            Scratch memory, [tile][b].

        Returns
        -------
        Operand
            Those of `vectors` that have the gradient; the third of them is free.
        """
        emitter, operand, count = self._emitter, self._operand, tiles.count * size
        collected, sent, before, gradient = (array.at(0, outer=size) for array in vectors)
        vector = partial(emitter.vector, outer=tiles.count, inner=size)
        place = operand.collected.part(0, batch_tile, tiles.first)
        is_new = step == self._last or step + 1 in self._skipped or self._refreshes(step + 1)
        if not is_new:
            emitter.load(collected, place, Traffic.ACTIVATIONS, 1, count)
        vector(VectorOp.ADD, collected, sums, MINUS_ZERO if is_new else collected)
        if self._refreshes(step):
            return collected
        for to, number in ((sent, step), (before, step - 1)):
            emitter.load(to, operand.sent.part(number, batch_tile, tiles.first), Traffic.ACTIVATIONS, 1, count)
        vector(VectorOp.SUBTRACT, sent, sent, before)
        vector(VectorOp.MULTIPLY, gradient, ZERO, ZERO)
        vector(VectorOp.SELECT, gradient, sent, collected)
        vector(VectorOp.SELECT, collected, sent, MINUS_ZERO)
        emitter.store(collected, place, Traffic.ACTIVATIONS, 1, count)
        return gradient
