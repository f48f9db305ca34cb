"""Programs of the optimiser with integers: a step, the rows' exponents, and the weights as integers."""

from collections.abc import Iterator

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.forward import pack
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import OPERANDS, Constant, IntegerArrays
from etalstm.plan.memory.integer_tiling import WORD_BYTES
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import UPDATE_ARRAYS, Span, spans
from etalstm.plan.passes.update import WEIGHT_DECAY, UpdateSteps
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp
from etalstm_hw.contract.integers import WEIGHT_BITS


class IntegerUpdateLayer:
    """Emits one layer's update; or with ``refresh`` alone only the integers of the weights that are there.

    The owners of rows have the weights, [column][row]. They make integers of them, pack them for the forward pass, and
    give them to the owners of columns, who pack them for the backward pass.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        arrays = layer.integers
        assert arrays, "a layer with integers has arrays for them"
        self._config, self._emitter, self._layer = config, emitter, layer
        self._arrays: IntegerArrays = arrays
        self._rows = arrays.tiling.rows

    def emit(self) -> None:
        """Append the layer's instructions."""
        steps = UpdateSteps(self._config, self._emitter, self._at_once(UPDATE_ARRAYS) * self._rows)
        layer = self._layer
        for span in self._columns(self._at_once(UPDATE_ARRAYS)):
            arrays = layer.weights, layer.gradient, layer.velocity
            locations = [Location(array, span.first * self._rows, (span.first,)) for array in arrays]
            steps.step(locations, span.count * self._rows, WEIGHT_DECAY)
        steps.biases(layer)
        self.refresh()

    def _at_once(self, arrays: int) -> int:
        """Give how many columns are worked on at a time if each vector needs so many in the scratch memory."""
        return max(1, self._config.scratch_depth // (2 * arrays * self._rows))

    def _columns(self, most: int) -> Iterator[Span]:
        """Go through the columns of all rows, at most so many at a time."""
        yield from spans(self._arrays.tiling.inputs.padded + self._arrays.tiling.units.padded, most)

    def refresh(self) -> None:
        """Append what makes integers of the weights."""
        self._emitter.join_parts()
        self._find_exponents()
        self._quantise()
        self._emitter.join_parts()
        self._pack_columns()

    def _load(self, to: Operand, span: Span) -> None:
        location = Location(self._layer.weights, span.first * self._rows)
        self._emitter.load(to, location, Traffic.WEIGHTS, 1, span.count * self._rows)

    def _find_exponents(self) -> None:
        """Find the largest weight of each row; store the exponents."""
        scratch, emitter, rows = Scratch(self._config), self._emitter, self._rows
        largest, most = scratch.take("the largest weights", rows), self._at_once(2)
        sets = [scratch.take("weights", most * rows) for _ in range(2)]
        emitter.vector(VectorOp.MULTIPLY, largest, ZERO, ZERO, inner=rows)
        for turn, span in enumerate(self._columns(most)):
            weights = sets[turn % 2]
            self._load(weights, span)
            total, each = largest.at(0, outer=0), weights.at(0, outer=rows)
            emitter.vector(VectorOp.LARGEST, total, total, each, outer=span.count, inner=rows, serial=True)
        emitter.vector(VectorOp.EXPONENT, largest, largest, inner=rows)
        emitter.store(largest, Location(self._arrays.exponents, 0), Traffic.WEIGHTS, 1, rows)

    def _quantise(self) -> None:
        """Make integers, a tile of columns after the other; pack them, and give them to the columns' owners."""
        scratch, emitter, rows, lanes = Scratch(self._config), self._emitter, self._rows, self._config.lanes
        exponents = Exponents(emitter, scratch, self._arrays)
        exponents.begin()
        places = exponents.take()
        exponents.with_rows(places, Constant.WEIGHT_PLACES, minus=True)
        weights, words = scratch.take("weights", lanes * rows), scratch.take("packed words", lanes)
        for operand in OPERANDS:
            partition = self._arrays.tiling.columns_of(operand)
            first = 0 if operand == "x" else self._arrays.tiling.inputs.padded
            for channel in range(partition.channels):
                for tile in range(partition.tiles):
                    count = partition.lanes_of(tile)
                    column = first + channel * partition.per_channel + tile * lanes
                    self._load(weights, Span(column, count))
                    each = weights.at(0, outer=rows)
                    emitter.vector(
                        VectorOp.QUANTISE, each, each, places.at(0, outer=0), outer=count, inner=rows, bits=WEIGHT_BITS
                    )
                    self._pack_rows(operand, (channel * partition.tiles + tile) * lanes, weights, words, count)
                    self._give(operand, channel, tile, weights, count)

    def _pack_rows(self, operand: str, element: int, weights: Operand, words: Operand, count: int) -> None:
        """Pack the rows' integers of some elements: groups of four rows."""
        for group in range(self._arrays.tiling.row_groups):
            of_group = weights.at(WORD_BYTES * group, inner=self._rows)
            pack(self._emitter, words, of_group, min(WORD_BYTES, self._rows - WORD_BYTES * group), 1, count)
            location = self._arrays.rows[operand].at(group, element)
            self._emitter.store(words, location, Traffic.WEIGHTS, 1, count)

    def _give(self, operand: str, channel: int, tile: int, weights: Operand, count: int) -> None:
        """Transpose the integers of a tile of columns into the window of their owner, [row][tile of columns]."""
        tiling, beats, lanes = self._arrays.tiling, self._config.vector_beats, self._config.lanes
        column, columns = tile + (0 if operand == "x" else tiling.inputs.tiles), self._wide_columns
        self._emitter.transpose(
            weights.at(0, outer=1, inner=self._rows), Location(self._arrays.wide, column), gates=self._rows,
            target=channel, beat=0, rows=count, lanes=lanes, outer_beats=lanes * columns * beats,
            lane_beats=columns * beats, channel_beats=self._rows * lanes * columns * beats, read_here=True,
        )  # fmt: skip

    @property
    def _wide_columns(self) -> int:
        """Tiles of columns that a channel owns, of both operands."""
        return self._arrays.tiling.inputs.tiles + self._arrays.tiling.units.tiles

    def _pack_columns(self) -> None:
        """Pack the columns' integers: groups of four tiles of columns."""
        tiling, emitter, columns = self._arrays.tiling, self._emitter, self._wide_columns
        scratch = Scratch(self._config)
        most = max(1, scratch.left // (2 * (columns + 1)))
        sets = [(scratch.take("weights", most * columns), scratch.take("packed words", most)) for _ in range(2)]
        for turn, span in enumerate(spans(tiling.sent_rows, most)):
            wide, words = sets[turn % 2]
            location = Location(self._arrays.wide, span.first * columns)
            emitter.load(wide, location, Traffic.WEIGHTS, 1, span.count * columns, everyone=True)
            for operand, first in zip(OPERANDS, (0, tiling.inputs.tiles), strict=True):
                tiles = tiling.columns_of(operand).tiles
                for group in range(tiling.column_groups(operand)):
                    of_group = wide.at(first + WORD_BYTES * group, inner=columns)
                    pack(emitter, words, of_group, min(WORD_BYTES, tiles - WORD_BYTES * group), 1, span.count)
                    to = self._arrays.columns[operand].at(group, span.first)
                    emitter.store(words, to, Traffic.WEIGHTS, 1, span.count)
