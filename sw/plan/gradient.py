"""Programs of the weights' gradient: dW += δ ⊗ xh over all steps, and the columns' share of its norm."""

from etalstm.hw.config import Config
from etalstm.hw.contract import Memory, Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Operand, Place, Scratch
from etalstm.plan.network import NetworkMap
from etalstm.plan.streams import NO_STEPS, Steps
from etalstm.plan.tiling import Span
from etalstm.plan.vectors import MINUS_ZERO, ZERO


class GradientLayer:
    """Emits one layer's dW, after its δ of all steps are in memory.

    A group of columns at a time: each lane holds its columns' xh of all steps in the weight memory (or, if that is too
    much, of two batch tiles of a step), δ is broadcast. A range of rows at a time, all steps and sequences of it, so
    that the sums stay in the queue; ranges alternate its halves, so that one is stored while the next is summed.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS
    ):
        self._emitter, self._network, self._layer, self._skipped = emitter, network, layer, skipped
        self._weight_depth, self._half = config.weight_depth, config.queue_depth // 2
        tiling = layer.tiling
        self._gates = tiling.gates
        widest = max(group.count for group in tiling.column_groups)
        self._turn = self._fill = 0
        scratch = Scratch(config)
        results = self._gates * tiling.row_lanes * widest
        self._results = scratch.take("gradients", results)
        self._squares = scratch.take("squared gradients", results)
        self._norms = scratch.take("norms", widest)

    def emit(self) -> None:
        """Append the layer's instructions; gradients and norms are left in memory."""
        tiling = self._layer.tiling
        offset = 0
        for group in tiling.column_groups:
            self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=group.count)
            brought = self._bring_all(group)
            row = 0
            for block in range(tiling.units.channels * tiling.units.tiles):
                lanes = tiling.units.lanes_of(block % tiling.units.tiles)
                for first in range(0, lanes, tiling.row_lanes):
                    rows = range(first, min(first + tiling.row_lanes, lanes))
                    queue = self._sum(group, block, rows, brought)
                    self._keep(group, queue, self._gates * len(rows), offset + row * group.count)
                    row += self._gates * len(rows)
            offset += tiling.rows * group.count
            norms = Place(self._layer.norms, group.first)
            self._emitter.store(self._norms, norms, Traffic.WEIGHTS, 1, group.count)

    def _parts(self):
        """Steps and batch tiles, in the order of the sums."""
        batch = self._network.batch
        kept = [step for step in reversed(range(self._network.steps)) if step not in self._skipped]
        return [(step, tile) for step in kept for tile in range(batch.count)]

    def _bring_all(self, group: Span) -> dict | None:
        """Load a column group's xh of all steps, if the weight memory holds them; where each part lies."""
        vectors = group.count * self._network.batch.size
        parts = self._parts()
        if vectors * len(parts) > self._weight_depth:
            return None
        places = {part: Operand(Memory.WEIGHTS, n * vectors) for n, part in enumerate(parts)}
        for part, to in places.items():
            self._load(group, part, to)
        return places

    def _bring(self, group: Span, part) -> Operand:
        """Load one part, into the half of the weight memory whose turn it is."""
        to = Operand(Memory.WEIGHTS, self._weight_depth // 2 * (self._fill % 2))
        self._fill += 1
        self._load(group, part, to)
        return to

    def _load(self, group: Span, part, to: Operand) -> None:
        step, tile = part
        layer, size = self._layer, self._network.batch.size_of(tile)
        inputs = layer.tiling.inputs.tiles
        from_inputs = max(0, min(group.count, inputs - group.first))
        sources = [
            (0, from_inputs, layer.x, layer.x_step, group.first),
            (from_inputs, group.count, layer.operand, layer.operand_step, group.first + from_inputs - inputs),
        ]
        for first, end, sequence, offset, column in sources:
            if end > first:
                lane, place = to.at(first, outer=1, inner=group.count), sequence.part(step + offset, tile, column)
                self._emitter.load(lane, place, Traffic.ACTIVATIONS, end - first, size)

    def _sum(self, group: Span, block: int, rows: range, brought: dict | None) -> Operand:
        """Sum the gradients of a range of rows over all steps and sequences."""
        layer, batch, emitter = self._layer, self._network.batch, self._emitter
        queue = Operand(Memory.QUEUE, self._half * (self._turn % 2))
        self._turn += 1
        parts = self._parts()
        for part in parts:
            size = batch.size_of(part[1])
            weights = self._bring(group, part) if brought is None else brought[part]
            emitter.cast(
                layer.delta_at(*part),
                layer.tiling.units,
                Traffic.DELTAS,
                compressed=layer.storage.compressed,
                first_block=block,
                blocks=1,
                gates=self._gates,
                batch=size,
                tiles=group.count,
                start=part == parts[0],
                finish=part == parts[-1],
                rows=rows,
            )
            sums = self._gates * len(rows) * group.count
            emitter.mac(weights, size * group.count, queue, sums, group.count, backward=True)
        return queue

    def _keep(self, group: Span, queue: Operand, rows: int, vector: int) -> None:
        """Store the gradients of some rows and add their squares to the norms of their columns."""
        emitter, count = self._emitter, rows * group.count
        if self._parts():
            emitter.vector(VectorOp.ADD, self._results, queue, MINUS_ZERO, inner=count)
        else:
            emitter.vector(VectorOp.MULTIPLY, self._results, ZERO, ZERO, inner=count)
        place = Place(self._layer.gradient, vector)
        emitter.store(self._results.at(0, outer=group.count), place, Traffic.WEIGHTS, rows, group.count)
        emitter.vector(VectorOp.MULTIPLY, self._squares, self._results, self._results, inner=count)
        norms = self._norms.at(0, outer=0)
        squares = self._squares.at(0, outer=group.count)
        emitter.vector(VectorOp.ADD, norms, norms, squares, outer=rows, inner=group.count, serial=True)
