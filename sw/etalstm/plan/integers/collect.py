"""Delta inputs with integers: gradients of operands that were sent as other numbers than their own."""

from functools import partial

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.operands import Operand, Scratch
from etalstm.plan.passes.vectors import MINUS_ZERO, ZERO, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp
from etalstm_hw.contract.integers import WORD_BYTES


class IntegerCollector:
    """Emits what has been collected where an element was sent as its own number, else nothing; the rest stays.

    No gradient passes at steps that are `skipped`. `others` is scratch memory for a group's vectors.
    """

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, layer: LayerArrays, arrays: IntegerArrays,
        last: int, skipped: Steps, others: Operand,
    ):  # fmt: skip
        size, tile = layer.batch.size, config.tile_sums
        self._emitter, self._layer, self._arrays = emitter, layer, arrays
        self._last, self._skipped, self._others = last, skipped, others
        self._collected = scratch.take("collected gradients", tile * size)
        self._words = scratch.take("where others were sent", size)

    def collect(
        self, operand: str, group: int, step: int, batch_tile: int, sums: Operand, count: int, place: int
    ) -> None:
        """Add a step's gradients of a group's vectors to what is collected; leave in their place what passes.

        `place` is the group's in a tile of columns.
        """
        emitter, changes, size = self._emitter, self._arrays.changes[operand], self._layer.batch.size_of(batch_tile)
        vectors = count * size
        collected = self._collected.at(WORD_BYTES * place * size, outer=size)
        sums, others = sums.at(0, outer=size), self._others.at(0, outer=size)
        vector = partial(emitter.vector, outer=count, inner=size)
        location = changes.collected.at(0, batch_tile, WORD_BYTES * group)
        if step != self._last and step + 1 not in self._skipped:
            emitter.load(collected, location, Traffic.ACTIVATIONS, 1, vectors)
            vector(VectorOp.ADD, sums, sums, collected)
        if not step:  # everything was sent
            return
        words = self._words.at(0, outer=1, inner=0)
        emitter.load(self._words, changes.others.at(step, batch_tile, group), Traffic.ACTIVATIONS, 1, size)
        of_group = self._others.at(0, outer=1, inner=size)
        emitter.vector(VectorOp.CONVERT_BYTE, of_group, words, ZERO, outer=size, inner=count)
        vector(VectorOp.SELECT, collected, others, sums)
        vector(VectorOp.SELECT_ZERO, collected, others, MINUS_ZERO)
        vector(VectorOp.SELECT, sums, others, ZERO)
        emitter.store(collected, location, Traffic.ACTIVATIONS, 1, vectors)
