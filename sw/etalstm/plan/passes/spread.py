"""The optimiser's program of several groups of channels: each updates its shard of the weights, then all exchange them.

::

    update:  weights (own column copy), gradient, velocity ── step ──► exchange, velocity
    spread:  every group's part of the exchange ──► own column copy, and transposed own row copy

Where the copies are narrow, each group has the weights of its shard, as it has their gradient and velocity. They are
updated in place, and the others read them there: no exchange is needed.

Groups wait for each other only before they read what others have updated. Meanwhile they update the next column group.
"""

from itertools import pairwise

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.operands import Operand, Place, Scratch
from etalstm.plan.memory.shards import Columns
from etalstm.plan.memory.tiling import UPDATE_ARRAYS, UPDATE_SETS
from etalstm.plan.passes.refresh import Refresh, Square
from etalstm.plan.passes.update import WEIGHT_DECAY, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic

_SETS = 2  # buffers that alternate: one is loaded while another is stored
_NARROW_BUFFERS = 3  # of each set: updated weights, and what is packed of them for each copy


class SharedUpdate:
    """Emits the update of all layers by several groups.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    layers : list of LayerArrays
        All stages of all layers.
    """

    def __init__(self, config: Config, emitter: Emitter, layers: list[LayerArrays]):
        steps = Steps(config, emitter, config.scratch_depth // (UPDATE_SETS * UPDATE_ARRAYS))
        self._layers, self._steps = layers, steps
        pieces = [(layer, columns) for layer in layers for columns in layer.shards.columns]
        self._pieces = [
            _ColumnGroup(config, emitter, steps, layer, columns, _updated(layer, columns, turn))
            for turn, (layer, columns) in enumerate(pieces)
        ]

    def emit(self) -> None:
        """Append the instructions: a column group is spread when the next one has been updated."""
        self._pieces[0].update()
        for before, piece in pairwise(self._pieces):
            piece.update()
            before.spread()
        self._pieces[-1].spread()
        for layer in self._layers:
            self._steps.biases(layer)


def _updated(layer: LayerArrays, columns: Columns, turn: int) -> Place:
    """Where groups store their updated weights of a column group: in the exchange, or where narrow in the weights."""
    if layer.tiling.narrow or not layer.exchange:
        return Place(layer.weights, columns.first_in_shard, (columns.number,))
    return Place(layer.exchange.updated(turn), 0)


class _ColumnGroup:
    """Emits both halves of the update of a layer's column group.

    Parameters
    ----------
    config, emitter, steps
    layer : LayerArrays
    columns : Columns
    updated : Place
        Where the groups find its updated weights.
    """

    def __init__(
        self, config: Config, emitter: Emitter, steps: Steps, layer: LayerArrays, columns: Columns, updated: Place
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

        def some(turn: int, count: int = most) -> None:
            vector = turn * most
            of_shard = columns.first_in_shard + vector
            state = (Place(array, of_shard, (of_shard,)) for array in (layer.gradient, layer.velocity))
            self._steps.step(
                [self._weights(vector), *state],
                count,
                WEIGHT_DECAY,
                updated=self._updated.at(vector),
                group_stride=0 if self._narrow else layer.shards.stride * columns.count,
            )

        turns, rest = divmod(layer.shards.rows * columns.count, most)
        self._emitter.loop(turns, some)
        if rest:
            some(turns, rest)

    def _weights(self, vector: int) -> Place:
        """Where the weights lie before the update, from a vector of the first group's rows on.

        Weights that are updated in place are read before they are stored, because the update depends on them. So their
        loads have a part of their own, and wait for no earlier store.
        """
        if self._narrow:
            place = self._updated.at(vector)
            return Place(place.array, place.vector, (*place.part, "before"))
        return Place(self._layer.columns, self._columns.first + vector, (self._columns.number,))

    def spread(self) -> None:
        """Take over all updated rows from the groups that have them."""
        columns = self._columns
        for number, square in enumerate(self._refresh.squares()):
            buffer, *free = self._sets[number % _SETS]
            self._load(square, buffer)
            if not self._narrow:
                place = Place(self._layer.columns, columns.first + square.rows.start * columns.count, (columns.number,))
                count = len(square.rows) * columns.count
                self._emitter.store(buffer, place, Traffic.WEIGHTS, 1, count, made_of=self._updated.array)
            self._refresh.write(buffer, square, free)

    def _load(self, square: Square, buffer: Operand) -> None:
        shards, rows, count = self._layer.shards, square.rows, self._columns.count
        for group, some in shards.owners(rows):
            row = some.start - shards.rows_of(group).start
            to = buffer.at((some.start - rows.start) * count)
            self._emitter.load(to, self._updated.at(row * count), Traffic.WEIGHTS, 1, len(some) * count, group=group)
