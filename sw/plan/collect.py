"""Collects the gradient of an operand of which only changes are sent: see :mod:`etalstm.delta_inputs`."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from etalstm.hw.config import Config
from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter
from etalstm.plan.network import NetworkMap
from etalstm.plan.operands import Operand, Scratch
from etalstm.plan.sent import SentOperand
from etalstm.plan.steps import loop_through
from etalstm.plan.streams import Steps
from etalstm.plan.tiling import Span, spans
from etalstm.plan.vectors import MINUS_ZERO, ZERO

COLLECTING = 4  # scratch vectors of each element: collected, sent up to a step and up to the one before, its gradient
_SETS = 2  # sets of buffers that alternate: one is loaded while another is worked on


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
        self._emitter, self._operand, self._refreshes = emitter, operand, layer.inputs.refreshes
        self._skipped, self._last = skipped, network.steps - 1

    def kind(self, step: int) -> tuple[bool, bool]:
        """Tell in what a step differs from others: nothing is collected yet; everything was sent."""
        return step == self._last or step + 1 in self._skipped or self._refreshes(step + 1), self._refreshes(step)

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
        each = {"outer": tiles.count, "inner": size}
        place = operand.collected.part(0, batch_tile, tiles.first)
        is_new, all_sent = self.kind(step)
        if not is_new:
            emitter.load(collected, place, Traffic.ACTIVATIONS, 1, count)
        emitter.vector(VectorOp.ADD, collected, sums, MINUS_ZERO if is_new else collected, **each)
        if all_sent:
            return collected
        for vector, number in ((sent, step), (before, step - 1)):
            emitter.load(vector, operand.sent.part(number, batch_tile, tiles.first), Traffic.ACTIVATIONS, 1, count)
        emitter.vector(VectorOp.SUBTRACT, sent, sent, before, **each)
        emitter.vector(VectorOp.MULTIPLY, gradient, ZERO, ZERO, **each)
        emitter.vector(VectorOp.SELECT, gradient, sent, collected, **each)
        emitter.vector(VectorOp.SELECT, collected, sent, MINUS_ZERO, **each)
        emitter.store(collected, place, Traffic.ACTIVATIONS, 1, count)
        return gradient


class InputCollector:
    """Emits the gradient of a layer's x, once Wᵀδ of all steps lies in its place.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
    skipped : set of int
        Steps whose cells have no backward pass.
    """

    def __init__(self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps):
        self._emitter, self._batch, self._dx, self._skipped = emitter, network.batch, layer.dx, skipped
        self._collector = Collector(emitter, network, layer, layer.sent_x, skipped)
        size, tiles, scratch = network.batch.size, layer.tiling.inputs.tiles, Scratch(config)
        self._tiles = spans(tiles, min(tiles, config.scratch_depth // (_SETS * (COLLECTING + 1) * size)))
        most = max(span.count for span in self._tiles) * size
        self._sets = [[scratch.take("the gradients of x", most) for _ in range(COLLECTING + 1)] for _ in range(_SETS)]
        self._turn = 0

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps, the last one first."""
        kept = [step for step in reversed(steps) if step not in self._skipped]
        gaps = list(accumulate((a - b > 1 for a, b in pairwise(kept)), initial=0))

        def kind(number):
            return gaps[number], self._collector.kind(kept[number])

        loop_through(self._emitter, range(len(kept)), kind, lambda number: self._step(kept[number]))

    def _step(self, step: int) -> None:
        if self._collector.kind(step) == (True, True):  # the sums are the gradient
            return
        for batch_tile in range(self._batch.count):
            for tiles in self._tiles:
                self._collect(step, batch_tile, tiles)

    def _collect(self, step: int, batch_tile: int, tiles: Span) -> None:
        sums, *vectors = self._sets[self._turn % _SETS]
        self._turn += 1
        size = self._batch.size_of(batch_tile)
        place, count = self._dx.part(step, batch_tile, tiles.first), tiles.count * size
        self._emitter.load(sums, place, Traffic.ACTIVATIONS, 1, count)
        gradient = self._collector.collect(step, batch_tile, tiles, size, sums.at(0, outer=size), vectors)
        self._emitter.store(gradient, place, Traffic.ACTIVATIONS, 1, count)
