"""Programs of the backward pass: from dy to δ, and from δ to the gradients of what entered the layer."""

from dataclasses import dataclass

from etalstm.hw import contract
from etalstm.hw.config import Config
from etalstm.hw.contract import Memory, Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.cells import MINUS_ZERO, NO_STEPS, ONE, ZERO, F, G, I, O, Steps, Streams, by_gate, local_gradients
from etalstm.plan.emit import Emitter, Operand, Place, Scratch
from etalstm.plan.network import NetworkMap
from etalstm.plan.steps import alike
from etalstm.plan.tiling import GATES, NEEDED_ARRAYS, Span
from etalstm.plan.weights import WeightStore

# While δ is computed, the port is free for weights: for the vectors of a product or sum of each of seven operations and
# of four gates' streams, and for what the memory takes to answer.
_OPERATIONS = 7
_LATENCY_BEATS = 64


@dataclass(frozen=True)
class Cells:
    """The cells of one step, batch tile and group of units."""

    step: int
    batch_tile: int
    group: Span
    size: int

    @property
    def vectors(self) -> int:
        """Vectors of one value of each cell."""
        return self.group.count * self.size


class BackwardLayer:
    """Emits one layer's backward pass, last step first.

    Everything of a cell that does not depend on the gradients (its local gradients) is computed ahead, while the sums
    of the cell after it run.

    Cells of steps in `skipped` cost nothing: what they would have passed on is known to be zero where it is read, as is
    the dy that skipped cells of the layer `above` would have left.

    With `skips`, where a layer has a row map, weights are brought for those rows only whose δ is not zero for the whole
    batch tile; but of all rows as long as δ is computed.
    """

    def __init__(
        self,
        config: Config,
        emitter: Emitter,
        network: NetworkMap,
        layer: LayerArrays,
        skipped: Steps = NO_STEPS,
        above: Steps = NO_STEPS,
        skips: bool = False,
    ):
        self._emitter, self._network, self._layer = emitter, network, layer
        self._skipped, self._above = skipped, above
        tiling = layer.tiling
        self._weights = WeightStore(
            config, emitter, layer.columns, [group.count for group in tiling.column_groups], tiling.rows
        )
        self._half, self._turn = config.queue_depth // 2, 0

        self._streams = Streams(emitter, network, layer)
        scratch = Scratch(config)
        size = network.batch.size
        most = max(group.count for group in tiling.unit_groups)
        vectors = most * size
        self._gates = scratch.take("the gates", GATES * vectors)
        self._delta = scratch.take("the gates' gradients", GATES * vectors)
        names = ("c", "c_before", "dy", "product", "dh", "dc_next")
        self._cell = {name: scratch.take(name, vectors) for name in names}
        self._bias = scratch.take("the bias gradients", GATES * tiling.units.tiles)
        self._row_map, self._whole_beats = layer.row_map if skips else None, 0
        if self._row_map:
            self._rows = scratch.take("the rows that are needed", NEEDED_ARRAYS * most)
            self._whole_beats = _LATENCY_BEATS + (_OPERATIONS + GATES * config.vector_beats) * vectors
        if network.mask:
            names = ("the mask", "a merged gradient", "a passed gradient")
            self._mask, self._merged, self._passed = (scratch.take(name, size) for name in names)

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps; those after them have run. The bias gradients are left in memory."""
        biases = GATES * self._layer.tiling.units.tiles
        sums = Place(self._layer.bias_gradient, 0)
        if steps.stop == self._network.steps:
            self._emitter.vector(VectorOp.MULTIPLY, self._bias, ZERO, ZERO, inner=biases)
        else:
            self._emitter.load(self._bias, sums, Traffic.WEIGHTS, 1, biases)
        kept = [step for step in reversed(steps) if step not in self._skipped]
        if kept:
            self._prepare(self._first_cells(kept[0]))
        pairs = zip(kept, [*kept[1:], None], strict=False)
        for run in alike(pairs, self._kind):
            self._emitter.loop(len(run), lambda turn, run=run: self._step(*run[turn]))
        self._emitter.store(self._bias, sums, Traffic.WEIGHTS, 1, biases)

    def _kind(self, pair) -> tuple:
        """Tell in what a step, with the one that follows it, may differ from others."""
        step, following = pair
        apart = 0 if following is None else step - following
        return step + 1 in self._skipped, step in self._above, apart, following in self._above

    def _step(self, step: int, following: int | None) -> None:
        """Emit a step, whose first cells are prepared, and prepare those of the one that follows."""
        tiles = range(self._network.batch.count)
        for tile in tiles:
            for number, cells in enumerate(self._groups(step, tile)):
                if number:
                    self._prepare(cells)
                self._deltas(cells)
            self._propagate(step, tile)
            if tile != tiles[-1]:
                self._prepare(self._first_cells(step, tile + 1))
            elif following is not None:
                self._prepare(self._first_cells(following))

    def emit_products(self) -> None:
        """Append Wᵀδ of all steps and nothing else, of a δ that lies in memory; its rows have no map there."""
        steps = self._network.steps

        def step(turn):
            for tile in range(self._network.batch.count):
                self._propagate(steps - 1 - turn, tile)

        self._emitter.loop(steps, step)

    def _first_cells(self, step: int, batch_tile: int = 0) -> Cells:
        return next(self._groups(step, batch_tile))

    def _groups(self, step, batch_tile):
        size = self._network.batch.size_of(batch_tile)
        for group in self._layer.tiling.unit_groups:
            yield Cells(step, batch_tile, group, size)

    def _prepare(self, cells: Cells) -> None:
        """Local gradients: P_i to P_o in δ's place, P_s in c's, P_r in f's."""
        emitter, layer, size, vectors = self._emitter, self._layer, cells.size, cells.vectors
        c, c_before, dy = (self._cell[name] for name in ("c", "c_before", "dy"))

        def load(to, sequence, step, kind):
            place = sequence.part(step, cells.batch_tile, cells.group.first)
            emitter.load(to, place, kind, 1, vectors)

        if cells.step not in self._above:
            load(dy, layer.dy, cells.step, Traffic.ACTIVATIONS)
        if layer.storage.compressed:
            p_r = by_gate(self._gates, size)[F]
            self._streams.bring(cells.step, cells.batch_tile, cells.group, size, self._delta, c, p_r)
            return
        gates = self._network.gates(layer, cells.step, cells.batch_tile, cells.group)
        emitter.load(self._gates, gates, Traffic.INTERMEDIATES, 1, GATES * vectors)
        load(c, layer.c, cells.step + 1, Traffic.INTERMEDIATES)
        load(c_before, layer.c, cells.step, Traffic.INTERMEDIATES)
        emitter.vector(VectorOp.TANH, c, c, inner=vectors)
        local_gradients(
            emitter, cells.group.count, size,
            gates=self._gates, c_before=c_before, tanh_c=c, product=self._cell["product"], p=self._delta,
        )  # fmt: skip

    def _deltas(self, cells: Cells) -> None:
        """Gradients of the gates and of the state before, from the gradients that arrive."""
        emitter, layer, size, vectors = self._emitter, self._layer, cells.size, cells.vectors
        p_s, dc_before = self._cell["c"], self._cell["c_before"]
        dy, dc, dh, dc_next = (self._cell[name] for name in ("dy", "product", "dh", "dc_next"))
        deltas = by_gate(self._delta, size)
        forget = by_gate(self._gates, size)[F]

        def part(sequence, step=0):
            return sequence.part(step, cells.batch_tile, cells.group.first)

        def run(op, d, a, b):
            emitter.vector(op, d, a, b, outer=cells.group.count, inner=size)

        arriving = dh
        if cells.step + 1 in self._skipped:
            arriving = dc_next = ZERO
        else:
            emitter.load(dc_next, part(layer.dc), Traffic.ACTIVATIONS, 1, vectors)
            emitter.load(dh, part(layer.dh), Traffic.ACTIVATIONS, 1, vectors)
        emitter.vector(VectorOp.ADD, dh, ZERO if cells.step in self._above else dy, arriving, inner=vectors)
        emitter.vector(VectorOp.MULTIPLY, dc, dh, p_s, inner=vectors)
        emitter.vector(VectorOp.ADD, dc, dc_next, dc, inner=vectors)
        for gate in (I, F, G):
            run(VectorOp.MULTIPLY, deltas[gate], dc.at(0, outer=size), deltas[gate])
        run(VectorOp.MULTIPLY, deltas[O], dh.at(0, outer=size), deltas[O])
        if self._network.mask:
            emitter.load(
                self._mask, self._network.mask.part(cells.step, cells.batch_tile), Traffic.ACTIVATIONS, 1, size
            )
            mask = self._mask.at(0, outer=0)
            emitter.vector(
                VectorOp.SELECT_ZERO,
                self._delta.at(0, outer=size),
                mask,
                ZERO,
                outer=GATES * cells.group.count,
                inner=size,
            )
            emitter.store(dh, part(layer.dh_sum), Traffic.ACTIVATIONS, 1, vectors)
        self._keep_deltas(cells)
        run(VectorOp.MULTIPLY, dc_before.at(0, outer=size), dc.at(0, outer=size), forget)
        if self._network.mask:
            passed = dc_next if dc_next == ZERO else dc_next.at(0, outer=size)
            run(VectorOp.SELECT_ZERO, dc_before.at(0, outer=size), mask, passed)
        emitter.store(dc_before, part(layer.dc), Traffic.ACTIVATIONS, 1, vectors)
        rows = GATES * cells.group.count
        bias = self._bias.at(GATES * cells.group.first, outer=0)
        emitter.vector(
            VectorOp.ADD,
            bias,
            bias,
            self._delta.at(0, outer=1, inner=size),
            outer=size,
            inner=rows,
            serial=True,
        )

    def _keep_deltas(self, cells: Cells) -> None:
        """Store δ as it is, or a stream for each tile: a broadcast takes it tile by tile."""
        emitter, layer, vectors = self._emitter, self._layer, GATES * cells.size
        places = [layer.delta_at(cells.step, cells.batch_tile, cells.group.first + n) for n in range(cells.group.count)]
        if not layer.storage.compressed:
            emitter.store(self._delta, places[0], Traffic.DELTAS, 1, cells.group.count * vectors)
            return
        log = self._network.delta_log(layer.number, cells.step)
        for number, place in enumerate(places):
            stream = self._delta.at(number * vectors)
            emitter.compress(
                stream, place, log, Traffic.DELTAS, contract.PARAMETER_DELTA_THRESHOLD, False, outer=1, inner=vectors
            )
        if self._row_map:
            self._keep_rows(cells)

    def _keep_rows(self, cells: Cells) -> None:
        """Store 1 for each row whose δ is not zero for all sequences, [tile][gate]."""
        emitter, rows, group = self._emitter, NEEDED_ARRAYS * cells.group.count, cells.group
        emitter.vector(VectorOp.MULTIPLY, self._rows, ZERO, ZERO, inner=rows)
        each = {"outer": cells.size, "inner": rows, "serial": True}
        emitter.vector(
            VectorOp.SELECT, self._rows.at(0, outer=0), self._delta.at(0, outer=1, inner=cells.size), ONE, **each
        )
        place = Place(self._layer.needed, NEEDED_ARRAYS * group.first)
        emitter.store(self._rows, place, Traffic.DELTAS, 1, rows)

    def _propagate(self, step: int, batch_tile: int) -> None:
        """Sum Wᵀδ: the inputs' part leaves the layer, the units' part goes to the step before."""
        layer, size = self._layer, self._network.batch.size_of(batch_tile)
        place = layer.delta_at(step, batch_tile)
        for number, group in enumerate(layer.tiling.column_groups):
            sums = group.count * size
            queue = Operand(Memory.QUEUE, self._half * (self._turn % 2) if sums <= self._half else 0)
            self._turn += 1
            for run in (runs := self._weights.runs(layer.tiling.units, GATES, number)):
                self._emitter.cast(
                    place,
                    layer.tiling.units,
                    Traffic.DELTAS,
                    compressed=layer.storage.compressed,
                    first_block=run.first_block,
                    blocks=run.blocks,
                    gates=GATES,
                    batch=size,
                    tiles=group.count,
                    start=run is runs[0],
                    finish=run is runs[-1],
                )
                whole_beats = self._whole_beats if number == 0 and run is runs[0] else 0
                weights = self._weights.bring(number, run, needed=self._row_map, whole_beats=whole_beats)
                self._emitter.mac(weights, run.rows * group.count, queue, sums, group.count, backward=True)
            self._keep_sums(step, batch_tile, group, queue, size)

    def _keep_sums(self, step, batch_tile, group, queue, size):
        """Store a column group's sums as dx and dh."""
        layer, inputs = self._layer, self._layer.tiling.inputs.tiles
        dx_count = max(0, min(group.count, inputs - group.first))
        if dx_count:
            sums = queue.at(0, outer=1, inner=group.count)
            place = layer.dx.part(step, batch_tile, group.first)
            self._emitter.store(sums, place, Traffic.ACTIVATIONS, dx_count, size)
        if dx_count == group.count:
            return
        first = group.first + dx_count - inputs
        sums = queue.at(dx_count, outer=1, inner=group.count)
        count = group.count - dx_count
        if not self._network.mask:
            place = layer.dh.part(0, batch_tile, first)
            self._emitter.store(sums, place, Traffic.ACTIVATIONS, count, size)
            return
        for tile in range(count):
            self._merge(batch_tile, first + tile, sums.at(tile), size)

    def _merge(self, batch_tile, tile, sums, size):
        """Store one tile of dh; sequences that have ended pass on the gradient that reached them."""
        layer, emitter = self._layer, self._emitter
        emitter.load(self._passed, layer.dh_sum.part(0, batch_tile, tile), Traffic.ACTIVATIONS, 1, size)
        emitter.vector(VectorOp.ADD, self._merged, sums, MINUS_ZERO, inner=size)
        emitter.vector(VectorOp.SELECT_ZERO, self._merged, self._mask, self._passed, inner=size)
        place = layer.dh.part(0, batch_tile, tile)
        emitter.store(self._merged, place, Traffic.ACTIVATIONS, 1, size)
