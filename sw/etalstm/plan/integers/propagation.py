"""Wᵀδ with integers: the sums of a part of the batch, and how they become gradients."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

from etalstm.plan.integers.collect import IntegerCollector
from etalstm.plan.integers.products import (
    Broadcast,
    Columns,
    Multiplier,
    Share,
    WeightGroup,
    convert,
    mixed,
    sent_early,
    take_weights,
)  # fmt: skip
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.integer_tiling import AREAS
from etalstm.plan.memory.operands import Operand
from etalstm.plan.memory.tiling import BatchTiles, Span, ceil_div, cut, spans
from etalstm.plan.passes.propagation import Emit, Masking, Part, emit_all
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp
from etalstm_hw.contract.integers import WORD_BYTES


class IntegerPropagation:
    """Emits the sums Wᵀδ of a step when its δ is there: of the units' columns first, then of the inputs'.

    Groups of columns of both operands share tiles of sums. `buffer` is scratch memory for the sums of a tile. Batch
    tiles that share loads of weights are a part of the batch. While the sums of one part are made, δ of the other one
    is computed. Where weights do not stay in the lanes and half of the memory holds a tile of sums of all sequences,
    the batch is one part. Only its inputs' columns run beside δ then, that of the step before, and the units' columns
    are loaded once in a step.

    Members
    -------
    most_tiles, steps : int    as those of :class:`~etalstm.plan.passes.propagation.Propagation`
    """

    steps = 1

    def __init__(
        self, config: Config, emitter: Emitter, layer: LayerArrays, arrays: IntegerArrays, below: Operand,
        buffer: Operand, passed: Operand, masking: Masking | None, collector: IntegerCollector | None,
    ):  # fmt: skip
        self._config, self._emitter, self._layer, self._arrays = config, emitter, layer, arrays
        self._below, self._buffer, self._passed, self._masking = below, buffer, passed, masking
        self._collector = collector
        self._multiplier = Multiplier(config, emitter)
        self._prepared, self._left = list[Emit](), list[Emit]()
        tiling = arrays.tiling
        names = ["h", *(["x"] if layer.dx else [])]
        self._places = [(name, group) for name in names for group in range(tiling.groups_of(name))]
        self._groups = tuple(WeightGroup(arrays.columns[name], group) for name, group in self._places)
        of_tile, of_units = config.row_vectors, tiling.groups_of("h")
        self._of_units = Span(0, min(ceil_div(of_units, of_tile) * of_tile, len(self._groups)))
        self._of_inputs = Span(self._of_units.count, len(self._groups) - self._of_units.count)
        self._areas, self._area = AREAS, config.queue_depth // AREAS
        self._stays = self._multiplier.fits(*(Columns(self._groups[f : f + n]) for f, n in self._runs(1)))
        self.most_tiles = 1 if self._stays else self._share_loads(layer.batch)

    def _share_loads(self, batch: BatchTiles) -> int:
        """Choose how large the areas of sums are; give how many batch tiles can share loads of weights."""
        of_tile, of_half = self._multiplier.of_tile(batch.size), 2 * self._area
        if self._area < of_tile * batch.count <= of_half:
            self._areas, self._area = AREAS // 2, of_half
        most = self._area // of_tile
        return batch.count if most >= batch.count else max(1, min(most, ceil_div(batch.count, 2)))

    def begin(self) -> None:
        """Bring the weights that there is room for."""
        for first, count in self._runs(1) if self._stays else []:
            self._multiplier.keep(Columns(self._groups[first : first + count]))

    @property
    def is_early(self) -> bool:
        """Tell whether the sums for a part are stored before the part in front of it has its next turn."""
        return len(self._parts) > 2

    @property
    def _lag(self) -> int:
        """How many parts behind its products the sums of one are stored.

        What is stored later need not be waited for by the element-wise work of the part that follows. It takes an area
        more, and the sums must be there for the part's next step.
        """
        return 1 if len(self._parts) > 3 and len(self._areas_of_part) < self._areas else 0

    def units(self, step: int, tiles: range) -> None:
        """Sum the units' columns for the step before, and those that share a tile of sums with them.

        Those of several parts are all delayed. What is left to store lies in the area that has its turn last.
        """
        self.bring_early(step, tiles)
        emit_all([*mixed(self._prepared, self._left)])
        self._prepared, self._left = [], []
        stores, rest = self._stores(step, tiles, self._first), self._at_once.count - self._first.count
        if rest:
            others = Span(self._first.count, rest)
            emit_all(sent_early(self._products(step, tiles, others, stores)))
            stores = self._stores(step, tiles, others)
        emit_all(stores)

    def bring_early(self, step: int, tiles: range) -> None:
        """Bring the first weights of :meth:`units`, which has nothing else done before."""
        if not self._prepared:
            self._prepared = sent_early(self._products(step, tiles, self._first))
            emit_all(take_weights(self._prepared))

    def inputs(self, step: int, tiles: range) -> None:
        """Nothing: the inputs' other columns, which leave the layer, are delayed."""

    def delayed(self, done: Sequence[Part]) -> tuple[list[Emit], list[Emit]]:
        """Give the products of the last part that is done, and the stores of that part or of one before it.

        The stores of a whole batch are left to run beside the products of :meth:`units`.
        """
        products, stores = list[Emit](), list[Emit]()
        for part in done[-1:]:
            products = sent_early(self._products(*part, self._delayed))
        for part in done[: len(done) - self._lag][-1:]:
            stores = self._stores(*part, self._delayed)
        if self._at_once.count:
            self._left, stores = stores, []
        return products, stores

    def ended(self, done: Sequence[Part]) -> list[Emit]:
        """Give the last part's products, and the stores that are left."""
        emits = list[Emit]()
        for part in done[len(done) - 1 - self._lag : -1]:
            emits += self._stores(*part, self._delayed)
        for part in done[-1:]:
            emits += sent_early(self._products(*part, self._delayed)) + self._stores(*part, self._delayed)
        return emits

    def _products(self, step: int, tiles: range, areas: Span, stores: list[Emit] | None = None) -> list[Emit]:
        """Give the products of some areas for a part of the batch. All areas but the last one are stored, too.

        Behind those of the first one come `stores` of the area before it.
        """
        emits, stores = list[Emit](), stores or []
        for number in range(areas.first, areas.first + areas.count):
            emits += self._multiply(number, step, tiles) + stores
            stores = self._store_area(number, step, tiles)
        return emits

    def _stores(self, step: int, tiles: range, areas: Span) -> list[Emit]:
        """Give what stores the last of some areas of a part of the batch."""
        last = areas.first + areas.count - 1
        return self._store_area(last, step, tiles) if areas.count else []

    def left(self, step: int) -> list[Emit]:
        """Nothing is left."""
        return []

    def shared_inputs(self, steps: Sequence[int], number: int) -> tuple[list[Emit], list[Emit]]:
        """No steps share loads."""
        return [], []

    def rest(self, steps: Sequence[int]) -> None:
        """Nothing is left."""

    def _runs(self, tiles: int) -> Iterator[tuple[int, int]]:
        """Give first group and groups of as many tiles of sums, for so many batch tiles, as an area holds."""
        of_tile = self._multiplier.of_tile(self._layer.batch.size) * tiles
        most = self._area // of_tile * self._config.row_vectors
        for groups in (self._of_units, self._of_inputs):
            for some in cut(groups.count, most):
                yield groups.first + some.first, some.count

    @cached_property
    def _parts(self) -> list[int]:
        """The first batch tiles of the parts."""
        return [span.first for span in spans(self._layer.batch.count, self.most_tiles)]

    @cached_property
    def _areas_of_part(self) -> list[tuple[int, int]]:
        return list(self._runs(self.most_tiles))

    @cached_property
    def _at_once(self) -> Span:
        """Areas whose sums are made as soon as δ is there."""
        of_units = [first for first, _ in self._areas_of_part if first < self._of_units.count]
        return Span(0, len(of_units) if len(self._parts) == 1 else 0)

    @property
    def _first(self) -> Span:
        """Those of them that have their turn before the area does that was the last one."""
        return Span(0, min(self._at_once.count, self._areas - 1))

    @property
    def _delayed(self) -> Span:
        """Areas whose sums are made beside the δ that follows."""
        return Span(self._at_once.count, len(self._areas_of_part) - self._at_once.count)

    def _places_of(self, number: int, step: int, tiles: range) -> dict[int, Operand]:
        """Give where the sums of each batch tile lie, in the area that has the turn; `number` is that of its part."""
        _, count = self._areas_of_part[number]
        turn = (self._parts.index(tiles.start) - step * len(self._parts)) * len(self._areas_of_part) + number
        area = Operand(Memory.SUMS, turn % self._areas * self._area)
        of_batch_tile = ceil_div(count, self._config.row_vectors) * self._multiplier.of_tile(self._layer.batch.size)
        return {tile: area.at(n * of_batch_tile) for n, tile in enumerate(tiles)}

    def _multiply(self, number: int, step: int, tiles: range) -> list[Emit]:
        """Give the products of an area, for the batch tiles of a part."""
        first, count = self._areas_of_part[number]
        shares = [Share(self._array(step, tile), sums) for tile, sums in self._places_of(number, step, tiles).items()]
        return self._multiplier.multiply(shares, Columns(self._groups[first : first + count]), backward=True)

    def _store_area(self, number: int, step: int, tiles: range) -> list[Emit]:
        """Give what stores the sums of an area."""
        first, count = self._areas_of_part[number]
        groups, places = range(first, first + count), self._places_of(number, step, tiles)
        return [partial(self._store_groups, groups, step, tile, sums) for tile, sums in places.items()]

    def _array(self, step: int, batch_tile: int) -> Broadcast:
        tiling, size = self._arrays.tiling, self._layer.batch.size_of(batch_tile)
        delta, tiles = self._arrays.delta.at(step, batch_tile), tiling.units.tiles
        return Broadcast(delta, 0, tiles, tiling.units.channels * tiles, size, True, Traffic.DELTAS)

    def _store_groups(self, groups: range, step: int, batch_tile: int, sums: Operand) -> None:
        """Convert and store the sums of some groups of columns."""
        of_row, size = self._config.row_vectors, self._layer.batch.size_of(batch_tile)
        for number, group in enumerate(groups):
            tile, place = divmod(number, of_row)
            of_group = sums.at(tile * self._multiplier.of_tile(size) + WORD_BYTES * place)
            self._store(*self._places[group], step, batch_tile, of_group, place)

    def _store(self, operand: str, group: int, step: int, batch_tile: int, sums: Operand, place: int) -> None:
        """Convert the sums of a group of columns, and store them as gradients of x or of the other operand."""
        emitter, layer, first = self._emitter, self._layer, WORD_BYTES * group
        size = layer.batch.size_of(batch_tile)
        buffer = self._buffer.at(WORD_BYTES * place * size)
        count = min(WORD_BYTES, self._arrays.tiling.columns_of(operand).tiles - first)
        convert(emitter, self._config, buffer, sums, self._below, count, size)
        if self._collector:
            self._collector.collect(operand, group, step, batch_tile, buffer, count, place)
        if operand == "x":
            assert layer.dx, "the product with x has a place for its gradient"
            location = layer.dx.at(step, batch_tile, first)
        else:
            location = layer.operand_gradient.at(0, batch_tile, first)
            self._merge(batch_tile, first, count, buffer, step)
        emitter.store(buffer, location, Traffic.ACTIVATIONS, 1, count * size)

    def _merge(self, batch_tile: int, column: int, count: int, buffer: Operand, step: int) -> None:
        """Pass on the gradient that reached them to sequences that have ended."""
        masking, emitter, size = self._masking, self._emitter, self._layer.batch.size_of(batch_tile)
        if not masking:
            return
        if self._layer.batch.count > 1:  # the mask that the stage has brought is another tile's
            masking.bring(emitter, step, batch_tile, size)
        location = masking.dh_sum.at(0, batch_tile, column)
        emitter.load(self._passed, location, Traffic.ACTIVATIONS, 1, count * size)
        values, passed = (operand.at(0, outer=size) for operand in (buffer, self._passed))
        emitter.vector(VectorOp.SELECT_ZERO, values, masking.mask.at(0, outer=0), passed, outer=count, inner=size)
