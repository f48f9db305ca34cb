"""Programs of the backward pass with integers."""

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Any

from etalstm.errors import PlanError
from etalstm.network.cells.cell import Array, without
from etalstm.plan.integers.collect import IntegerCollector
from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.products import take_weights
from etalstm.plan.integers.propagation import IntegerPropagation
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import Constant, IntegerArrays, Noted
from etalstm.plan.memory.integer_tiling import DIGIT_SETS
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import ceil_div
from etalstm.plan.passes.backward import BackwardLayer, StepKind
from etalstm.plan.passes.backward_stage import BackwardStage, Cells, Job
from etalstm.plan.passes.gradient import BiasSums
from etalstm.plan.passes.propagation import Collecting, Emit, OperandGradients, emit_all
from etalstm.plan.passes.vectors import ZERO, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import OWN_WINDOW, Traffic, VectorOp
from etalstm_hw.contract.integers import PLANES, WORD_BYTES

_DIGITS = VectorOp.UPPER_DIGITS, VectorOp.LOWER_DIGITS  # by plane
_NOTING = VectorOp.UPPER_DIGITS, VectorOp.NOTED_DIGITS
_NOTED = {
    Noted.EXPONENT: VectorOp.NOTED_EXPONENT,
    Noted.CLAMPED: VectorOp.NOTED_CLAMPED,
}


class IntegerBias:
    """Emits db, sums of integers, and what must be known of δ: its largest exponents, and how many were clamped.

    Where the host wants the sums of gradients, or there are several parts of the batch, db stays integers.
    """

    def __init__(self, emitter: Emitter, scratch: Scratch, layer: LayerArrays, arrays: IntegerArrays, steps: int):
        self._emitter, self._layer, self._arrays, self._steps = emitter, layer, arrays, steps
        rows = self._rows = arrays.tiling.rows
        self._sums, self._noted = scratch.take("the bias gradients", rows), scratch.take("what is noted", Noted.COUNT)
        self.exponents = Exponents(emitter, scratch, arrays)
        self.places, self._of_bias = self.exponents.take(), self.exponents.take()
        self._converts = arrays.low_words is None and arrays.tiling.parts == 1

    def begin(self, steps: range) -> None:
        """Set everything to 0, and bring the exponents."""
        if len(steps) < self._steps:
            raise PlanError("with integers the backward pass is one program: no memory budget can be kept")
        self.add(0)  # what is noted is forgotten
        self._emitter.vector(VectorOp.MULTIPLY, self._sums, ZERO, ZERO, inner=self._rows)
        self._take_noted()
        self.exponents.begin()
        self.exponents.with_rows(self.places, Constant.DELTA_PLACES)
        if self._converts:
            self.exponents.with_rows(self._of_bias, Constant.BIAS, minus=True)

    def _take_noted(self) -> None:
        """Take what has been noted, which is forgotten then."""
        for place, op in _NOTED.items():
            self._emitter.vector(op, self._noted.at(place), ZERO, inner=1)

    def end(self, steps: range) -> None:
        """Store db, and what is known of δ."""
        emitter, rows = self._emitter, self._rows
        if self._converts:
            emitter.vector(VectorOp.CONVERT, self._sums, self._sums, self._of_bias, inner=rows)
        emitter.store(self._sums, Location(self._layer.db, 0), Traffic.WEIGHTS, 1, rows)
        self._take_noted()
        emitter.store(self._noted, Location(self._arrays.noted, 0), Traffic.DELTAS, 1, Noted.COUNT)

    def add(self, row: int) -> None:
        """Add the integers that have been noted, which are of a vector of rows."""
        total = self._sums.at(row)
        self._emitter.vector(VectorOp.NOTED_SUM, total, total, inner=1)


class IntegerBackwardStage(BackwardStage):
    """Emits the backward pass of a cell of one stage, with products of integers.

    Members
    -------
    collects : bool    gradients of elements are collected that were sent as other numbers
    """

    prepares_early = True

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
        tiling, tile = self._integers.tiling, self._config.tile_sums
        self._digits = scratch.take("digits of δ", PLANES * most * size)
        of_block = PLANES * tiling.gates * self._config.lanes
        sets = scratch.take("digits of δ, transposed", DIGIT_SETS * of_block)
        self._sets, self._turn = [sets.at(n * of_block) for n in range(DIGIT_SETS)], 0
        self._buffer = scratch.take("gradients of operands", tile * size)
        self._collector, self.collects = None, bool(self._integers.changes)
        if self.collects:
            last, of_group = self._network.steps - 1, WORD_BYTES * size
            others = self._delta.at(of_group if most > 1 else 0)  # gradients are collected when no δ is at hand
            context = self._config, self._emitter, scratch, self._layer, self._integers
            self._collector = IntegerCollector(*context, last, self._skipped, others)
        self._passed = self._delta  # as many as of a tile; they are read before sums of the next tile are stored

    @property
    def _arrays(self) -> tuple[Array, ...]:
        """Have δ in memory of its own: while it is made digits, what the next cells need comes."""
        deltas = self._stage.deltas
        return *without(super()._arrays, deltas), tuple((name,) for name in deltas)

    def _sum_biases(self, scratch: Scratch, steps: int) -> Sequence[BiasSums]:
        self._bias = IntegerBias(self._emitter, scratch, self._layer, self._integers, steps)
        return [self._bias]

    def _propagate(
        self, config: Config, of_x: Collecting | None, of_operand: Collecting | None, delays: bool
    ) -> Sequence[OperandGradients]:
        below = self._bias.exponents.constant(Constant.BELOW)
        vectors = below, self._buffer, self._passed, self._masking, self._collector
        self._propagation = IntegerPropagation(config, self._emitter, self._layer, self._integers, *vectors)
        return [self._propagation]

    def begin(self) -> None:
        """Bring the weights of Wᵀδ that there is room for."""
        self._propagation.begin()

    def all_deltas(
        self, step: int, tiles: range, products: list[Emit], stores: list[Emit], following: Sequence[Job]
    ) -> None:
        """Compute δ of a part of the batch.

        Pieces of the products come before each span of cells, and run beside it. What the next cells need is brought as
        soon as these need their memory no more: while their δ is transposed and summed. The weights of the next pieces
        come behind it: loads work in order.
        """
        every = list(self.spans(step, tiles))
        first_of_next = [next(self.spans(step, tiles)) for _, step, tiles in following]
        ends = (count * len(products) // len(every) for count in range(len(every) + 1))
        beside = [products[first:end] for first, end in pairwise(ends)]
        for cells, after, some, more in zip_longest(every, [*every[1:], *first_of_next], beside, beside[1:]):
            emit_all(some)
            if not self._has_arrived(cells):
                self._bring_arriving(cells)
            self._pass_on(cells, self._compute_deltas(cells))
            self._store_deltas(cells)
            if after:
                self.prepare(after)
            emit_all(take_weights(more or []))
            if cells is every[-1]:
                self._propagation.bring_early(step, tiles)
            self._sum_deltas(cells)
        emit_all(stores)

    def prepare(self, cells: Cells) -> None:
        """Bring what cells need; gradients that arrive only where they are surely stored."""
        super().prepare(cells)
        if self._has_arrived(cells):
            self._bring_arriving(cells)

    def _has_arrived(self, cells: Cells) -> bool:
        """Tell whether the gradients that arrive are there before the cells in front of these are done."""
        is_first = cells.is_first and cells.span == self._layer.tiling.unit_spans[0]
        return not is_first or self._propagation.is_early

    def _store_deltas(self, cells: Cells) -> None:
        """Store the digits of δ as they are sent for Wᵀδ."""
        size, span, gates = cells.size, cells.span, self._integers.tiling.gates
        for tile in range(span.count):
            of_gates = self._delta.at(tile * gates * size, outer=1, inner=size)
            of_tile = self._bias.places.at(gates * (span.first + tile), outer=0, inner=1)
            words = self._digits.at(PLANES * tile * size, outer=1, inner=0)
            for plane, op in enumerate(_DIGITS):
                self._digit(op, words.at(plane * size), of_gates, of_tile, outer=size, inner=gates)
        location = self._integers.delta.at(cells.step, cells.batch_tile, span.first)
        self._emitter.store(self._digits, location, Traffic.DELTAS, 1, PLANES * span.count * size)

    def _sum_deltas(self, cells: Cells) -> None:
        """Store the digits of δ, transposed for dW; while they are made, all of δ is noted and added to the bias's."""
        for tile in range(cells.span.count):
            for block in range(ceil_div(cells.size, self._integers.tiling.block)):
                self._transpose(cells, tile, block)

    def _digit(self, op: VectorOp, to: Operand, values: Operand, places: Operand, *, outer: int, inner: int) -> None:
        self._emitter.vector(op, to, values, places, outer=outer, inner=inner, bits=self._network.delta_bits)

    def _transpose(self, cells: Cells, tile: int, block: int) -> None:
        """Write the digits of a tile's rows and a block of sequences, those of each row as words of these.

        Byte k of word l is sequence k·lanes + l of the block.
        """
        tiling, transposed = self._integers.tiling, self._integers.transposed
        gates, lanes, beats, size = tiling.gates, tiling.config.lanes, tiling.config.vector_beats, cells.size
        delta = self._delta.at(tile * gates * size)
        first, words = block * tiling.block, self._sets[self._turn % DIGIT_SETS]
        self._turn += 1
        left = min(tiling.block, size - first)
        whole, rest = divmod(left, lanes)  # vectors of all words' bytes, and words with one more
        row = gates * (cells.span.first + tile)
        for gate in range(gates):
            places = self._bias.places.at(row + gate, outer=0, inner=0)
            for plane, op in enumerate(_NOTING):
                to = words.at((plane * gates + gate) * lanes, outer=1, inner=0)
                values = delta.at(gate * size + first, outer=1, inner=lanes)
                if rest:
                    self._digit(op, to, values, places, outer=rest, inner=whole + 1)
                if whole:
                    some = to.at(rest), values.at(rest)
                    self._digit(op, *some, places, outer=lanes - rest, inner=whole)
            self._bias.add(row + gate)
        place = cells.batch_tile * tiling.tile_blocks + block
        for shard, number, run in tiling.placed_runs:
            begin, end = max(row, run.first), min(row + gates, run.first + run.count)
            for plane in range(PLANES if begin < end else 0):
                source = words.at((plane * gates + begin - row) * lanes, outer=lanes)
                location = transposed.at(number, cells.step, place, shard).at(plane * transposed.plane_vectors(number))
                self._emitter.transpose(
                    source, location.at((begin - run.first) * lanes), gates=end - begin,
                    target=OWN_WINDOW, beat=0, rows=min(left, lanes), lanes=lanes, outer_beats=lanes * beats,
                    lane_beats=beats, channel_beats=0, kind=Traffic.DELTAS, read_here=True,
                )  # fmt: skip


class IntegerBackwardLayer(BackwardLayer):
    """Emits one layer's backward pass with integers."""

    @staticmethod
    def _make_stage(*arguments: Any) -> BackwardStage:
        return IntegerBackwardStage(*arguments)

    def _kind(self, kept: Sequence[int], number: int) -> StepKind:
        """Give the kind of a step: the first one's gradients find nothing collected, and are stored a step later."""
        kind = super()._kind(kept, number)
        collects = any(isinstance(stage, IntegerBackwardStage) and stage.collects for stage in self._stages)
        return kind._replace(begins=max(0, 2 - number)) if collects else kind

    def emit(self, steps: range) -> None:
        """Append the instructions of the steps."""
        for stage in self._stages:
            assert isinstance(stage, IntegerBackwardStage)
            stage.begin()
        super().emit(steps)
