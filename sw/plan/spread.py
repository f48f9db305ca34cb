"""The optimiser's program of several groups of channels: each updates its shard of the weights, then all exchange them.

::

    shard:   weights (own column copy), gradient, velocity ── step ──► exchange, velocity
    spread:  every group's part of the exchange ──► own column copy, and transposed own row copy

Groups wait for each other only before they read what others have updated. Meanwhile they update the next column group.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from etalstm.hw.config import Config
from etalstm.hw.contract import Traffic
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Place, Scratch
from etalstm.plan.memory import Array
from etalstm.plan.refresh import RowRefresh, Square
from etalstm.plan.shards import EXCHANGED_SHARDS, Columns
from etalstm.plan.tiling import UPDATE_ARRAYS, UPDATE_SETS
from etalstm.plan.update import WEIGHT_DECAY, Steps

_SETS = 2  # buffers that alternate: one is loaded while another is stored


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
        most = config.scratch_depth // (UPDATE_SETS * UPDATE_ARRAYS)
        self._emitter, self._steps = emitter, Steps(config, emitter, most)
        self._layers = [
            _Layer(config, emitter, self._steps, layer, number % EXCHANGED_SHARDS)
            for number, layer in enumerate(layers)
        ]

    def emit(self) -> None:
        """Append the instructions: a column group is spread after the next one was updated."""
        pieces = [*self._pieces(), None]
        if pieces[0]:
            pieces[0][0].update(pieces[0][1])
        for (layer, columns), following in pairwise(pieces):
            if following:
                following[0].update(following[1])
            layer.spread(columns)
        for layer in self._layers:
            self._steps.biases(layer.arrays)

    def _pieces(self) -> Iterator[tuple["_Layer", Columns]]:
        return ((layer, columns) for layer in self._layers for columns in layer.arrays.shards.columns)


class _Layer:
    """Emits both halves of a layer's update, a column group at a time.

    Parameters
    ----------
    config, emitter, steps
    arrays : LayerArrays
    half : int
        Of the exchange, which alternate: groups may still read the layer before.
    """

    def __init__(self, config: Config, emitter: Emitter, steps: Steps, arrays: LayerArrays, half: int):
        self._emitter, self._steps, self.arrays = emitter, steps, arrays
        self._updated = _half_of(arrays.group_sums[0], half)
        self._refresh = RowRefresh(config, emitter, arrays)
        scratch, most = Scratch(config), max(columns.count for columns in arrays.shards.columns)
        self._buffers = [scratch.take("updated weights", self._refresh.most_rows * most) for _ in range(_SETS)]
        self._turn = 0

    def update(self, columns: Columns) -> None:
        """Update a group's rows of a column group."""
        arrays, shards, most = self.arrays, self.arrays.shards, self._steps.most

        def some(turn, count=most):
            vector = turn * most
            of_shard = columns.first_in_shard + vector
            self._steps.step(
                Place(arrays.columns, columns.first + vector, (columns.number,)),
                Place(arrays.gradient, of_shard, (of_shard,)),
                Place(arrays.velocity, of_shard, (of_shard,)),
                count,
                WEIGHT_DECAY,
                updated=Place(self._updated, of_shard, (columns.number,)),
                group_stride=shards.stride * columns.count,
            )

        turns, rest = divmod(shards.rows * columns.count, most)
        self._emitter.loop(turns, some)
        if rest:
            some(turns, rest)

    def spread(self, columns: Columns) -> None:
        """Take over the updated rows of a column group from the groups that have them."""
        for square in self._refresh.squares():
            buffer = self._buffers[self._turn % _SETS]
            self._turn += 1
            self._load(columns, square, buffer)
            place = Place(self.arrays.columns, columns.first + square.rows.start * columns.count, (columns.number,))
            count = len(square.rows) * columns.count
            self._emitter.store(buffer, place, Traffic.WEIGHTS, 1, count, made_of=self._updated)
            self._refresh.write(columns, buffer, square)

    def _load(self, columns: Columns, square: Square, buffer) -> None:
        shards, rows = self.arrays.shards, square.rows
        for group, some in shards.owners(rows):
            row = some.start - shards.rows_of(group).start
            place = Place(self._updated, columns.first_in_shard + row * columns.count, (columns.number,))
            to = buffer.at((some.start - rows.start) * columns.count)
            self._emitter.load(to, place, Traffic.WEIGHTS, 1, len(some) * columns.count, group=group)


def _half_of(exchange: Array, half: int) -> Array:
    """Give one half of the exchange, as an array of its own."""
    vectors = exchange.vectors // EXCHANGED_SHARDS
    return replace(exchange.part(half * vectors, vectors), name=f"{exchange.name} {half}")
