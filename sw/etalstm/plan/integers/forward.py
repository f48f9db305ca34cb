"""Programs of the forward pass with integers."""

from typing import Any

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.products import Broadcast, Columns, Multiplier, WeightGroup, convert
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import Constant
from etalstm.plan.memory.integer_tiling import AREAS
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import Span, cut
from etalstm.plan.passes.forward import ForwardLayer, ForwardStage, Job
from etalstm.plan.passes.sums import ProductSums
from etalstm.plan.passes.vectors import Elsewhere, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp
from etalstm_hw.contract.integers import WEIGHT_BITS, WORD_BYTES


class IntegerForwardStage(ForwardStage):
    """Emits the forward pass of a cell of one stage, with products of integers.

    The sums with x and with the other operand lie apart: each is converted with its own exponents.
    """

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, network: NetworkMap,
        products: tuple[LayerArrays, ...], skipped: Steps, shares: bool, skips: bool,
    ):  # fmt: skip
        super().__init__(config, emitter, scratch, network, products, skipped, shares, skips)
        arrays = products[-1].integers
        assert arrays, "a layer with integers has arrays for them"
        self._arrays, tiling = arrays, arrays.tiling
        self._config, self._area = config, config.queue_depth // AREAS
        most = max(span.count for span in self.tiling.unit_spans) * network.batch.size
        self._z = scratch.take("sums", self.gates * most)
        self._terms = scratch.take("terms", self.gates * most)
        self._bias = scratch.take("bias", tiling.rows)
        self._exponents = Exponents(emitter, scratch, arrays)
        self._of = {name: self._exponents.take() for name in ("x", "h")}
        self._multiplier = Multiplier(config, emitter)

    def _make_sums(
        self, config: Config, products: tuple[LayerArrays, ...], shares: bool, skips: bool
    ) -> list[ProductSums]:
        return []  # an operand's sums are made one after the other

    def begin(self) -> None:
        """Bring bias and exponents; of the weights what there is room for."""
        self._exponents.begin()
        for name, constant in (("x", Constant.X), ("h", Constant.H)):
            self._exponents.with_rows(self._of[name], constant)
        rows = self._arrays.tiling.rows
        self._emitter.load(self._bias, Location(self._layer.bias, 0), Traffic.WEIGHTS, 1, rows)
        matrices = [self._columns(name, span) for name in ("h", "x") for span in self.tiling.unit_spans]
        if self._multiplier.fits(*matrices):
            for columns in matrices:
                self._multiplier.keep(columns)

    def _columns(self, operand: str, span: Span) -> Columns:
        """Give the weights of a span's rows: a group is those of a tile of units."""
        packed = self._arrays.rows[operand]
        return Columns(tuple(WeightGroup(packed, tile) for tile in range(span.first, span.first + span.count)))

    def _areas(self, job: Job) -> tuple[Operand, Operand]:
        """Give where the sums of a job lie: with x, and with the other operand."""
        half = 2 * self._area if job.in_second_half else 0
        return Operand(Memory.SUMS, half), Operand(Memory.SUMS, half + self._area)

    def sum_inputs(self, job: Job) -> None:
        """Sum the products with x."""
        self._sum("x", job, self._areas(job)[0])

    def sum_state(self, job: Job) -> None:
        """Sum the products with the other operand."""
        self._sum("h", job, self._areas(job)[1])

    def _sum(self, operand: str, job: Job, sums: Operand) -> None:
        numbers, tiling = self._arrays.operands[operand], self._arrays.tiling
        location, groups = numbers.digits.at(job.step + numbers.first, job.batch_tile), tiling.groups_of(operand)
        blocks = tiling.columns_of(operand).channels * groups
        array = Broadcast(location, 0, groups, blocks, job.size, False, Traffic.ACTIVATIONS)
        self._multiplier.multiply(array, self._columns(operand, job.span), sums)

    def _sums_of(self, job: Job) -> Elsewhere:
        """Convert the sums, and add them to the bias."""
        emitter, size, rows, first = self._emitter, job.size, job.row_tiles, self.gates * job.span.first
        bias = self._bias.at(first, outer=1, inner=0)
        for name, area in zip(("x", "h"), self._areas(job), strict=True):
            self._convert(area, self._of[name].at(first), rows, size)
            terms, z = (operand.at(0, outer=size) for operand in (self._terms, self._z))
            emitter.vector(VectorOp.ADD, z, terms, bias if name == "x" else z, outer=rows, inner=size)
        names = self._stage.sums
        return {name: self._z.at(gate * size, outer=self.gates * size) for gate, name in enumerate(names)}

    def _convert(self, sums: Operand, exponents: Operand, rows: int, size: int) -> None:
        """Convert the sums of so many vectors of rows, tile by tile."""
        tile, of_tile = self._config.tile_sums, self._config.of_stream(size) * self._config.tile_sums
        for number, some in enumerate(cut(rows, tile)):
            to, of_rows = self._terms.at(some.first * size), exponents.at(some.first)
            convert(self._emitter, self._config, to, sums.at(number * of_tile), of_rows, some.count, size)

    def cells(self, job: Job) -> None:
        """Compute the cells; then store what they give as integers, four tiles in a vector of words."""
        super().cells(job)
        output, span, size = self._vectors.array(self._cell.output), job.span, job.size
        places = self._exponents.constant(Constant.PLACES)
        digits, entry = self._arrays.output.digits, job.step + 1
        groups = cut(span.count, WORD_BYTES)
        for number, tiles in enumerate(groups):
            values = output.at(tiles.first * size, outer=1, inner=size)
            words = self._terms.at(number * size, outer=1, inner=0)
            self._emitter.vector(VectorOp.BYTES, words, values, places, outer=size, inner=tiles.count, bits=WEIGHT_BITS)
        location = digits.at(entry, job.batch_tile, span.first // WORD_BYTES)
        self._emitter.store(self._terms, location, Traffic.ACTIVATIONS, 1, len(groups) * size)


class IntegerForwardLayer(ForwardLayer):
    """Emits one layer's forward pass with integers."""

    @staticmethod
    def _make_stage(*arguments: Any) -> ForwardStage:
        return IntegerForwardStage(*arguments)

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps."""
        if steps.start:
            for stage in self._stages:
                stage.begin()
        super().emit(steps)
