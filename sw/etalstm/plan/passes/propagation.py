"""Wᵀδ of a stage, and where the gradients of what it broadcast go."""

import math
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Operand, RowMap, Sequence
from etalstm.plan.memory.tiling import SPARSE_DELTA, Span, ceil_div, spans, stay
from etalstm.plan.passes.send import Collector
from etalstm.plan.passes.vectors import MINUS_ZERO
from etalstm.plan.passes.weights import Matrix, Run, WeightStore
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp, cast_sums

# Steps that share a load of weights at most. A loop's body has as many turns. With four, five of the six benchmark
# shapes take more cycles on the board, and larger programs.
MOST_STEPS = 3

Pair = tuple[int, int]  # step and batch tile

Emit = Callable[[], None]  # appends some instructions


def emit_all(*lists: list[Emit]) -> None:
    """Append what some functions emit, in order."""
    for emits in lists:
        for emit in emits:
            emit()


@dataclass(frozen=True)
class Masking:
    """What a stage has for sequences that have ended; of each scratch vector one for every sequence of a batch tile.

    Members
    -------
    masks, dh_sum : Sequence    the masks of all steps, and dy + dh of a step
    mask : Operand              0 for each sequence that has ended
    merged : Operand            a tile of dh
    passed : tuple of Operand
        Tiles of dh as they reached the step, loaded before their sums are there. There are several, so that such a load
        waits for no other tile's sums; it would hold up the weights behind it in the LOADs' queue. δ has no use for
        these vectors until all of dh is there.
    """

    masks: Sequence
    dh_sum: Sequence
    mask: Operand
    merged: Operand
    passed: tuple[Operand, ...]

    def bring(self, emitter: Emitter, step: int, batch_tile: int, size: int) -> None:
        """Load the mask of a step and batch tile."""
        emitter.load(self.mask, self.masks.at(step, batch_tile), Traffic.ACTIVATIONS, 1, size)


@dataclass(frozen=True)
class Collecting:
    """What collects the gradient of an operand, and scratch memory for that.

    Members
    -------
    vectors : tuple of Operand    its scratch vectors
    most : int                    tiles that it works on at a time at most
    """

    collector: Collector
    vectors: tuple[Operand, ...]
    most: int

    def cut(self, tiles: Span, sums: Operand) -> Iterator[tuple[Span, Operand]]:
        """Cut tiles, and their sums, into as many as are worked on at a time."""
        for span in spans(tiles.count, self.most):
            yield Span(tiles.first + span.first, span.count), sums.at(span.first)


Part = tuple[int, range]  # a step, and some batch tiles


class OperandGradients(Protocol):
    """What emits the sums Wᵀδ of a product; see :class:`Propagation`."""

    most_tiles: int
    steps: int

    def units(self, step: int, tiles: range) -> None:
        """Append the sums of the units' columns."""

    def inputs(self, step: int, tiles: range) -> None:
        """Append those of the inputs' columns."""

    def left(self, step: int) -> list[Emit]:
        """Give what stores sums that are not stored yet."""

    def delayed(self, done: Several[Part]) -> tuple[list[Emit], list[Emit]]:
        """Give products, and stores of sums, that run while the next δ is computed: of parts whose δ is there."""

    def ended(self, done: Several[Part]) -> list[Emit]:
        """Give what was delayed of the last parts, and is left when no δ follows."""

    def shared_inputs(self, steps: Several[int], number: int) -> tuple[list[Emit], list[Emit]]:
        """Give a piece of the sums of inputs that steps share."""

    def rest(self, steps: Several[int]) -> None:
        """Append what is left after the last step, but for what was delayed."""


class Propagation:
    """Emits the sums Wᵀδ of a stage: of its units' columns when δ of a step is there, of its inputs' columns later.

    No later step waits for the sums of the inputs. So they run while the next δ is computed. Weights that do not stay
    in the lanes are loaded for several batch tiles at once, and those of the inputs for several steps. These are as few
    as let the products of a vector of weights take as long as its load. The lanes must hold all their sums.

    Parameters
    ----------
    config : Config              the whole machine
    row_map : RowMap or None     which rows of weights the present δ needs, if that is known
    whole_beats : int            beats of weights that are brought before the map is known
    masking : Masking or None    where sequences may have ended; the stage has brought the mask
    of_x, of_operand : Collecting or None    where only changes of the operands are sent
    delays : bool    storing sums takes no vector that the next δ is made in, and no other stage waits for them

    Members
    -------
    most_tiles, steps : int    batch tiles that share loads of weights at most; and steps, for the inputs' columns
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, row_map: RowMap | None,
        whole_beats: int, masking: Masking | None, of_x: Collecting | None, of_operand: Collecting | None, delays: bool,
    ):  # fmt: skip
        self._emitter, self._layer, self._batch = emitter, layer, network.batch
        self._row_map, self._whole_beats = row_map, whole_beats
        self._masking, self._of_x, self._of_operand = masking, of_x, of_operand
        spans = [layer.tiling.weight_vectors(span.count) for span in layer.tiling.column_spans]
        self._columns = Matrix.whole(layer.columns, spans, layer.tiling.rows)
        self._weights = WeightStore(layer.lanes, emitter, [self._columns], layer.first_weight)
        self._half, self._turn = layer.lanes.queue_depth // 2, 0
        wanted, most, batch = self._sequences_per_load(config), self._most_sequences, network.batch
        self.most_tiles = max(1, min(ceil_div(wanted, batch.size), most // batch.size))
        sharing = min(MOST_STEPS, ceil_div(wanted, batch.batch), most // batch.batch)
        self.steps = max(1, sharing) if layer.tiling.input_spans else 1
        self._delays = delays and self.steps == 1 and self.most_tiles < batch.count
        self._left: list[Callable[[int], None]] = []

    def _sequences_per_load(self, config: Config) -> int:
        """Tell for how many sequences a load of weights should be used; 1 if weights are loaded only once."""
        tiling, lanes = self._layer.tiling, self._layer.lanes
        if stay(lanes, tiling.column_vectors, tiling.rows):
            return 1
        density = SPARSE_DELTA if self._layer.storage.compressed else 1
        products = density * (tiling.columns / tiling.column_vectors)  # of a vector, with each sequence
        return math.ceil(config.vector_beats * config.channels_per_port / products)

    @property
    def _most_sequences(self) -> int:
        """Sequences for whose sums the lanes, and the broadcaster, have room, in the widest column span."""
        lanes, widest = self._layer.lanes, max(span.count for span in self._layer.tiling.column_spans)
        return min(lanes.queue_depth // widest, cast_sums(lanes.lanes, lanes.broadcast_words))

    def units(self, step: int, tiles: range) -> None:
        """Sum the units' columns of some batch tiles for the step or stage before; their δ is the present one."""
        first = len(self._layer.tiling.input_spans)
        pairs = [(step, tile) for tile in tiles]
        for number, span in enumerate(self._layer.tiling.column_spans[first:], start=first):
            self._sum(number, span, pairs, self._row_map, self._whole_beats if number == first else 0)

    def inputs(self, step: int, tiles: range) -> None:
        """Sum the inputs' columns, which leave the layer, after those of the units; unless steps share loads."""
        if self.steps == 1:
            for number, span in enumerate(self._layer.tiling.input_spans):
                self._sum(number, span, [(step, tile) for tile in tiles], self._row_map)

    def left(self, step: int) -> list[Emit]:
        """Give what stores the sums of a step that are not stored yet.

        Where changes are collected, a store takes element-wise work, which waits for the sums. With several pairs of a
        step it comes after the next pair's δ, which has no use for these sums.
        """
        left, self._left = self._left, []
        return [partial(store, step) for store in left]

    def delayed(self, done: Several[Part]) -> tuple[list[Emit], list[Emit]]:
        """None are."""
        return [], []

    def ended(self, done: Several[Part]) -> list[Emit]:
        """Nothing is left."""
        return []

    def shared_inputs(self, steps: Several[int], number: int) -> tuple[list[Emit], list[Emit]]:
        """Give a piece of the inputs' sums of a block, which is `steps` steps that share loads.

        A block's work is cut into as many pieces as it has steps. Each step of the next block emits one of them.
        `steps` are all, in the order in which they are worked on. The units' columns of step `number` of them have just
        been summed. Gives what emits the products, run by run, and the stores that are left after all of them.
        """
        if self.steps == 1 or number < self.steps:
            return [], []
        block, piece = divmod(number, self.steps)
        return self._pieces(self._block(steps, block - 1), range(piece, piece + 1))

    def rest(self, steps: Several[int]) -> None:
        """Sum the inputs' columns that are left after the last step."""
        if self.steps == 1 or not steps:
            emit_all(*([self.left(steps[-1])] if steps else []))
            return
        block, piece = divmod(len(steps) - 1, self.steps)
        left = [(block - 1, range(piece, self.steps))] if block else []
        for number, pieces in [*left, (block, range(self.steps))]:
            emit_all(*self._pieces(self._block(steps, number), pieces))

    def _block(self, steps: Several[int], number: int) -> list[Pair]:
        shared = steps[number * self.steps : (number + 1) * self.steps]
        return [(step, tile) for step in shared for tile in range(self._batch.count)]

    def _pieces(self, pairs: list[Pair], pieces: range) -> tuple[list[Emit], list[Emit]]:
        """Give the products and the last stores of the inputs' column spans that belong to some pieces.

        A span's sums are stored when the lanes have no room for those of another span.
        """
        spans = self._layer.tiling.input_spans
        first, end = (piece * len(spans) // self.steps for piece in (pieces.start, pieces.stop))
        emits: list[Emit] = []
        stores: list[Emit] = []
        for number in range(first, end):
            products, store, room = self._products(number, spans[number], pairs)
            if len(stores) == room:
                emits.append(stores.pop(0))
            emits += products
            stores.append(partial(store, pairs))
        return emits, stores

    def _sum(self, number: int, span: Span, pairs: list[Pair], row_map: RowMap | None, whole_beats: int = 0) -> None:
        """Sum a column span of pairs of a step that share each load of weights, and store the sums, or leave that."""
        (step, *_), tiles = pairs[0], [tile for _, tile in pairs]
        products, store, room = self._products(number, span, pairs, row_map, whole_beats)
        while len(self._left) >= room:
            self._left.pop(0)(step)
        emit_all(products)
        self._left.append(lambda step: store([(step, tile) for tile in tiles]))
        if not self._delays:
            emit_all(self.left(step))

    def _products(
        self, number: int, span: Span, pairs: list[Pair], row_map: RowMap | None = None, whole_beats: int = 0
    ) -> tuple[list[Emit], Callable[[list[Pair]], None], int]:
        """Give what emits a column span's products, run by run, and its sums' stores; and how many such sums fit."""
        sizes = [self._batch.size_of(tile) for _, tile in pairs]
        firsts = [sum(sizes[:n]) for n in range(len(sizes))]
        sums, tiling = span.count * sum(sizes), self._layer.tiling
        room = 2 if sums <= self._half else 1
        operand = Operand(Memory.SUMS, self._half * (self._turn % 2) if room == 2 else 0)
        self._turn += 1
        runs = self._weights.runs(self._columns, tiling.units, tiling.gates, number)

        def products(run: Run) -> None:
            for pair, size, first in zip(pairs, sizes, firsts, strict=True):
                begins, finishes = pair is pairs[0], pair is pairs[-1]
                self._cast(pair, run, span, size, first, run is runs[0] and begins, run is runs[-1] and finishes)
                if begins:
                    beats = whole_beats if run is runs[0] else 0
                    weights = self._weights.bring(self._columns, number, run, needed=row_map, whole_beats=beats)
                vectors = run.rows * self._columns.widths[number]
                self._emitter.mac(weights, vectors, operand, sums, span.count, backward=True)

        def store(pairs: list[Pair]) -> None:
            for number, ((step, tile), size, first) in enumerate(zip(pairs, sizes, firsts, strict=True)):
                self._store_sums(number, step, tile, span, operand.at(first * span.count), size)

        return [partial(products, run) for run in runs], store, room

    def _cast(self, pair: Pair, run: Run, span: Span, size: int, first_sum: int, start: bool, finish: bool) -> None:
        layer = self._layer
        self._emitter.cast(
            layer.delta_at(*pair), layer.tiling.units, Traffic.DELTAS, compressed=layer.storage.compressed,
            first_block=run.first_block, blocks=run.blocks, gates=layer.tiling.gates, batch=size, tiles=span.count,
            first_sum=first_sum, narrow=layer.tiling.narrow, start=start, finish=finish,
        )  # fmt: skip

    def _store_sums(self, number: int, step: int, batch_tile: int, span: Span, sums: Operand, size: int) -> None:
        """Store the sums of a column span's pair `number` as the gradients of x and of the other operand."""
        layer, inputs = self._layer, self._layer.tiling.inputs.tiles
        dx_count = max(0, min(span.count, inputs - span.first))
        sums = sums.at(0, outer=1, inner=span.count)
        if dx_count and layer.dx:
            self._store_dx(layer.dx, step, batch_tile, Span(span.first, dx_count), sums, size)
        if dx_count == span.count:
            return
        tiles, sums = Span(span.first + dx_count - inputs, span.count - dx_count), sums.at(dx_count)
        masking = self._masking if layer.is_recurrent else None
        if masking and self._batch.count > 1:  # the mask that the stage has brought is another tile's
            masking.bring(self._emitter, step, batch_tile, size)
        if self._of_operand:
            for piece, of_piece in self._of_operand.cut(tiles, sums):
                self._collect(self._of_operand, step, batch_tile, piece, of_piece, size)
        elif masking:
            for tile in range(tiles.count):
                passed = masking.passed[(number * tiles.count + tile) % len(masking.passed)]
                self._merge(masking, batch_tile, tiles.first + tile, sums.at(tile), size, passed)
        else:
            location = layer.operand_gradient.at(0, batch_tile, tiles.first)
            self._emitter.store(sums, location, Traffic.ACTIVATIONS, tiles.count, size)

    def _store_dx(self, dx: Sequence, step: int, batch_tile: int, tiles: Span, sums: Operand, size: int) -> None:
        emitter = self._emitter
        if not self._of_x:
            location = dx.at(step, batch_tile, tiles.first)
            emitter.store(sums, location, Traffic.ACTIVATIONS, tiles.count, size)
            return
        for piece, of_piece in self._of_x.cut(tiles, sums):
            gradient = self._of_x.collector.collect(step, batch_tile, piece, size, of_piece, self._of_x.vectors)
            location = dx.at(step, batch_tile, piece.first)
            emitter.store(gradient, location, Traffic.ACTIVATIONS, 1, piece.count * size)

    def _collect(
        self, collecting: Collecting, step: int, batch_tile: int, tiles: Span, sums: Operand, size: int
    ) -> None:
        """Collect some tiles of dh and store what was sent; sequences that have ended pass on what reached them."""
        layer, emitter, vectors, count = self._layer, self._emitter, collecting.vectors, tiles.count * size
        gradient = collecting.collector.collect(step, batch_tile, tiles, size, sums, vectors)
        if self._masking:
            passed, mask = vectors[2].at(0, outer=size), self._masking.mask.at(0, outer=0)
            location = self._masking.dh_sum.at(0, batch_tile, tiles.first)
            emitter.load(passed, location, Traffic.ACTIVATIONS, 1, count)
            emitter.vector(VectorOp.SELECT_ZERO, gradient, mask, passed, outer=tiles.count, inner=size)
        location = layer.operand_gradient.at(0, batch_tile, tiles.first)
        emitter.store(gradient, location, Traffic.ACTIVATIONS, 1, count)

    def _merge(self, masking: Masking, batch_tile: int, tile: int, sums: Operand, size: int, passed: Operand) -> None:
        """Store one tile of dh; sequences that have ended pass on the gradient that reached them."""
        emitter, merged, mask = self._emitter, masking.merged, masking.mask
        emitter.load(passed, masking.dh_sum.at(0, batch_tile, tile), Traffic.ACTIVATIONS, 1, size)
        emitter.vector(VectorOp.ADD, merged, sums, MINUS_ZERO, inner=size)
        emitter.vector(VectorOp.SELECT_ZERO, merged, mask, passed, inner=size)
        location = self._layer.operand_gradient.at(0, batch_tile, tile)
        emitter.store(merged, location, Traffic.ACTIVATIONS, 1, size)
