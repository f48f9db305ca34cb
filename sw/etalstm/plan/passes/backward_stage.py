"""A stage of the backward pass: from the gradients that arrive to δ, piece by piece."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from etalstm.network.cells.cell import Array, Stage
from etalstm.network.cells.operation import Operation, split_after
from etalstm.plan.memory.arrays import CellArrays, LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Parameter, Scratch
from etalstm.plan.memory.operands import Sequence as Arrays
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.memory.tiling import Span
from etalstm.plan.passes.gradient import BiasGradients, BiasSums
from etalstm.plan.passes.propagation import Collecting, Emit, Masking, OperandGradients, Propagation, emit_all
from etalstm.plan.passes.send import COLLECTING, Collector
from etalstm.plan.passes.vectors import ZERO, Elsewhere, Steps, Streams, Vectors
from etalstm.plan.passes.weights import NeededRows
from etalstm.plan.program.emit import Emitter
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp

# Beats of weights that are loaded before the row map is known, besides one for each vector that δ takes to compute and
# to store: about as many as the memory takes to answer.
_LATENCY_BEATS = 64


@dataclass(frozen=True)
class Cells:
    """The cells of one step, batch tile and span of units, in one of their stages.

    `is_first` tells that the batch tile is the first of those that share loads of weights.
    """

    stage: Stage
    step: int
    batch_tile: int
    span: Span
    size: int
    is_first: bool

    @property
    def vectors(self) -> int:
        """Vectors of one value of each cell."""
        return self.span.count * self.size


Job = tuple["BackwardStage", int, range]  # with a step, and batch tiles of it


class BackwardStage:
    """Emits one stage's backward pass, piece by piece.

    `products` are the arrays of the stage's products; the last has the stage's own.

    Members
    -------
    propagations, biases : lists of OperandGradients, of BiasSums    one for each product
    prepares_early : bool        the next cells are prepared before the δ of those at hand is stored whole
    collects_in_delta : bool    the gradients of the operands are collected in the scratch memory of δ
    """

    prepares_early = False

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, network: NetworkMap,
        products: tuple[LayerArrays, ...], skipped: Steps, above: Steps, skips: bool,
    ):  # fmt: skip
        self._layer = layer = products[-1]
        self._last = layer if isinstance(layer, CellArrays) else None  # of the cell's stages
        self._emitter, self._network, self._products = emitter, network, products
        self._skipped, self._above = skipped, above
        self._cell, self._stage, tiling = layer.cell, layer.stage, layer.tiling
        self._streams, most = Streams(emitter, network, layer), max(span.count for span in tiling.unit_spans)
        self._reserve(scratch, most, network.batch.size, skips)
        of_x, of_operand = self._collecting(layer.operands_sent, scratch, most) if layer.operands_sent else (None, None)
        self.collects_in_delta = of_operand is not None and of_operand.vectors[0] == self._delta
        passes_in_delta = not layer.operands_sent and self._masking is not None
        delays = not (self.collects_in_delta or passes_in_delta) and len(layer.cell.stages) == 1
        self.propagations = self._propagate(config, of_x, of_operand, delays)

    def _propagate(
        self, config: Config, of_x: Collecting | None, of_operand: Collecting | None, delays: bool
    ) -> Sequence[OperandGradients]:
        """Make what sums Wᵀδ, for each product."""
        make = partial(Propagation, config, self._emitter, self._network)
        of_stage = self._row_map, self._whole_beats, self._masking, of_x, of_operand, delays
        return [make(product, *of_stage) for product in self._products]

    def _reserve(self, scratch: Scratch, most: int, size: int, skips: bool) -> None:
        """Reserve scratch memory for spans of `most` tiles of units and `size` sequences."""
        tiling, vectors = self._layer.tiling, most * size
        self._vectors = Vectors(self._emitter, scratch, vectors)
        self._vectors.take(self._arrays)
        self._delta = self._vectors.array(self._stage.deltas[0])
        steps = self._network.steps
        self.biases = self._sum_biases(scratch, steps)
        self._row_map, self._whole_beats = self._layer.row_map if skips else None, 0
        if self._row_map:
            operations = 1 + len(self._stage.backward) + tiling.gates
            self._needed = NeededRows(self._emitter, scratch, self._row_map, most)
            beats = operations + tiling.gates * self._layer.lanes.vector_beats
            self._whole_beats = _LATENCY_BEATS + beats * vectors
        self._masking: Masking | None = None
        if self._network.mask and self._layer.dh_sum:
            passed = tuple(self._delta.at(n * size) for n in range(tiling.gates * most))
            vectors_of_mask = scratch.take("the mask", size), scratch.take("merged dh", size), passed
            self._masking = Masking(self._network.mask, self._layer.dh_sum, *vectors_of_mask)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        needs_gates = not self._layer.storage.compressed or self._layer.row_map
        return self._stage.backward_arrays if needs_gates else self._stage.streamed_arrays

    def _sum_biases(self, scratch: Scratch, steps: int) -> Sequence[BiasSums]:
        self._bias_gradients = [BiasGradients(self._emitter, scratch, layer, steps) for layer in self._products]
        return self._bias_gradients

    def _collecting(
        self, sent: tuple[SentOperand, SentOperand], scratch: Scratch, most: int
    ) -> tuple[Collecting, Collecting]:
        """Have the gradients of x and of the other operand collected, each in scratch memory of its own if it is left.

        Else they share the memory of δ. What comes next is then loaded late: when the gradients are there.
        """
        size, tiles = self._network.batch.size, max(self._layer.tiling.inputs.tiles, self._layer.tiling.units.tiles)
        fits = min(tiles, scratch.left // (2 * COLLECTING * size))
        bases = [self._delta] * 2
        if fits:
            most, bases = fits, [scratch.take("collected gradients", COLLECTING * fits * size) for _ in range(2)]
        context = self._emitter, self._network, self._layer
        vectors = [tuple(base.at(n * most * size) for n in range(COLLECTING)) for base in bases]
        x, operand = (Collector(*context, each, self._skipped) for each in sent)
        return Collecting(x, vectors[0], most), Collecting(operand, vectors[1], most)

    def spans(self, step: int, tiles: range) -> Iterator[Cells]:
        """Give the spans of cells of a step, batch tile by batch tile."""
        for tile, span in product(tiles, self._layer.tiling.unit_spans):
            yield Cells(self._stage, step, tile, span, self._network.batch.size_of(tile), tile == tiles[0])

    def all_deltas(
        self, step: int, tiles: range, products: list[Emit], stores: list[Emit], following: Sequence[Job]
    ) -> None:
        """Compute δ of some batch tiles, whose first cells are prepared.

        A stage that prepares early prepares the first cells of the `following` job, too; others are given none.

        The given products run beside this element-wise work. So each span of cells is followed by some of them: loads
        work in order, and those for the next cells must not wait behind all weights. Their stores come last, since δ's
        must not wait for the sums.
        """
        every = list(self.spans(step, tiles))
        for number, cells in enumerate(every):
            if number:
                self.prepare(cells)
            self.deltas(cells)
            first, end = (count * len(products) // len(every) for count in (number, number + 1))
            emit_all(products[first:end])
        emit_all(stores)

    def prepare(self, cells: Cells) -> None:
        """Bring the local gradients, or what they are computed from, and the gradient from above."""
        layer, last, cell, stage = self._layer, self._last, self._cell, self._stage
        if last and cells.step not in self._above:
            self._load("dy", cells, last.dy, cells.step, Traffic.ACTIVATIONS)
        for name, sequence in zip(stage.outputs, layer.outputs, strict=True):
            if name in stage.outputs_read:
                self._load_vectors(name, cells, sequence.at(cells.step + 1, cells.batch_tile, cells.span.first))
        if layer.storage.compressed:
            intermediates = [self._vectors.operand(name, cells.size) for name in stage.kept.values()]
            self._streams.bring(cells.step, cells.batch_tile, cells.span, cells.size, intermediates)
            return
        if stage.kept_gates:
            location = self._network.gates(layer, cells.step, cells.batch_tile, cells.span)
            gates = self._vectors.array(stage.gates[0])
            self._emitter.load(gates, location, Traffic.INTERMEDIATES, 1, len(stage.gates) * cells.vectors)
        for name, step in ((cell.state, cells.step + 1), (cell.state_before, cells.step)):
            if last and name in stage.rebuilt_from:
                self._load(name, cells, last.c, step, Traffic.INTERMEDIATES)
        self._run(cells, stage.rebuild + stage.local)

    def _load_vectors(self, name: str, cells: Cells, location: Location) -> None:
        values = self._vectors.operand(name, cells.size)
        self._emitter.load(values, location, Traffic.ACTIVATIONS, cells.span.count, cells.size)

    def _load(self, name: str, cells: Cells, sequence: Arrays, step: int, kind: Traffic) -> None:
        location = sequence.at(step, cells.batch_tile, cells.span.first)
        self._emitter.load(self._vectors.array(name), location, kind, 1, cells.vectors)

    def _store(self, name: str, cells: Cells, sequence: Arrays) -> None:
        location = sequence.at(0, cells.batch_tile, cells.span.first)
        self._emitter.store(self._vectors.array(name), location, Traffic.ACTIVATIONS, 1, cells.vectors)

    def _run(self, cells: Cells, operations: tuple[Operation, ...], elsewhere: Elsewhere | None = None) -> None:
        self._vectors.run(operations, cells.span.count, cells.size, elsewhere or {})

    def deltas(self, cells: Cells) -> None:
        """Compute the gradients of the gates and of the state before, from the gradients that arrive."""
        self._bring_arriving(cells)
        of_state = self._compute_deltas(cells)
        self._store_deltas(cells)
        self._pass_on(cells, of_state)
        self._sum_deltas(cells)

    def _compute_deltas(self, cells: Cells) -> Elsewhere:
        """Compute the gradients of the gates from those that have arrived; give what is the state's."""
        stage, given = self._stage, self._add_arriving(cells)
        self._run(cells, split_after(stage.backward, stage.deltas)[0], given)
        if masking := self._masking:
            masking.bring(self._emitter, cells.step, cells.batch_tile, cells.size)
            self._vectors.select_zero(masking.mask, stage.deltas, cells.span.count, cells.size)
            if self._last:
                self._store(stage.gradients[0], cells, masking.dh_sum)
        return given

    def _pass_on(self, cells: Cells, given: Elsewhere) -> None:
        """Compute and store the gradient of the state before."""
        if self._last:
            self._run(cells, split_after(self._stage.backward, self._stage.deltas)[1], given)
            self._pass_on_state(self._last.dc, cells, given[self._cell.state_gradient])

    def _sum_deltas(self, cells: Cells) -> None:
        """Note which rows are needed; add the gradients of the gates to those of the bias."""
        if self._row_map:
            free = self._vectors.array(self._stage.gates[0])  # nothing of these cells reads the gates any more
            self._needed.mark(self._delta, free, cells.span, cells.size, anew=cells.is_first)
        for delta, bias in zip(self._summed, self._bias_gradients, strict=True):
            bias.add(delta, cells.batch_tile, cells.span, cells.size)

    @property
    def _summed(self) -> list[Operand]:
        """What the biases' gradients sum, of each product."""
        return [self._vectors.array(arrays.product.deltas[0]) for arrays in self._products]

    def _bring_arriving(self, cells: Cells) -> None:
        """Bring the gradients that arrive from the step after this one, or from the stage after it."""
        last = self._last
        if not last:
            for gradient, sequence in zip(self._stage.gradients, self._layer.output_gradients, strict=True):
                self._load(gradient, cells, sequence, 0, Traffic.ACTIVATIONS)
        elif cells.step + 1 not in self._skipped:
            self._load(self._cell.state_gradient, cells, last.dc, 0, Traffic.ACTIVATIONS)
            self._load(self._stage.gradients[0], cells, last.dh, 0, Traffic.ACTIVATIONS)

    def _add_arriving(self, cells: Cells) -> Elsewhere:
        """Add the gradients that arrived; give the state's, which is zero after a skipped cell."""
        of_state, size = self._cell.state_gradient, cells.size
        if not self._last:
            return {}
        after_skipped = cells.step + 1 in self._skipped
        dh = self._vectors.operand(self._stage.gradients[0], size)
        above = ZERO if cells.step in self._above else self._vectors.operand("dy", size)
        below = ZERO if after_skipped else dh
        self._emitter.vector(VectorOp.ADD, dh, above, below, outer=cells.span.count, inner=size)
        return {of_state: ZERO if after_skipped else self._vectors.operand(of_state, size)}

    def _pass_on_state(self, dc: Arrays, cells: Cells, arriving: Operand | Parameter) -> None:
        """Store the gradient of the state before; sequences that have ended pass on the one that arrives."""
        before = self._cell.state_gradient_before
        if self._masking:
            self._vectors.where_ended(self._masking.mask, before, arriving, cells.span.count, cells.size)
        self._store(before, cells, dc)

    def _store_deltas(self, cells: Cells) -> None:
        """Store δ of each product as it is, or a stream for each tile: a broadcast takes it tile by tile."""
        emitter, vectors = self._emitter, self._layer.tiling.gates * cells.size
        for layer in self._products:
            delta, first, count = self._vectors.array(layer.product.deltas[0]), cells.span.first, cells.span.count
            locations = [layer.delta_at(cells.step, cells.batch_tile, first + n) for n in range(count)]
            if not layer.storage.compressed:
                emitter.store(delta, locations[0], Traffic.DELTAS, 1, count * vectors)
                continue
            log = self._network.delta_log(layer.number, cells.step)
            for number, location in enumerate(locations):
                stream, threshold = delta.at(number * vectors), contract.PARAMETER_DELTA_THRESHOLD
                emitter.compress(stream, location, log, Traffic.DELTAS, threshold, False, outer=1, inner=vectors)
