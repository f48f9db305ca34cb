"""Programs of the forward pass with integers."""

from typing import Any

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.products import Broadcast, Columns, Multiplier
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import Constant, Numbers
from etalstm.plan.memory.integer_tiling import AREAS, WORD_BYTES, IntegerTiling
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import Partition, Span, ceil_div
from etalstm.plan.passes.forward import ForwardLayer, ForwardStage, Job
from etalstm.plan.passes.sums import ProductSums
from etalstm.plan.passes.vectors import ZERO, Elsewhere, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp
from etalstm_hw.contract.integers import WEIGHT_BITS


class Packer:
    """Stores integers as the lanes multiply by them: four tiles of an operand in a vector of words.

    `words` is scratch memory for a vector of each sequence.
    """

    def __init__(self, emitter: Emitter, tiling: IntegerTiling, words: Operand):
        self._emitter, self._tiling, self._words = emitter, tiling, words

    def store(self, numbers: Numbers, entry: int, batch_tile: int, values: Operand, span: Span, size: int) -> None:
        """Store the integers of whole groups of tiles, [tile][b], of one step."""
        element = (entry * self._tiling.pair_blocks + batch_tile * self._tiling.tile_blocks) * self._tiling.config.lanes
        for first in range(0, span.count, WORD_BYTES):
            count = min(WORD_BYTES, span.count - first)
            pack(self._emitter, self._words, values.at(first * size), count, size, size)
            location = numbers.packed.at((span.first + first) // WORD_BYTES, element)
            place = Location(location.array, location.vector, (entry, batch_tile))
            self._emitter.store(self._words, place, Traffic.ACTIVATIONS, 1, size)


def pack(emitter: Emitter, words: Operand, values: Operand, count: int, stride: int, size: int) -> None:
    """Make vectors of words, each of the lowest bytes of `count` vectors that are `stride` apart."""
    for number in reversed(range(count)):
        below = ZERO if number == count - 1 else words
        emitter.vector(VectorOp.INSERT, words, values.at(number * stride), below, inner=size)


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
        self._packer = Packer(emitter, tiling, scratch.take("packed words", network.batch.size))

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
        spans = self.tiling.unit_spans
        matrices = [self._columns(name, span) for name in ("h", "x") for span in spans]
        if self._multiplier.fits(*matrices):
            for columns in matrices:
                self._multiplier.keep(columns)

    def _columns(self, operand: str, span: Span) -> Columns:
        """Give the weights of a span's rows."""
        groups = Span(self.gates * span.first // WORD_BYTES, ceil_div(self.gates * span.count, WORD_BYTES))
        return Columns(self._arrays.rows[operand], groups)

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
        numbers, partition = self._arrays.operands[operand], self._arrays.tiling.columns_of(operand)
        location = numbers.sent.at(job.step + numbers.first, job.batch_tile)
        array = broadcast_of(location, partition, job.size)
        self._multiplier.multiply(array, self._columns(operand, job.span), sums)

    def _sums_of(self, job: Job) -> Elsewhere:
        """Convert the sums, and add them to the bias."""
        emitter, size, rows, first = self._emitter, job.size, job.row_tiles, self.gates * job.span.first
        bias = self._bias.at(first, outer=1, inner=0)
        for name, area in zip(("x", "h"), self._areas(job), strict=True):
            convert_rows(emitter, self._config, self._terms, area, self._of[name].at(first), rows, size)
            terms, z = (operand.at(0, outer=size) for operand in (self._terms, self._z))
            emitter.vector(VectorOp.ADD, z, terms, bias if name == "x" else z, outer=rows, inner=size)
        names = self._stage.sums
        return {name: self._z.at(gate * size, outer=self.gates * size) for gate, name in enumerate(names)}

    def cells(self, job: Job) -> None:
        """Compute the cells; then store what they give as integers."""
        super().cells(job)
        output, span, size = self._vectors.array(self._cell.output), job.span, job.size
        places = self._exponents.constant(Constant.PLACES)
        self._emitter.vector(VectorOp.QUANTISE, self._terms, output, places, inner=span.count * size, bits=WEIGHT_BITS)
        numbers, entry = self._arrays.output, job.step + 1
        location = numbers.sent.at(entry, job.batch_tile, span.first)
        self._emitter.store(self._terms, location, Traffic.ACTIVATIONS, 1, span.count * size)
        self._packer.store(numbers, entry, job.batch_tile, self._terms, span, size)


def broadcast_of(location: Location, partition: Partition, sequences: int) -> Broadcast:
    """Give a step of an operand as it is sent."""
    blocks = partition.channels * partition.tiles
    return Broadcast(location, 0, partition.tiles, blocks, 1, sequences, False, Traffic.ACTIVATIONS)


def convert_rows(
    emitter: Emitter, config: Config, to: Operand, sums: Operand, exponents: Operand, rows: int, size: int
) -> None:
    """Convert sums of so many vectors, tile by tile, to [vector][b]; each vector has an exponent."""
    tile = config.tile_sums
    for first in range(0, rows, tile):
        count = min(tile, rows - first)
        of_tile = sums.at(first * config.summed(size), outer=1, inner=tile)
        exponent = exponents.at(first, outer=min(1, exponents.inner), inner=0)
        emitter.vector(VectorOp.CONVERT, to.at(first * size, outer=size), of_tile, exponent, outer=count, inner=size)


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
