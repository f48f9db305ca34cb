"""Programs of the backward pass with integers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from etalstm.errors import PlanError
from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.forward import convert_rows
from etalstm.plan.integers.products import Broadcast, Columns, Multiplier
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import OPERANDS, Constant, IntegerArrays
from etalstm.plan.memory.integer_tiling import AREAS, WORD_BYTES
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Parameter, Scratch
from etalstm.plan.memory.tiling import Span
from etalstm.plan.passes.backward import BackwardLayer, BackwardStage, Cells
from etalstm.plan.passes.gradient import BiasSums
from etalstm.plan.passes.propagation import Collecting, Emit, Masking, OperandGradients
from etalstm.plan.passes.vectors import ZERO, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import PARAMETER_NEEDED_SCALE, Memory, Traffic, VectorOp

NEEDED_SCALE = Parameter(PARAMETER_NEEDED_SCALE)  # makes zeros of δ below the threshold


class IntegerPropagation:
    """Emits the sums Wᵀδ of a step when its δ is there: of the units' columns first, then of the inputs'.

    `buffer` is scratch memory for the sums of a tile of columns. Members `most_tiles` and `steps` are those of
    :class:`~etalstm.plan.passes.propagation.Propagation`: nothing is shared.
    """

    most_tiles = steps = 1

    def __init__(
        self, config: Config, emitter: Emitter, layer: LayerArrays, arrays: IntegerArrays, below: Operand,
        buffer: Operand, passed: Operand, masking: Masking | None,
    ):  # fmt: skip
        self._config, self._emitter, self._layer, self._arrays = config, emitter, layer, arrays
        self._below, self._buffer, self._passed, self._masking = below, buffer, passed, masking
        self._multiplier, self._turn = Multiplier(config, emitter), 0

    def begin(self) -> None:
        """Bring the weights that there is room for."""
        matrices = [self._columns(name) for name in reversed(OPERANDS)]
        if self._multiplier.fits(*matrices):
            for columns in matrices:
                self._multiplier.keep(columns)

    def _columns(self, operand: str, groups: Span | None = None) -> Columns:
        packed = self._arrays.columns[operand]
        return Columns(packed, groups or Span(0, self._arrays.tiling.column_groups(operand)))

    def units(self, step: int, tiles: range) -> None:
        """Sum the units' columns for the step before."""
        for tile in tiles:
            self._sum("h", step, tile)

    def inputs(self, step: int, tiles: range) -> None:
        """Sum the inputs' columns, which leave the layer."""
        for tile in tiles:
            self._sum("x", step, tile)

    def left(self, step: int) -> list[Emit]:
        """Nothing is left."""
        return []

    def shared_inputs(self, steps: Sequence[int], number: int) -> tuple[list[Emit], list[Emit]]:
        """No steps share loads."""
        return [], []

    def rest(self, steps: Sequence[int]) -> None:
        """Nothing is left."""

    def _sum(self, operand: str, step: int, batch_tile: int) -> None:
        """Sum an operand's columns, as many tiles at a time as a part of the sums holds."""
        tiling, size = self._arrays.tiling, self._layer.batch.size_of(batch_tile)
        units, delta = tiling.units, self._arrays.delta.at(step, batch_tile)
        blocks = units.channels * units.tiles
        array = Broadcast(delta, 0, units.tiles, blocks, tiling.gates, size, True, Traffic.DELTAS)
        of_row, area = self._config.row_vectors, self._config.queue_depth // AREAS
        groups, columns = tiling.column_groups(operand), tiling.columns_of(operand).tiles
        whole = self._columns(operand)
        most = area // (self._config.tile_sums * self._config.summed(size)) * of_row
        runs = [whole.groups] if groups <= most else [Span(f, min(most, groups - f)) for f in range(0, groups, most)]
        for run in runs:
            sums = Operand(Memory.SUMS, self._turn % AREAS * area)
            self._turn += 1
            self._multiplier.multiply(array, Columns(whole.packed, run), sums, backward=True)
            first = run.first * WORD_BYTES
            self._store(operand, step, batch_tile, sums, Span(first, min(columns - first, run.count * WORD_BYTES)))

    def _store(self, operand: str, step: int, batch_tile: int, sums: Operand, tiles: Span) -> None:
        """Convert the sums of some tiles of columns, and store them as the gradients of x or of the other operand."""
        emitter, tile, layer = self._emitter, self._config.tile_sums, self._layer
        size = layer.batch.size_of(batch_tile)
        for first in range(0, tiles.count, tile):
            count = min(tile, tiles.count - first)
            convert_rows(
                emitter,
                self._config,
                self._buffer,
                sums.at(first * self._config.summed(size)),
                self._below,
                count,
                size,
            )
            column = tiles.first + first
            if operand == "x":
                assert layer.dx, "the product with x has a place for its gradient"
                location = layer.dx.at(step, batch_tile, column)
            else:
                location = layer.operand_gradient.at(0, batch_tile, column)
                self._merge(batch_tile, column, count, size, step)
            emitter.store(self._buffer, location, Traffic.ACTIVATIONS, 1, count * size)

    def _merge(self, batch_tile: int, column: int, count: int, size: int, step: int) -> None:
        """Pass on the gradient that reached them to sequences that have ended."""
        masking, emitter = self._masking, self._emitter
        if not masking:
            return
        if self._layer.batch.count > 1:  # the mask that the stage has brought is another tile's
            masking.bring(emitter, step, batch_tile, size)
        location = masking.dh_sum.at(0, batch_tile, column)
        emitter.load(self._passed, location, Traffic.ACTIVATIONS, 1, count * size)
        values, passed = (operand.at(0, outer=size) for operand in (self._buffer, self._passed))
        emitter.vector(VectorOp.SELECT_ZERO, values, masking.mask.at(0, outer=0), passed, outer=count, inner=size)


class IntegerBias:
    """Emits db, sums of integers, and what must be known of δ: its largest sizes, and how many were clamped."""

    def __init__(self, emitter: Emitter, scratch: Scratch, layer: LayerArrays, arrays: IntegerArrays, steps: int):
        self._emitter, self._layer, self._arrays, self._steps = emitter, layer, arrays, steps
        rows = self._rows = arrays.tiling.rows
        self._sums, self._largest, self._saturated = (
            scratch.take(name, rows) for name in ("the bias gradients", "the largest δ", "saturated δ")
        )
        self.exponents = Exponents(emitter, scratch, arrays)
        self.places, self._of_bias = self.exponents.take(), self.exponents.take()

    def begin(self, steps: range) -> None:
        """Set everything to 0, and bring the exponents."""
        if len(steps) < self._steps:
            raise PlanError("with integers the backward pass is one program: no memory budget can be kept")
        for operand in (self._sums, self._largest, self._saturated):
            self._emitter.vector(VectorOp.MULTIPLY, operand, ZERO, ZERO, inner=self._rows)
        self.exponents.begin()
        self.exponents.with_rows(self.places, Constant.DELTA_PLACES)
        self.exponents.with_rows(self._of_bias, Constant.BIAS, minus=True)

    def end(self, steps: range) -> None:
        """Convert and store db, and store what is known of δ."""
        emitter, rows = self._emitter, self._rows
        emitter.vector(VectorOp.CONVERT, self._sums, self._sums, self._of_bias, inner=rows)
        for operand, array in (
            (self._sums, self._layer.db), (self._largest, self._arrays.largest),
            (self._saturated, self._arrays.saturated),
        ):  # fmt: skip
            emitter.store(operand, Location(array, 0), Traffic.WEIGHTS, 1, rows)

    def add(self, numbers: Operand, batch_tile: int, span: Span, size: int) -> None:
        """Add the integers of a span of units, [tile][gate][b]."""
        self._collect(VectorOp.ADD_INTEGERS, self._sums, numbers, span, size)

    def take_largest(self, scaled: Operand, span: Span, size: int) -> None:
        """Take in δ times the powers of two of their rows."""
        self._collect(VectorOp.LARGEST, self._largest, scaled, span, size)

    def count(self, saturated: Operand, span: Span, size: int) -> None:
        """Count what was clamped."""
        self._collect(VectorOp.ADD_INTEGERS, self._saturated, saturated, span, size)

    def _collect(self, op: VectorOp, to: Operand, values: Operand, span: Span, size: int) -> None:
        gates, each = self._arrays.tiling.gates, values.at(0, outer=1, inner=size)
        total = to.at(gates * span.first, outer=0)
        self._emitter.vector(op, total, total, each, outer=size, inner=gates * span.count, serial=True)


class IntegerBackwardStage(BackwardStage):
    """Emits the backward pass of a cell of one stage, with products of integers."""

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, network: NetworkMap,
        products: tuple[LayerArrays, ...], skipped: Steps, above: Steps, skips: bool,
    ):  # fmt: skip
        arrays = products[-1].integers
        assert arrays, "a layer with integers has arrays for them"
        self._integers: IntegerArrays = arrays
        self._config = config
        super().__init__(config, emitter, scratch, network, products, skipped, above, skips)

    def _reserve(self, scratch: Scratch, most: int, size: int, skips: bool) -> None:
        super()._reserve(scratch, most, size, False)
        gates, tile = self._integers.tiling.gates, self._config.tile_sums
        self._numbers, self._temporary = (scratch.take("integers of δ", gates * most * size) for _ in range(2))
        self._buffer = scratch.take("gradients of operands", tile * size)
        self._passed = scratch.take("passed gradients", tile * size) if self._masking else self._buffer

    def _sum_biases(self, scratch: Scratch, steps: int) -> Sequence[BiasSums]:
        self._bias = IntegerBias(self._emitter, scratch, self._layer, self._integers, steps)
        return [self._bias]

    def _propagate(
        self, config: Config, of_x: Collecting | None, of_operand: Collecting | None, delays: bool
    ) -> Sequence[OperandGradients]:
        below = self._bias.exponents.constant(Constant.BELOW)
        vectors = below, self._buffer, self._passed, self._masking
        self._propagation = IntegerPropagation(config, self._emitter, self._layer, self._integers, *vectors)
        return [self._propagation]

    def begin(self) -> None:
        """Bring the weights of Wᵀδ that there is room for."""
        self._propagation.begin()

    @property
    def _summed(self) -> list[Operand]:
        return [self._numbers]

    def _store_deltas(self, cells: Cells) -> None:
        """Store δ as integers: as it is sent for Wᵀδ, and transposed for dW. Note what is to be known of it."""
        emitter, bias, size = self._emitter, self._bias, cells.size
        gates = self._integers.tiling.gates
        rows, first = gates * cells.span.count, gates * cells.span.first
        delta = self._vectors.array(self._layer.product.deltas[0]).at(0, outer=size)
        numbers, temporary = (operand.at(0, outer=size) for operand in (self._numbers, self._temporary))
        places, of_rows = (each.at(first, outer=1, inner=0) for each in (bias.places, bias.exponents.of_rows))
        run = partial(emitter.vector, outer=rows, inner=size)
        bits = self._network.delta_bits
        prunes = self._layer.storage.compressed
        if prunes:
            run(VectorOp.MULTIPLY, temporary, delta, NEEDED_SCALE)
            run(VectorOp.MULTIPLY, numbers, ZERO, ZERO)
            run(VectorOp.SELECT, numbers, temporary, delta)
        run(VectorOp.QUANTISE, numbers, numbers if prunes else delta, places, bits=bits)
        location = self._integers.delta.at(cells.step, cells.batch_tile, first)
        emitter.store(self._numbers, location, Traffic.DELTAS, 1, rows * size)
        self._transpose(cells, first, rows)
        run(VectorOp.SCALE, temporary, delta, of_rows)
        bias.take_largest(self._temporary, cells.span, size)
        run(VectorOp.SATURATED, temporary, delta, places, bits=bits)
        bias.count(self._temporary, cells.span, size)
        if prunes:  # the bias sums all of δ
            run(VectorOp.QUANTISE, numbers, delta, places, bits=bits)

    def _transpose(self, cells: Cells, first: int, rows: int) -> None:
        """Write the integers of a span's rows, those of each as words of all sequences side by side."""
        tiling, transposed = self._integers.tiling, self._integers.transposed
        lanes, beats = tiling.config.lanes, tiling.config.vector_beats
        for number, run in enumerate(tiling.row_runs):
            begin, end = max(first, run.first), min(first + rows, run.first + run.count)
            if begin >= end:
                continue
            for block in range(tiling.tile_blocks):
                count = min(lanes, cells.size - block * lanes)
                if count <= 0:
                    continue
                place = cells.batch_tile * tiling.tile_blocks + block
                source = self._numbers.at((begin - first) * cells.size + block * lanes, outer=cells.size)
                location = transposed.at(number, cells.step, place).at((begin - run.first) * lanes)
                self._emitter.transpose(
                    source, location, gates=end - begin, target=transposed.window(number), beat=0, rows=count,
                    lanes=lanes, outer_beats=lanes * beats, lane_beats=beats,
                    channel_beats=transposed.channel_vectors(number) * beats, kind=Traffic.DELTAS, read_here=True,
                )  # fmt: skip


class IntegerBackwardLayer(BackwardLayer):
    """Emits one layer's backward pass with integers."""

    @staticmethod
    def _make_stage(*arguments: Any) -> BackwardStage:
        return IntegerBackwardStage(*arguments)

    def emit(self, steps: range) -> None:
        """Append the instructions of the steps."""
        for stage in self._stages:
            assert isinstance(stage, IntegerBackwardStage)
            stage.begin()
        super().emit(steps)
