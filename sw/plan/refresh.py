"""The row copies of the weights: rows of the column copy, transposed."""

from collections.abc import Iterator
from dataclasses import dataclass

from etalstm.hw.config import Config
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter
from etalstm.plan.operands import Operand, Place
from etalstm.plan.shards import Columns


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
        Of the column copy.
    """

    owner: int
    first: int
    units: int
    rows: range


class RowRefresh:
    """Writes updated rows of a layer into the row copies of their units' owners.

    All channels go through the owners in the same order, so one memory takes what all of them write: an instruction is
    the same for all, and has no address that rotates with the channel.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layer : LayerArrays
    columns : Columns
        The column group whose columns of the row copy are written.
    room : int, optional
        Vectors of the scratch memory that a square may take. Without room for more, squares are the smallest ones.

    Members
    -------
    most_vectors : int
        Of the largest square.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays, columns: Columns, room: int = 0):
        self._config, self._emitter, self._layer, self._columns = config, emitter, layer, columns
        self._gates = layer.tiling.gates
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

    def write(self, weights: Operand, square: Square) -> None:
        """Write the rows of a square, transposed, into their owner's row copy."""
        config, columns, tiling = self._config, self._columns, self._layer.tiling
        tile, lane = divmod(square.first, tiling.units.lanes)
        base = 0
        for group in tiling.unit_groups:
            if tile < group.first + group.count:
                break
            base += tiling.depth * self._gates * group.count
        stride = self._gates * group.count  # vectors from one column to the next
        for position in range(columns.count):
            column = columns.first_tile + position
            of_units = column >= tiling.inputs.tiles
            share = tiling.units if of_units else tiling.inputs
            start = (
                (column - tiling.inputs.tiles) * share.lanes + tiling.inputs.padded
                if of_units
                else (column * share.lanes)
            )
            vector = base + start * stride + self._gates * (tile - group.first)
            self._emitter.transpose(
                weights.at(position, outer=columns.count, inner=self._gates * columns.count),
                Place(self._layer.rows, vector),
                gates=self._gates,
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
