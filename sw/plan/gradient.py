"""Programs of the weights' gradient: dW += δ ⊗ xh over all steps, and the columns' share of its norm."""

from etalstm.hw.config import Config
from etalstm.hw.contract import Memory, Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.cells import MINUS_ZERO, NO_STEPS, ZERO, Steps
from etalstm.plan.emit import Emitter, Operand, Place, Scratch
from etalstm.plan.network import NetworkMap
from etalstm.plan.tiling import GATES, Span, gradient_totals
from etalstm.slices import additions, tree_total


class GradientLayer:
    """Emits one layer's dW, after its δ of all steps are in memory.

    A group of columns at a time: each lane holds its columns' xh of all steps in the weight memory (or, if that is too
    much, of two batch tiles of a step), δ is broadcast. A range of rows at a time, all steps and sequences of it, so
    that the sums stay in the queue; sums alternate its halves, so that one is stored while the next is summed.

    Several slices are summed one after the other for each range of rows. Their totals are added in the scratch memory,
    so only dW of the whole batch ever goes to the memory.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS
    ):
        self._emitter, self._network, self._layer, self._skipped = emitter, network, layer, skipped
        self._weight_depth, self._half = config.weight_depth, config.queue_depth // 2
        tiling = layer.tiling
        widest = max(group.count for group in tiling.column_groups)
        self._turn = self._fill = 0
        scratch = Scratch(config)
        results, totals = GATES * tiling.row_lanes * widest, gradient_totals(network.batch.slices)
        self._totals = [scratch.take("gradients", results) for _ in range(totals)]
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
                    self._sum_slices(group, block, rows, brought)
                    self._keep(group, GATES * len(rows), offset + row * group.count)
                    row += GATES * len(rows)
            offset += tiling.rows * group.count
            norms = Place(self._layer.norms, group.first)
            self._emitter.store(self._norms, norms, Traffic.WEIGHTS, 1, group.count)

    def _parts(self, number: int):
        """Steps and batch tiles of a slice, in the order of the sums."""
        tiles = [tile for tile, its in enumerate(self._network.batch.slice_of) if its == number]
        kept = [step for step in reversed(range(self._network.steps)) if step not in self._skipped]
        return [(step, tile) for step in kept for tile in tiles]

    def _bring_all(self, group: Span) -> dict | None:
        """Load a column group's xh of all steps, if the weight memory holds them; where each part lies."""
        vectors = group.count * self._network.batch.size
        parts = [part for number in range(self._network.batch.slices) for part in self._parts(number)]
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
            (0, from_inputs, layer.x.part(step + layer.x_step, tile, group.first)),
            (from_inputs, group.count, layer.h.part(step, tile, group.first + from_inputs - inputs)),
        ]
        for first, end, place in sources:
            if end > first:
                lane = to.at(first, outer=1, inner=group.count)
                self._emitter.load(lane, place, Traffic.ACTIVATIONS, end - first, size)

    def _sum_slices(self, group: Span, block: int, rows: range, brought: dict | None) -> None:
        """Leave the gradients of a range of rows in the first of the totals: the tree of all slices' sums."""
        vectors, slices = GATES * len(rows) * group.count, self._network.batch.slices
        if not self._parts(0):
            self._emitter.vector(VectorOp.MULTIPLY, self._totals[0], ZERO, ZERO, inner=vectors)
            return

        def terms():
            alive = 0
            for number, merges in enumerate(additions(slices)):
                term = self._sum(number, group, block, rows, brought)
                if not merges:
                    self._emitter.vector(VectorOp.ADD, self._totals[alive], term, MINUS_ZERO, inner=vectors)
                    term = self._totals[alive]
                alive += 1 - merges
                yield term

        def add(left, right):
            self._emitter.vector(VectorOp.ADD, left, right, left, inner=vectors)  # only operand a can be of the queue
            return left

        tree_total(terms(), slices, add)

    def _sum(self, number: int, group: Span, block: int, rows: range, brought: dict | None) -> Operand:
        """Sum the gradients of a range of rows over all steps and sequences of a slice."""
        layer, batch, emitter = self._layer, self._network.batch, self._emitter
        queue = Operand(Memory.QUEUE, self._half * (self._turn % 2))
        self._turn += 1
        parts = self._parts(number)
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
                gates=GATES,
                batch=size,
                tiles=group.count,
                start=part == parts[0],
                finish=part == parts[-1],
                rows=rows,
            )
            sums = GATES * len(rows) * group.count
            emitter.mac(weights, size * group.count, queue, sums, group.count, backward=True)
        return queue

    def _keep(self, group: Span, rows: int, vector: int) -> None:
        """Store the gradients of some rows and add their squares to the norms of their columns."""
        emitter, count, total = self._emitter, rows * group.count, self._totals[0]
        place = Place(self._layer.gradient, vector)
        emitter.store(total.at(0, outer=group.count), place, Traffic.WEIGHTS, rows, group.count)
        emitter.vector(VectorOp.MULTIPLY, self._squares, total, total, inner=count)
        norms = self._norms.at(0, outer=0)
        squares = self._squares.at(0, outer=group.count)
        emitter.vector(VectorOp.ADD, norms, norms, squares, outer=rows, inner=group.count, serial=True)
