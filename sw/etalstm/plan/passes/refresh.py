"""The copies of updated weights: their rows transposed, and packed if copies are narrow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.operands import Operand, Place
from etalstm.plan.memory.shards import Columns
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp

Free = Sequence[Operand]  # vectors that nothing reads, as many as a square has, twice


@dataclass(frozen=True)
class Square:
    """Units whose rows are transposed together, and these rows.

    Members
    -------
    owner : int
        The channel, in its group, that owns the units.
    first, units : int
        Of the owner's units, and how many.
    rows : range
        Of the matrix.
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

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    columns : Columns
        The column group whose columns are written.
    room : int, optional
        Vectors of the scratch memory that a square may take. Without room for more, squares are the smallest ones.

    Members
    -------
    most_vectors : int
        Of the largest square.
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
            for first in range(0, units.share, self._most_units):
                count = min(self._most_units, units.share - first)
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
        self._emitter.store(packed, Place(self._layer.columns, vector, (vector,)), Traffic.WEIGHTS, 1, rows * of_row)

    def _pack_rows(self, weights: Operand, packed: Operand, square: Square) -> None:
        """Pack pairs of neighbouring rows, which are of one unit."""
        pairs, count = len(square.rows) // 2, self._columns.count
        low, high = (weights.at(half * count, outer=2 * count) for half in range(2))
        self._emitter.vector(VectorOp.PACK, packed.at(0, outer=count), low, high, outer=pairs, inner=count)

    def _transpose(self, weights: Operand, square: Square) -> None:
        """Write the rows of a square, or pairs of them, transposed into their owner's row copy."""
        config, columns, tiling = self._config, self._columns, self._layer.tiling
        tile, lane = divmod(square.first, tiling.units.lanes)
        base, of_unit = 0, self._of_unit
        for group in tiling.unit_groups:
            if tile < group.first + group.count:
                break
            base += tiling.depth * of_unit * group.count
        stride = of_unit * group.count  # vectors from one column to the next
        for position in range(columns.count):
            column = columns.first_tile + position
            of_units = column >= tiling.inputs.tiles
            share = tiling.units if of_units else tiling.inputs
            start = (
                (column - tiling.inputs.tiles) * share.lanes + tiling.inputs.padded
                if of_units
                else (column * share.lanes)
            )
            vector = base + start * stride + of_unit * (tile - group.first)
            self._emitter.transpose(
                weights.at(position, outer=columns.count, inner=of_unit * columns.count),
                Place(self._layer.rows, vector),
                gates=of_unit,
                target=square.owner,
                beat=lane // config.beat_words,
                rows=square.units,
                lanes=tiling.lanes_of_column(column),
                outer_beats=config.vector_beats,
                lane_beats=stride * config.vector_beats,
                channel_beats=share.share * stride * config.vector_beats,
            )


def _units_of_a_square(config: Config, most: int) -> int:
    """Give how many units are transposed together, at most `most` of them if that is possible.

    Their words of a row are one burst: the longer it is, the fewer responses the memory owes. A square is a tile, or a
    half of one, and so on. So no square crosses the end of a tile, and each begins with a beat.
    """
    units = config.lanes
    while units > max(most, config.beat_words):
        units //= 2
    return units
