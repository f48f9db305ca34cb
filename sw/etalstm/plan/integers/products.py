"""Products of arrays of integers and matrices: which piece is sent when, and which weights are brought for it."""

from collections.abc import Iterator
from dataclasses import dataclass

from etalstm.errors import PlanError
from etalstm.plan.memory.integer_arrays import Packed
from etalstm.plan.memory.integer_tiling import Sent
from etalstm.plan.memory.operands import Location, Operand
from etalstm.plan.memory.tiling import Span, ceil_div, spans
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic


@dataclass(frozen=True)
class Broadcast:
    """An array that is sent.

    Members
    -------
    location : Location    of its first block in every channel's window
    channel : int          that has the first block
    tiles, blocks : int    blocks of a channel; blocks in all
    gates, sequences : int
    wide : bool            integers have up to two digits
    kind, weights : Traffic    what it counts as, and what it is multiplied by
    """

    location: Location
    channel: int
    tiles: int
    blocks: int
    gates: int
    sequences: int
    wide: bool
    kind: Traffic
    weights: Traffic = Traffic.WEIGHTS


@dataclass(frozen=True)
class Columns:
    """Vectors that sums are made for: some groups of a matrix, from an element of its on.

    Members
    -------
    packed : Packed
    groups : Span
    element : int    of the matrix that meets the first one that is sent
    """

    packed: Packed
    groups: Span
    element: int = 0


class Multiplier:
    """Emits products, with weights in the weight memory from vector `first` on, `depth` of them.

    Matrices that :meth:`keep` has room for are brought once. Of others the weights of a piece of the array are brought
    each time, into halves of what is left of the memory that take turns.
    """

    def __init__(self, config: Config, emitter: Emitter, first: int = 0, depth: int | None = None):
        self._config, self._emitter, self._sent = config, emitter, Sent(config)
        self._first, self._end = first, first + (config.weight_depth if depth is None else depth)
        self._of_row, self._turn = config.row_vectors, 0
        self._kept: dict[tuple, Operand] = {}

    def fits(self, *matrices: Columns) -> bool:
        """Tell whether all of some matrices fit the memory."""
        return self._first + sum(map(self._vectors, matrices)) <= self._end

    def keep(self, columns: Columns, kind: Traffic = Traffic.WEIGHTS) -> None:
        """Bring a matrix that stays; :meth:`fits` has told that there is room."""
        to = Operand(Memory.WEIGHTS, self._first)
        self._bring(columns, range(columns.packed.elements), to, kind)
        self._kept[_key(columns)] = to
        self._first += self._vectors(columns)

    def multiply(
        self, array: Broadcast, columns: Columns, sums: Operand, *, adds: bool = False, backward: bool = False
    ) -> None:
        """Sum the products of an array and a matrix: sums of its tiles follow each other, added to others or not."""
        block = array.gates * self._config.lanes  # elements
        kept = self._kept.get(_key(columns))
        most = self._sent.most_blocks(array.gates, array.sequences)
        tiles = ceil_div(columns.groups.count, self._of_row)
        if kept is None:
            at_once = (self._end - self._first) // 2 // self._of_row // block
            if not at_once:
                raise PlanError(
                    f"weight_depth of {self._config.weight_depth} is too small: a block of {block} elements needs "
                    f"{2 * block * self._of_row} vectors"
                )
            most, tiles = min(most, max(1, at_once // tiles)), min(tiles, at_once)
        for some in self._cut(columns.groups, tiles):
            for piece in spans(array.blocks, most):
                self._piece(array, piece, Columns(columns.packed, some, columns.element), kept, sums, adds, backward)
            sums = sums.at(ceil_div(some.count, self._of_row) * self._of_tile(array))

    def _piece(
        self, array: Broadcast, piece: Span, columns: Columns, kept: Operand | None, sums: Operand, adds: bool,
        backward: bool,
    ) -> None:  # fmt: skip
        """Send some blocks, and multiply them."""
        block, tiles = array.gates * self._config.lanes, ceil_div(columns.groups.count, self._of_row)
        first = columns.element + piece.first * block
        if kept is None:
            rows = piece.count * block
            half = (self._end - self._first) // 2 // self._of_row * self._of_row
            weights = Operand(Memory.WEIGHTS, self._first + self._turn % 2 * half)
            self._turn += 1
            self._bring(columns, range(first, first + rows), weights, array.weights)
        else:
            rows, weights = columns.packed.elements, kept.at(first * self._of_row)
        channel, tile = divmod(piece.first, array.tiles)
        self._emitter.send(
            array.location, array.kind, channel=array.channel + channel, tile=tile, tiles=array.tiles,
            blocks=piece.count, gates=array.gates, sequences=array.sequences, wide=array.wide, repeats=tiles,
        )  # fmt: skip
        touched = ((tiles - 1) * rows + piece.count * block) * self._of_row
        summed = tiles * self._of_tile(array)
        adds = adds or piece.first > 0
        self._emitter.product(weights, touched, rows, sums, summed, adds=adds, backward=backward)

    def _of_tile(self, array: Broadcast) -> int:
        """Vectors of the sums of a tile."""
        return self._config.tile_sums * self._config.summed(array.sequences)

    def _bring(self, columns: Columns, elements: range, to: Operand, kind: Traffic) -> None:
        """Load the groups of a tile side by side, tile by tile."""
        for number in range(columns.groups.count):
            tile, place = divmod(number, self._of_row)
            lane = to.at(tile * len(elements) * self._of_row + place, outer=1, inner=self._of_row)
            source = columns.packed.at(columns.groups.first + number, elements.start)
            self._emitter.load(lane, source, kind, 1, len(elements))

    def _cut(self, groups: Span, tiles: int) -> Iterator[Span]:
        """Cut groups into as many as so many tiles have."""
        step = tiles * self._of_row
        for first in range(0, groups.count, step):
            yield Span(groups.first + first, min(step, groups.count - first))

    def _vectors(self, columns: Columns) -> int:
        return ceil_div(columns.groups.count, self._of_row) * self._of_row * columns.packed.elements


def _key(columns: Columns) -> tuple:
    return columns.packed.array.name, columns.groups
