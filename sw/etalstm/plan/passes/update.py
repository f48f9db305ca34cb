"""Programs of the optimiser: SGD with momentum, weight decay and clipping, and the refresh of the passes' copies.

Several groups of channels each update their shard of the weights, then all exchange them::

    update:  weights (own column copy), gradient, velocity ── step ──► exchange, velocity
    spread:  every group's part of the exchange ──► own column copy, and transposed own row copy

Where the copies are narrow, each group has the weights of its shard, as it has their gradient and velocity. They are
updated in place, and the others read them there: no exchange is needed.

Groups wait for each other only before they read what others have updated. Meanwhile they update the next column span.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.operands import Location, Operand, Parameter, Scratch
from etalstm.plan.memory.shards import Columns
from etalstm.plan.memory.tiling import UPDATE_ARRAYS, UPDATE_SETS
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp

Free = Sequence[Operand]  # vectors that nothing reads, as many as a square has, twice


@dataclass(frozen=True)
class Square:
    """Units whose rows are transposed together, and these rows.

    `owner` is the channel, in its group, that owns the units: `first` of its own, and how many.
    """

    owner: int
    first: int
    units: int
    rows: range


class Refresh:
    """Writes updated rows of a layer into the row copies of their units' owners, and into a narrow column copy.

    Narrow copies are packed first. The row copy has pairs of a unit's rows, so pairs of rows are packed; the column
    copy has pairs of column tiles.

    All channels go through the owners in the same order, so one memory takes what all of them write: an instruction is
    the same for all, and has no address that rotates with the channel.

    `columns` are those that are written. A square may take so many vectors of the scratch memory as `room`. Without
    room for more, squares are the smallest ones. `most_vectors`: of the largest square.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, columns: Columns, room: int = 0):
        self._config, self._emitter, self._layer, self._columns = config, emitter, layer, columns
        self._gates, self._narrow = layer.tiling.gates, layer.tiling.narrow
        self._of_unit = layer.tiling.weight_vectors(self._gates)  # rows of a unit as the row copy has them
        of_unit = self._gates * columns.count
        self._most_units = _units_of_a_square(config, room // of_unit)
        self.most_vectors = of_unit * self._most_units

    def squares(self) -> Iterator[Square]:
        """Go through all rows, as many units at a time as there is room for."""
        units, row = self._layer.tiling.units, 0
        for owner in range(units.channels):
            for first in range(0, units.per_channel, self._most_units):
                count = min(self._most_units, units.per_channel - first)
                rows = range(row, row + self._gates * count)
                yield Square(owner, first, count, rows)
                row = rows.stop

    def write(self, weights: Operand, square: Square, free: Free) -> None:
        """Write the rows of a square into the copies; a column copy that is not narrow is the weights themselves."""
        if self._narrow:
            packed_rows, packed_columns = free
            self._pack_columns(weights, packed_columns, square)
            self._pack_rows(weights, packed_rows, square)
            weights = packed_rows
        self._transpose(weights, square)

    def _pack_columns(self, weights: Operand, packed: Operand, square: Square) -> None:
        """Pack pairs of neighbouring column tiles, and store them in the column copy."""
        rows, count = len(square.rows), self._columns.count
        of_row, pack = self._layer.tiling.weight_vectors(count), self._emitter.vector
        if pairs := count // 2:
            low, high = (weights.at(half, outer=count, inner=2) for half in range(2))
            pack(VectorOp.PACK, packed.at(0, outer=of_row), low, high, outer=rows, inner=pairs)
        if count % 2:
            last = weights.at(count - 1, inner=count)
            pack(VectorOp.PACK, packed.at(of_row - 1, inner=of_row), last, ZERO, inner=rows)
        vector = self._columns.first + square.rows.start * of_row
        self._emitter.store(packed, Location(self._layer.columns, vector, (vector,)), Traffic.WEIGHTS, 1, rows * of_row)

    def _pack_rows(self, weights: Operand, packed: Operand, square: Square) -> None:
        pairs, count = len(square.rows) // 2, self._columns.count
        low, high = (weights.at(half * count, outer=2 * count) for half in range(2))
        self._emitter.vector(VectorOp.PACK, packed.at(0, outer=count), low, high, outer=pairs, inner=count)

    def _transpose(self, weights: Operand, square: Square) -> None:
        """Write the rows of a square, or pairs of them, transposed into their owner's row copy."""
        config, columns, tiling = self._config, self._columns, self._layer.tiling
        tile, lane = divmod(square.first, tiling.units.lanes)
        base, of_unit = 0, self._of_unit
        for span in tiling.unit_spans:
            if tile < span.first + span.count:
                break
            base += tiling.depth * of_unit * span.count
        stride = of_unit * span.count  # vectors from one column to the next
        to_column = stride * config.vector_beats
        for position in range(columns.count):
            column = columns.first_tile + position
            of_units = column >= tiling.inputs.tiles
            partition = tiling.units if of_units else tiling.inputs
            before, padded = (tiling.inputs.tiles, tiling.inputs.padded) if of_units else (0, 0)
            start = (column - before) * partition.lanes + padded
            vector = base + start * stride + of_unit * (tile - span.first)
            self._emitter.transpose(
                weights.at(position, outer=columns.count, inner=of_unit * columns.count),
                Location(self._layer.rows, vector), gates=of_unit, target=square.owner, beat=lane // config.beat_words,
                rows=square.units, lanes=tiling.lanes_of_column(column), outer_beats=config.vector_beats,
                lane_beats=to_column, channel_beats=partition.per_channel * to_column,
            )  # fmt: skip


def _units_of_a_square(config: Config, most: int) -> int:
    """Give how many units are transposed together, at most `most` of them if that is possible.

    Their words of a row are one burst: the longer it is, the fewer responses the memory owes. A square is a tile, or a
    half of one, and so on. So no square crosses the end of a tile, and each begins with a beat.
    """
    units = config.lanes
    while units > max(most, config.beat_words):
        units //= 2
    return units


SCALE = Parameter(contract.PARAMETER_SCALE)
WEIGHT_DECAY = Parameter(contract.PARAMETER_WEIGHT_DECAY)
MOMENTUM = Parameter(contract.PARAMETER_MOMENTUM)
MINUS_LEARNING_RATE = Parameter(contract.PARAMETER_MINUS_LEARNING_RATE)


class UpdateSteps:
    """Emits updates of some vectors at a time. Sets of buffers take turns, as many as the scratch memory holds.

    `most`: vectors at a time; `sets`: sets at most.
    """

    def __init__(self, config: Config, emitter: Emitter, most: int, sets: int = UPDATE_SETS):
        self._emitter, self.most, self._turn = emitter, most, 0
        sets = max(1, min(sets, config.scratch_depth // (UPDATE_ARRAYS * most)))
        scratch = Scratch(config)
        names = ("weights", "gradients", "velocities", "decayed weights")
        self._sets = [tuple(scratch.take(name, most) for name in names) for _ in range(sets)]

    def step(
        self, state: Iterable[Location], count: int, decay: Parameter, updated: Location | None = None,
        group_stride: int = 0,
    ) -> tuple[Operand, Free]:  # fmt: skip
        """Update `count` vectors; the weights stay in the scratch memory. Gives their operand, and free vectors.

        `state` are weights, gradient and velocity. The new weights go to `updated`; by default they replace the old
        ones. `group_stride`, of the old weights: see :meth:`etalstm.plan.program.emit.Emitter.load`.
        """
        emitter, (weights, gradient, velocity) = self._emitter, state
        w, g, v, decayed = self._sets[self._turn % len(self._sets)]
        self._turn += 1
        emitter.load(w, weights, Traffic.WEIGHTS, 1, count, group_stride=group_stride)
        emitter.load(v, velocity, Traffic.WEIGHTS, 1, count)
        emitter.load(g, gradient, Traffic.WEIGHTS, 1, count)
        emitter.vector(VectorOp.MULTIPLY, decayed, w, decay, inner=count)
        run = partial(emitter.vector, VectorOp.ADD_SCALED, inner=count)
        run(g, g, decayed, bits=SCALE.number)
        run(v, v, g, bits=MOMENTUM.number)
        run(w, v, w, bits=MINUS_LEARNING_RATE.number)
        emitter.store(w, updated or weights, Traffic.WEIGHTS, 1, count)
        emitter.store(v, velocity, Traffic.WEIGHTS, 1, count)
        return w, (g, decayed)

    def biases(self, layer: LayerArrays) -> None:
        """Update a layer's bias."""
        total = layer.tiling.gates * layer.tiling.units.tiles
        for first in range(0, total, self.most):
            arrays = layer.bias, layer.bias_gradient, layer.bias_velocity
            locations = [Location(array, first, (first,)) for array in arrays]
            self.step(locations, min(self.most, total - first), ZERO)


class UpdateLayer:
    """Emits one layer's update by channels that are one group.

    As many units at a time as the smallest square has: their gates' rows of one column span are loaded with gradient
    and velocity, updated, stored, and written into the copies, see :class:`Refresh`. Larger squares would make longer
    bursts. But nothing overlaps with the reads of the first step and with the writes of the last one, so steps are
    short.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._layer = layer
        self._pieces = [(columns, Refresh(config, emitter, layer, columns)) for columns in layer.shards.columns]
        self._steps = UpdateSteps(config, emitter, max(refresh.most_vectors for _, refresh in self._pieces))

    def emit(self) -> None:
        """Append the layer's instructions."""
        layer = self._layer
        for columns, refresh in self._pieces:
            for units in refresh.squares():
                vector = columns.first_in_shard + units.rows.start * columns.count
                arrays = layer.weights, layer.gradient, layer.velocity
                locations = [Location(array, vector, (vector,)) for array in arrays]
                weights, free = self._steps.step(locations, len(units.rows) * columns.count, WEIGHT_DECAY)
                refresh.write(weights, units, free)
        self._steps.biases(layer)


_SETS = 2  # buffers that alternate: one is loaded while another is stored
_NARROW_BUFFERS = 3  # of each set: updated weights, and what is packed of them for each copy


class SharedUpdate:
    """Emits the update of all layers by several groups.

    `layers`: all stages of all layers.
    """

    def __init__(self, config: Config, emitter: Emitter, layers: list[LayerArrays]):
        steps = UpdateSteps(config, emitter, config.scratch_depth // (UPDATE_SETS * UPDATE_ARRAYS))
        self._layers, self._steps = layers, steps
        pieces = [(layer, columns) for layer in layers for columns in layer.shards.columns]
        self._pieces = [
            _ColumnSpan(config, emitter, steps, layer, columns, _updated(layer, columns, turn))
            for turn, (layer, columns) in enumerate(pieces)
        ]

    def emit(self) -> None:
        """Append the instructions: a column span is spread when the next one has been updated."""
        self._pieces[0].update()
        for before, piece in pairwise(self._pieces):
            piece.update()
            before.spread()
        self._pieces[-1].spread()
        for layer in self._layers:
            self._steps.biases(layer)


def _updated(layer: LayerArrays, columns: Columns, turn: int) -> Location:
    """Where groups store their updated weights of a column span: in the exchange, or where narrow in the weights."""
    if layer.tiling.narrow or not layer.exchange:
        return Location(layer.weights, columns.first_in_shard, (columns.number,))
    return Location(layer.exchange.updated(turn), 0)


class _ColumnSpan:
    """Emits both halves of the update of a layer's column span.

    `updated`: where the groups find its updated weights.
    """

    def __init__(
        self,
        config: Config,
        emitter: Emitter,
        steps: UpdateSteps,
        layer: LayerArrays,
        columns: Columns,
        updated: Location,
    ):
        self._emitter, self._steps, self._layer = emitter, steps, layer
        self._columns, self._updated, self._narrow = columns, updated, layer.tiling.narrow
        buffers = _NARROW_BUFFERS if self._narrow else 1
        self._refresh = Refresh(config, emitter, layer, columns, config.scratch_depth // (_SETS * buffers))
        scratch = Scratch(config)
        most = self._refresh.most_vectors
        self._sets = [[scratch.take("updated weights", most) for _ in range(buffers)] for _ in range(_SETS)]

    def update(self) -> None:
        """Update a group's rows."""
        layer, columns, most = self._layer, self._columns, self._steps.most

        def some(turn: int, count: int) -> None:
            vector = turn * most
            of_shard = columns.first_in_shard + vector
            state = (Location(array, of_shard, (of_shard,)) for array in (layer.gradient, layer.velocity))
            stride = 0 if self._narrow else layer.shards.stride * columns.count
            self._steps.step([self._weights(vector), *state], count, WEIGHT_DECAY, self._updated.at(vector), stride)

        self._emitter.in_turns(layer.shards.rows * columns.count, most, some)

    def _weights(self, vector: int) -> Location:
        """Where the weights lie before the update, from a vector of the first group's rows on.

        Weights that are updated in place are read before they are stored, because the update depends on them. So their
        loads have a section of their own, and wait for no earlier store.
        """
        if self._narrow:
            location = self._updated.at(vector)
            return Location(location.array, location.vector, (*location.section, "before"))
        return Location(self._layer.columns, self._columns.first + vector, (self._columns.number,))

    def spread(self) -> None:
        """Take over all updated rows from the groups that have them."""
        columns = self._columns
        for number, square in enumerate(self._refresh.squares()):
            buffer, *free = self._sets[number % _SETS]
            self._load(square, buffer)
            if not self._narrow:
                first, count = (n * columns.count for n in (square.rows.start, len(square.rows)))
                location = Location(self._layer.columns, columns.first + first, (columns.number,))
                self._emitter.store(buffer, location, Traffic.WEIGHTS, 1, count, made_of=self._updated.array)
            self._refresh.write(buffer, square, free)

    def _load(self, square: Square, buffer: Operand) -> None:
        shards, rows, count = self._layer.shards, square.rows, self._columns.count
        for group, some in shards.owners(rows):
            row = some.start - shards.rows_of(group).start
            to = buffer.at((some.start - rows.start) * count)
            self._emitter.load(to, self._updated.at(row * count), Traffic.WEIGHTS, 1, len(some) * count, group=group)
