"""Programs of the optimiser with integers: a step, the rows' exponents, and the weights as integers."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import OPERANDS, Constant, IntegerArrays
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import UPDATE_ARRAYS, Span, spans
from etalstm.plan.passes.update import WEIGHT_DECAY, UpdateSteps
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp
from etalstm_hw.contract.integers import WEIGHT_BITS, WORD_BYTES

_SETS = 3  # of buffers in the update: one is loaded, one is worked on, one is stored


class _Buffers(NamedTuple):
    """Scratch memory for weights of a group of columns, and for the words that are made of them."""

    weights: Operand
    of_rows: Operand
    of_columns: Operand


class IntegerUpdateLayer:
    """Emits one layer's update; or with ``refresh`` alone only the integers of the weights that are there.

    The owners of rows have the weights, [column][row]. They make integers of them, pack them for the forward pass, and
    give them to the owners of columns, who pack them for the backward pass. A group of channels updates the rows of its
    shard, and makes integers of the rows of all groups.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        arrays = layer.integers
        assert arrays, "a layer with integers has arrays for them"
        self._config, self._emitter, self._layer = config, emitter, layer
        self._arrays: IntegerArrays = arrays
        self._rows, self._shard = arrays.tiling.padded_rows, arrays.tiling.shard_rows

    def emit(self) -> None:
        """Append the layer's instructions."""
        layer, at_once = self._layer, self._at_once(UPDATE_ARRAYS, self._shard, _SETS)
        steps = UpdateSteps(self._config, self._emitter, at_once * self._shard, _SETS)
        for span in self._columns(at_once):
            arrays = layer.weights, layer.gradient, layer.velocity
            locations = [Location(array, span.first * self._shard, (span.first,)) for array in arrays]
            steps.step(locations, span.count * self._shard, WEIGHT_DECAY)
        steps.biases(layer)
        self.refresh()

    def _at_once(self, arrays: int, rows: int, sets: int = 2) -> int:
        """Give how many columns of rows are worked on at a time if a vector needs so many in each set of buffers."""
        return max(1, self._config.scratch_depth // (sets * arrays * rows))

    def _columns(self, most: int) -> Iterator[Span]:
        """Go through the columns of all rows, at most so many at a time."""
        yield from spans(self._arrays.tiling.inputs.padded + self._arrays.tiling.units.padded, most)

    def refresh(self) -> None:
        """Append what makes integers of the weights."""
        self._emitter.join_parts()
        self._find_exponents()
        self._quantise()

    def _load(self, to: Operand, span: Span, rows: Span | None = None) -> None:
        """Bring the weights of some columns, and of all rows or some, [column][row]."""
        rows = rows or Span(0, self._rows)
        for part in range(self._arrays.tiling.parts):
            first = max(rows.first, part * self._shard)
            count = min(rows.first + rows.count, (part + 1) * self._shard) - first
            if count > 0:
                location = Location(self._layer.weights, span.first * self._shard + first - part * self._shard)
                self._load_shard(to.at(first - rows.first), rows.count, location, part, span.count, count)

    def _load_shard(self, to: Operand, pitch: int, source: Location, part: int, columns: int, rows: int) -> None:
        """Bring some rows of a group's shard: those of a column beside each other, columns `pitch` vectors apart."""
        group = part if self._arrays.tiling.parts > 1 else None
        load = partial(self._emitter.load, kind=Traffic.WEIGHTS, group=group)
        if rows == self._shard == pitch:
            load(to, source, outer=1, inner=columns * rows)
        elif rows == self._shard:
            load(to.at(0, outer=pitch), source, outer=columns, inner=rows)
        else:
            for column in range(columns):
                load(to.at(column * pitch), source.at(column * self._shard), outer=1, inner=rows)

    def _find_exponents(self) -> None:
        """Find the largest weight of each row; store the exponents."""
        scratch, emitter, rows = Scratch(self._config), self._emitter, self._rows
        largest, most = scratch.take("the largest weights", rows), self._at_once(2, self._rows)
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
        """Make integers of the weights, a group of columns after the other, for the rows' and the columns' owners."""
        scratch, emitter, tiling = Scratch(self._config), self._emitter, self._arrays.tiling
        exponents = Exponents(emitter, scratch, self._arrays)
        exponents.begin()
        self._places = exponents.take()
        exponents.with_rows(self._places, Constant.PLACES, minus=True)
        of_unit = tiling.gates * (tiling.block + self._config.lanes) + tiling.block  # weights, words of both kinds
        sets = 2 if scratch.left >= 2 * of_unit else 1  # one is loaded while the other is worked on
        units = max(1, min(tiling.units.tiles, scratch.left // (sets * of_unit)))
        self._sets = [
            _Buffers(
                scratch.take("weights", tiling.gates * units * tiling.block),
                scratch.take("words of rows", units * tiling.block),
                scratch.take("words of columns", tiling.gates * units * self._config.lanes),
            )
            for _ in range(sets)
        ]
        self._turn = 0
        for operand in OPERANDS:
            for channel in range(tiling.columns_of(operand).channels):
                for group in range(tiling.groups_of(operand)):
                    for some in spans(tiling.units.tiles, units):
                        self._quantise_group(operand, channel, group, some)

    def _quantise_group(self, operand: str, channel: int, group: int, units: Span) -> None:
        """Quantise the weights of a group of columns, and of some tiles of units."""
        tiling, partition = self._arrays.tiling, self._arrays.tiling.columns_of(operand)
        first_tile = WORD_BYTES * group
        tiles = range(first_tile, min(first_tile + WORD_BYTES, partition.tiles))
        before = 0 if operand == "x" else tiling.inputs.padded
        column = before + channel * partition.per_channel + first_tile * partition.lanes
        columns = sum(map(partition.lanes_of, tiles))
        rows = Span(tiling.gates * units.first, tiling.gates * units.count)
        buffers = self._sets[self._turn % len(self._sets)]
        self._turn += 1
        self._load(buffers.weights, Span(column, columns), rows)
        element = (channel * tiling.groups_of(operand) + group) * tiling.block
        for number in range(units.count):
            unit = units.first + number
            values = buffers.weights.at(tiling.gates * number, outer=rows.count, inner=1)
            places = self._places.at(tiling.gates * unit, outer=0, inner=1)
            of_unit = buffers.of_rows.at(number * tiling.block)
            self._make_bytes(of_unit.at(0, outer=1, inner=0), values, places, columns, tiling.gates)
            location = self._arrays.rows[operand].at(unit, element)
            self._emitter.store(of_unit, location, Traffic.WEIGHTS, 1, columns)
        to = self._arrays.columns[operand].at(group, rows.first * self._config.lanes)
        self._give(to, channel, rows, columns, buffers)

    def _make_bytes(self, to: Operand, values: Operand, places: Operand, outer: int, inner: int) -> None:
        op = VectorOp.BYTES
        self._emitter.vector(op, to, values, places, outer=outer, inner=inner, bits=WEIGHT_BITS)

    def _give(self, to: Location, channel: int, rows: Span, columns: int, buffers: _Buffers) -> None:
        """Make words of a group of columns, and transpose them into the window of their owner, [row].

        Byte k of lane l is column k·lanes + l of the group.
        """
        beats, lanes = self._config.vector_beats, self._config.lanes
        whole, rest = divmod(columns, lanes)
        places = self._places.at(rows.first, outer=1, inner=0)
        for lane in range(min(columns, lanes)):
            values = buffers.weights.at(lane * rows.count, outer=1, inner=lanes * rows.count)
            words = buffers.of_columns.at(lane, outer=lanes, inner=0)
            self._make_bytes(words, values, places, rows.count, whole + (lane < rest))
        self._emitter.transpose(
            buffers.of_columns.at(0, outer=lanes, inner=1), to, gates=rows.count,
            target=channel, beat=0, rows=min(columns, lanes), lanes=lanes, outer_beats=lanes * beats,
            lane_beats=beats, channel_beats=self._arrays.tiling.rows * lanes * beats, read_here=True,
        )  # fmt: skip
