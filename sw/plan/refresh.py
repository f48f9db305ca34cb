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

    Members
    -------
    most_rows : int
        Rows of the largest square.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._config, self._emitter, self._layer = config, emitter, layer
        self._gates = layer.tiling.gates
        self.most_rows = self._gates * config.beat_words

    def squares(self) -> Iterator[Square]:
        """Go through all rows: as many units at a time as a transposer's square has rows."""
        units, row = self._layer.tiling.units, 0
        for owner in range(units.channels):
            for first in range(0, units.share, self._config.beat_words):
                count = min(self._config.beat_words, units.share - first)
                rows = range(row, row + self._gates * count)
                yield Square(owner, first, count, rows)
                row = rows.stop

    def write(self, columns: Columns, weights: Operand, square: Square) -> None:
        """Write the rows of a square, transposed, into their owner's row copy."""
        config, tiling = self._config, self._layer.tiling
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
