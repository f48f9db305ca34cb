"""Programs of the gradients of weights, dW += δ ⊗ xh over all steps, and of biases."""

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from etalstm.network.slices import additions, tree_total
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch, Sequence
from etalstm.plan.memory.tiling import Span, gradient_arrays
from etalstm.plan.passes.vectors import MINUS_ZERO, NO_STEPS, ZERO, Steps, add_squares
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.fold import strided
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp

# Steps whose xh may stay in the weight memory, each at an address of its own, so that their products are written one by
# one. The xh of more steps is brought in a loop, again for each range of rows: it hides behind the products.
MOST_RESIDENT = 9


Pair = tuple[int, int]  # step and batch tile


class GradientLayer:
    """Emits one layer's dW, after its δ of all steps are in memory.

    A span of columns at a time: each lane holds its columns' xh of two batch tiles of a step in the weight memory, δ
    is broadcast. A range of rows at a time, all steps and sequences of it, so that the sums stay in the lanes; they
    alternate the halves of their memory, so that one is stored while the next is summed. If there are few steps, and
    the weight memory has room for the xh of all of them, they are brought once for all rows.

    Several slices are summed one after the other for each range of rows. Their totals are added in the scratch memory,
    so only dW of the whole batch ever goes to the memory; or of a group's part of it, and then no norms yet.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS
    ):
        self._emitter, self._network, self._layer, self._skipped = emitter, network, layer, skipped
        self._weight_depth, self._half = config.weight_depth, config.queue_depth // 2
        self._is_total = layer.exchange is None
        tiling = layer.tiling
        self._gates = tiling.gates
        widest = max(span.count for span in tiling.column_spans)
        self._turn = self._fill = 0
        self._steps = [step for step in reversed(range(network.steps)) if step not in skipped]
        self._runs = strided(self._steps[:-1])
        scratch = Scratch(config)
        results, totals = self._gates * tiling.row_lanes * widest, gradient_arrays(network.batch.slices)
        self._norms = scratch.take("norms", widest)
        self._totals = [scratch.take("gradients", results) for _ in range(totals)]

    def emit(self) -> None:
        """Append the layer's instructions; gradients and norms are left in memory."""
        for _ in self.column_spans():
            pass

    def column_spans(self) -> Iterator[int]:
        """Append the instructions of a column span after the other; give the number of each."""
        tiling = self._layer.tiling
        for number, span in enumerate(tiling.column_spans):
            sums = self._layer.dw_at(number)
            if self._is_total:
                self._emitter.vector(VectorOp.MULTIPLY, self._norms, ZERO, ZERO, inner=span.count)
            brought = self._bring_all(span)
            row = 0
            for block in range(tiling.units.channels * tiling.units.tiles):
                lanes = tiling.units.lanes_of(block % tiling.units.tiles)
                for first in range(0, lanes, tiling.row_lanes):
                    rows = range(first, min(first + tiling.row_lanes, lanes))
                    self._sum_slices(span, block, rows, brought)
                    self._store_gradients(span, self._gates * len(rows), sums.at(row * span.count))
                    row += self._gates * len(rows)
            if self._is_total:
                norms = Location(self._layer.norms, span.first)
                self._emitter.store(self._norms, norms, Traffic.WEIGHTS, 1, span.count)
            yield number

    def _bring_all(self, span: Span) -> dict[Pair, Operand] | None:
        """Load a column span's xh of all steps, if they are few and fit the weight memory; where each pair lies."""
        batch = self._network.batch
        vectors = span.count * batch.size
        if self._network.steps > MOST_RESIDENT or vectors * len(self._steps) * batch.count > self._weight_depth:
            return None
        pairs = [(step, tile) for step in self._steps for tile in range(batch.count)]
        operands = {pair: Operand(Memory.WEIGHTS, n * vectors) for n, pair in enumerate(pairs)}
        for pair, to in operands.items():
            self._load(span, pair, to)
        return operands

    def _bring(self, span: Span, pair: Pair) -> Operand:
        to = Operand(Memory.WEIGHTS, self._weight_depth // 2 * (self._fill % 2))
        self._fill += 1
        self._load(span, pair, to)
        return to

    def _load(self, span: Span, pair: Pair, to: Operand) -> None:
        step, tile = pair
        layer, size = self._layer, self._network.batch.size_of(tile)
        inputs = layer.tiling.inputs.tiles
        from_inputs = max(0, min(span.count, inputs - span.first))
        x, operand = layer.factors
        sources: list[tuple[int, int, Sequence | None, int, int]] = [
            (0, from_inputs, *x, span.first),
            (from_inputs, span.count, *operand, span.first + from_inputs - inputs),
        ]
        for first, end, sequence, offset, column in sources:
            if sequence and end > first:
                lane, location = to.at(first, outer=1, inner=span.count), sequence.at(step + offset, tile, column)
                self._emitter.load(lane, location, Traffic.ACTIVATIONS, end - first, size)

    def _sum_slices(self, span: Span, block: int, rows: range, brought: dict[Pair, Operand] | None) -> None:
        """Leave the gradients of a range of rows in the first of the totals: the tree of all slices' sums."""
        vectors, batch = self._gates * len(rows) * span.count, self._network.batch
        if not self._steps:
            self._emitter.vector(VectorOp.MULTIPLY, self._totals[0], ZERO, ZERO, inner=vectors)
            return

        def terms() -> Iterator[Operand]:
            alive = 0
            for tiles, merges in zip(batch.tiles_of, additions(batch.slices), strict=True):
                term = self._sum(tiles, span, block, rows, brought)
                if not merges:
                    self._emitter.vector(VectorOp.ADD, self._totals[alive], term, MINUS_ZERO, inner=vectors)
                    term = self._totals[alive]
                alive += 1 - merges
                yield term

        def add(left: Operand, right: Operand) -> Operand:
            self._emitter.vector(VectorOp.ADD, left, right, left, inner=vectors)  # only operand a can be a partial sum
            return left

        tree_total(terms(), batch.slices, add)

    def _sum(self, tiles: range, span: Span, block: int, rows: range, brought: dict[Pair, Operand] | None) -> Operand:
        steps = self._steps
        sums = Operand(Memory.SUMS, self._half * (self._turn % 2))
        self._turn += 1
        first, last = (steps[0], tiles[0]), (steps[-1], tiles[-1])

        def of_turn(run: range, turn: int) -> None:
            of_step(run[turn])

        def of_step(step: int) -> None:
            for tile in tiles:
                pair = step, tile
                weights = self._bring(span, pair) if brought is None else brought[pair]
                self._add(pair, weights, span, block, rows, sums, start=pair == first, finish=pair == last)

        if brought is None:
            for run in self._runs:
                self._emitter.loop(len(run), partial(of_turn, run))
        for step in steps[-1:] if brought is None else steps:
            of_step(step)
        return sums

    def _add(
        self, pair: Pair, weights: Operand, span: Span, block: int, rows: range, sums: Operand, *, start: bool,
        finish: bool,
    ) -> None:  # fmt: skip
        layer, size = self._layer, self._network.batch.size_of(pair[1])
        self._emitter.cast(
            layer.delta_at(*pair), layer.tiling.units, Traffic.DELTAS, compressed=layer.storage.compressed,
            first_block=block, blocks=1, gates=self._gates, batch=size, tiles=span.count, rows=rows, start=start,
            finish=finish,
        )  # fmt: skip
        vectors = self._gates * len(rows) * span.count
        self._emitter.mac(weights, size * span.count, sums, vectors, span.count, backward=True)

    def _store_gradients(self, span: Span, rows: int, location: Location) -> None:
        """Store the gradients of some rows and add their squares to the norms of their columns."""
        self._emitter.store(self._totals[0].at(0, outer=span.count), location, Traffic.WEIGHTS, rows, span.count)
        if self._is_total:
            add_squares(self._emitter, self._norms, self._totals[0], rows, span.count)


class BiasSums(Protocol):
    """What emits db of a product while its δ are made."""

    def begin(self, steps: range) -> None:
        """Append what comes before some steps."""

    def end(self, steps: range) -> None:
        """Append what comes after them."""


class BiasGradients:
    """Emits db of a product: each slice of the batch has its own; after the first step they are added as a tree."""

    def __init__(self, emitter: Emitter, scratch: Scratch, layer: LayerArrays, steps: int):
        self._emitter, self._layer, self._steps = emitter, layer, steps
        self._size, slices = layer.tiling.gates * layer.tiling.units.tiles, layer.batch.slices
        base = scratch.take("the bias gradients", slices * self._size)
        self._of_slices = [base.at(number * self._size) for number in range(slices)]

    def begin(self, steps: range) -> None:
        """Bring every slice's db of the steps that have run, zeros if none has."""
        first, vectors = self._of_slices[0], len(self._of_slices) * self._size
        if steps.stop == self._steps:
            self._emitter.vector(VectorOp.MULTIPLY, first, ZERO, ZERO, inner=vectors)
        else:
            self._emitter.load(first, self._sums, Traffic.WEIGHTS, 1, vectors)

    def end(self, steps: range) -> None:
        """Store every slice's db for the steps that follow, or after the last one their total."""
        if steps.start > 0:
            vectors = len(self._of_slices) * self._size
            self._emitter.store(self._of_slices[0], self._sums, Traffic.WEIGHTS, 1, vectors)
            return
        total = tree_total(self._of_slices, len(self._of_slices), self._total)
        self._emitter.store(total, Location(self._layer.db, 0), Traffic.WEIGHTS, 1, self._size)

    def add(self, delta: Operand, batch_tile: int, span: Span, size: int) -> None:
        """Add δ of a span of units and the sequences of a batch tile, [tile][gate][b]."""
        gates, each = self._layer.tiling.gates, delta.at(0, outer=1, inner=size)
        bias = self._of_slices[self._layer.batch.slice_of[batch_tile]].at(gates * span.first, outer=0)
        self._emitter.vector(VectorOp.ADD, bias, bias, each, outer=size, inner=gates * span.count, serial=True)

    def _total(self, left: Operand, right: Operand) -> Operand:
        self._emitter.vector(VectorOp.ADD, left, left, right, inner=self._size)
        return left

    @property
    def _sums(self) -> Location:
        """Where db lies between segments."""
        return Location(self._layer.bias_sums or self._layer.db, 0)
