"""Products of arrays of integers and matrices: which piece is sent when, and which weights are brought for it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from etalstm.errors import PlanError
from etalstm.plan.memory.digits import Packed
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.integer_tiling import Sent
from etalstm.plan.memory.operands import Location, Operand, Parameter
from etalstm.plan.memory.tiling import Span, ceil_div, cut, spans
from etalstm.plan.passes.propagation import Emit, emit_all
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp


@dataclass(frozen=True)
class Broadcast:
    """An array that is sent.

    Members
    -------
    location : Location    of its first block in every channel's window
    channel : int          that has the first block
    of_channel, blocks : int    blocks of a channel; blocks in all
    sequences : int
    wide : bool            numbers have two digits
    kind, weights : Traffic    what it counts as, and what it is multiplied by
    """

    location: Location
    channel: int
    of_channel: int
    blocks: int
    sequences: int
    wide: bool
    kind: Traffic
    weights: Traffic = Traffic.WEIGHTS


@dataclass(frozen=True)
class Share:
    """An array that shares loads of weights with others, and where its sums lie, tile by tile."""

    array: Broadcast
    sums: Operand


class Group(Protocol):
    """Four vectors whose weights of an element are a vector of words."""

    @property
    def key(self) -> tuple:
        """What tells it from others."""

    @property
    def elements(self) -> int:
        """Elements that there are."""

    def bring(self, emitter: Emitter, to: Operand, elements: range, kind: Traffic) -> None:
        """Load the weights of some elements: of each to the next vector of `to`."""


@dataclass(frozen=True)
class WeightGroup:
    """A group of a matrix of weights."""

    packed: Packed
    number: int

    @property
    def key(self) -> tuple:
        """Its array and number."""
        return self.packed.array.name, self.number

    @property
    def elements(self) -> int:
        """Elements of the matrix."""
        return self.packed.elements

    def bring(self, emitter: Emitter, to: Operand, elements: range, kind: Traffic) -> None:
        """Load them at once."""
        emitter.load(to, self.packed.at(self.number, elements.start), kind, 1, len(elements))


@dataclass(frozen=True)
class OperandGroup:
    """A group of x or of the other operand, by which δ is multiplied: elements are parts, steps and sequences."""

    arrays: IntegerArrays
    operand: str
    number: int

    @property
    def key(self) -> tuple:
        """Its array, the first entry and its number."""
        numbers = self.arrays.operands[self.operand]
        return numbers.digits.sent.array.name, numbers.first, self.number

    @property
    def elements(self) -> int:
        """Of all parts of the batch and all steps, sequences that are not there included."""
        tiling = self.arrays.tiling
        return tiling.parts * tiling.steps * tiling.pair_blocks * tiling.block

    def bring(self, emitter: Emitter, to: Operand, elements: range, kind: Traffic) -> None:
        """Load those of each part, step and batch tile at once. Elements begin and end with a block."""
        tiling, numbers = self.arrays.tiling, self.arrays.operands[self.operand]
        pair = tiling.tile_blocks * tiling.block
        for number in range(elements.start // pair, ceil_div(elements.stop, pair)):
            entry, batch_tile = divmod(number, tiling.batch.count)
            part, step = divmod(entry, tiling.steps)
            first = max(elements.start - number * pair, 0)
            end = min(elements.stop - number * pair, tiling.batch.size_of(batch_tile))
            if first < end:
                location = numbers.digits.at(step + numbers.first, batch_tile, self.number).at(first)
                place = number * pair + first - elements.start
                group = part if tiling.parts > 1 else None
                emitter.load(to.at(place * to.inner), location, kind, 1, end - first, group=group)


@dataclass(frozen=True)
class Columns:
    """Vectors that sums are made for, from an element of theirs on, which meets the first one that is sent."""

    groups: tuple[Group, ...]
    element: int = 0

    @property
    def key(self) -> tuple:
        """What tells its groups from others."""
        return tuple(group.key for group in self.groups)

    @property
    def elements(self) -> int:
        """Elements that there are."""
        return self.groups[0].elements


_AT_ONCE = 1024  # vectors of weights: others that come in order do not wait for more
_AHEAD = 2  # arrays that are asked for before those in front of them are multiplied


@dataclass(frozen=True)
class Piece:
    """A product: what sends an array, and what multiplies it. Its weights are brought before."""

    send: Emit
    multiply: Emit

    def __call__(self) -> None:
        """Emit both."""
        self.send()
        self.multiply()


@dataclass(frozen=True)
class Weights:
    """What brings a group's weights for the products that follow."""

    bring: Emit

    def __call__(self) -> None:
        """Bring them."""
        self.bring()


def sent_early(emits: Iterable[Emit]) -> list[Emit]:
    """Have the array of each piece asked for before the pieces in front of it are multiplied.

    A product's weights are loaded when there is room for them. An array that is asked for only then comes late.
    """
    emits = list(emits)
    sends = [emit.send for emit in emits if isinstance(emit, Piece)]
    result, number = take_weights(emits) + sends[: 1 + _AHEAD], 0
    for emit in emits:
        if isinstance(emit, Piece):
            result.append(emit.multiply)
            number += 1
            result += sends[number + _AHEAD : number + _AHEAD + 1]
        else:
            result.append(emit)
    return result


def mixed(emits: Sequence[Emit], others: Sequence[Emit]) -> Iterator[Emit]:
    """Spread others evenly over some: each comes behind one of these. ``ValueError`` if there are none of these."""
    if others and not emits:
        raise ValueError("there is nothing to spread others over")
    for n, emit in enumerate(emits):
        yield emit
        yield from others[len(others) * n // len(emits) : len(others) * (n + 1) // len(emits)]


def take_weights(emits: list[Emit]) -> list[Emit]:
    """Take from a list what brings weights before its first product."""
    count = next((n for n, emit in enumerate(emits) if not isinstance(emit, Weights)), len(emits))
    taken, emits[:] = emits[:count], emits[count:]
    return taken


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
        emit_all(self._bring(columns, range(columns.elements), to, kind))
        self._kept[columns.key] = to
        self._first += self._vectors(columns)

    def multiply(
        self, shares: Sequence[Share], columns: Columns, *, adds: bool = False, backward: bool = False
    ) -> list[Emit]:
        """Give what sums the products of arrays and a matrix, added to others or not.

        Some of the weights are brought once for all arrays, which differ in their sequences alone.
        """
        block = self._sent.block
        kept, array = self._kept.get(columns.key), shares[0].array
        most = min(self._sent.most_blocks(share.array.sequences, array.wide) for share in shares)
        tiles = ceil_div(len(columns.groups), self._of_row)
        if kept is None:
            at_once = (self._end - self._first) // 2 // self._of_row // block
            if not at_once:
                raise PlanError(
                    f"weight_depth of {self._config.weight_depth} is too small: a block of {block} elements needs "
                    f"{2 * block * self._of_row} vectors"
                )
            most, tiles = min(most, max(1, at_once // tiles)), min(tiles, at_once)
        weights, products = list[list[Emit]](), list[list[Emit]]()
        for some in cut(len(columns.groups), tiles * self._of_row):
            of_some = Columns(columns.groups[some.first : some.first + some.count], columns.element)
            first = some.first // self._of_row
            after = [Share(each.array, each.sums.at(first * self.of_tile(each.array.sequences))) for each in shares]
            for blocks in spans(array.blocks, most):
                brings, pieces = self._multiply(after, blocks, of_some, kept, adds, backward)
                weights.append(brings)
                products.append(pieces)
        following = [*weights[1:], []]
        return weights[0] + [emit for pair in zip(products, following, strict=True) for emit in mixed(*pair)]

    def _multiply(
        self, shares: Sequence[Share], blocks: Span, columns: Columns, kept: Operand | None, adds: bool, backward: bool
    ) -> tuple[list[Emit], list[Emit]]:
        """Give what brings the weights for some blocks, and their products of each array."""
        block, tiles = self._sent.block, ceil_div(len(columns.groups), self._of_row)
        first = columns.element + blocks.first * block
        brings, pieces = list[Emit](), list[Emit]()
        if kept is None:
            rows = blocks.count * block
            half = (self._end - self._first) // 2 // self._of_row * self._of_row
            weights = Operand(Memory.WEIGHTS, self._first + self._turn % 2 * half)
            self._turn += 1
            kind = shares[0].array.weights
            brings = self._bring(columns, range(first, first + rows), weights, kind)
        else:
            rows, weights = columns.elements, kept.at(first * self._of_row)
        touched = ((tiles - 1) * rows + blocks.count * block) * self._of_row
        adds, apart = adds or blocks.first > 0, rows if tiles > 1 else 0
        for share in shares:
            product = partial(
                self._emitter.product, weights, touched, apart, share.sums,
                tiles * self.of_tile(share.array.sequences), adds=adds, backward=backward,
            )  # fmt: skip
            pieces.append(Piece(partial(self._send, share.array, blocks, tiles), product))
        return brings, pieces

    def _send(self, array: Broadcast, piece: Span, tiles: int) -> None:
        """Send some blocks, once for each tile."""
        channel, tile = divmod(piece.first, array.of_channel)
        self._emitter.send(
            array.location, array.kind, channel=array.channel + channel, tile=tile, tiles=array.of_channel,
            blocks=piece.count, sequences=array.sequences, wide=array.wide, repeats=tiles,
        )  # fmt: skip

    def of_tile(self, sequences: int) -> int:
        """Vectors of the sums of a tile in a stream, for so many sequences."""
        return self._config.tile_sums * self._config.of_stream(sequences)

    def _bring(self, columns: Columns, elements: range, to: Operand, kind: Traffic) -> list[Emit]:
        """Give what loads the groups of a tile side by side, tile by tile."""
        brings = list[Emit]()
        for number, group in enumerate(columns.groups):
            tile, place = divmod(number, self._of_row)
            lane = to.at(tile * len(elements) * self._of_row + place, outer=1, inner=self._of_row)
            for some in cut(len(elements), _AT_ONCE):
                to_some, first = lane.at(some.first * self._of_row), elements.start + some.first
                of_some = range(first, first + some.count)
                brings.append(Weights(partial(group.bring, self._emitter, to_some, of_some, kind)))
        return brings

    def _vectors(self, columns: Columns) -> int:
        return ceil_div(len(columns.groups), self._of_row) * self._of_row * columns.elements


def take_sums(
    emitter: Emitter, config: Config, op: VectorOp, to: Operand, sums: Operand, other: Operand | Parameter, rows: int,
    size: int,
) -> None:  # fmt: skip
    """Do an operation on the sums of so many vectors of a tile, and of `size` sequences, to [vector][b].

    `other` has an operand for each vector and sequence, as its strides say.
    """
    own = config.of_stream(size)
    for number, some in enumerate(cut(size, own)):
        source = sums.at(number * config.queue_depth, outer=1, inner=config.tile_sums)
        result = to.at(some.first, outer=size)
        b = other.at(some.first * other.inner) if isinstance(other, Operand) else other
        emitter.vector(op, result, source, b, outer=rows, inner=some.count)


def convert(
    emitter: Emitter, config: Config, to: Operand, sums: Operand, exponents: Operand | Parameter, rows: int, size: int
) -> None:
    """Convert sums, as :func:`take_sums` does.

    Each vector has an exponent, or all share one.
    """
    if isinstance(exponents, Operand):
        exponents = exponents.at(0, outer=min(1, exponents.inner), inner=0)
    take_sums(emitter, config, VectorOp.CONVERT, to, sums, exponents, rows, size)
