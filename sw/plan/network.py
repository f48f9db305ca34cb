"""Where everything of a network lies, and how each of its layers is divided."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from etalstm.hw.config import Config
from etalstm.hw.contract import STREAM_BLOCK
from etalstm.network import NetworkShape
from etalstm.plan import memory
from etalstm.plan.emit import Log, Place
from etalstm.plan.memory import Array, MemoryMap
from etalstm.plan.tiling import GATES, BatchTiles, LayerTiling, Span, ceil_div, tile_batch, tile_layer
from etalstm.storage import KINDS, LayerStorage, Storage

# The bias of lanes that hold no unit: their gates are 0, so their local gradients are too and no stream keeps them.
CLOSED = -200.0

LOCAL_GRADIENTS, DELTAS = range(2)  # logs, by what they keep


def whole(log: int) -> float:
    """Give any log room for all of its streams."""
    return 1.0


@dataclass(frozen=True)
class Sequence:
    """An array with a part for each step and batch tile, [tile][b] vectors in each (or [tile][gate][b]).

    Members
    -------
    array : Array
    tiles : int
        Vectors for each sequence: tiles, or 4·tiles.
    batch : BatchTiles
    """

    array: Array
    tiles: int
    batch: BatchTiles

    def part(self, step: int, batch_tile: int, tile: int = 0) -> Place:
        """Vectors from `tile` on; all tiles of a step and batch tile are tracked together."""
        size = self.batch.size_of(batch_tile)
        start = step * self.step_vectors + batch_tile * self.tiles * self.batch.size
        return Place(self.array, start + tile * size, (step, batch_tile))

    @property
    def step_vectors(self) -> int:
        """Vectors of a step."""
        return self.batch.count * self.tiles * self.batch.size

    def steps(self, first: int, count: int) -> Array:
        """The part of the array that holds some steps."""
        return self.array.part(first * self.step_vectors, count * self.step_vectors)


@dataclass(frozen=True)
class LayerArrays:
    """One layer's arrays in memory.

    Members
    -------
    tiling : LayerTiling
    rows, columns : the two copies of the matrix; the column copy is the master
    gradient, velocity : like the column copy
    bias, bias_gradient, bias_velocity : [unit tile][gate]
    norms : Σ dW² of each column
    x : Sequence          what enters the layer, and the step it starts at
    h : Sequence          T + 1 steps, the first is the initial state
    c : Sequence          likewise; with compressed storage one step, the present state
    gates : Sequence      i, f, g, o as kept for the backward pass; None with compressed storage
    index, log            with compressed storage: a vector for the index of each stream, and where streams go
    storage : LayerStorage
    delta : Sequence      gradients of the gates; None with compressed storage
    delta_index, delta_log with compressed storage: a vector for the index of each tile's stream, and where these go
    dy : Sequence         gradients that arrive from above
    dx : Sequence         gradients that leave below
    dh, dc : Sequence     running state gradients, one step: the final states' before, the initial states' after
    dh_sum : Sequence     dy + dh of a step, kept where the batch is masked
    """

    tiling: LayerTiling
    rows: Array
    columns: Array
    gradient: Array
    velocity: Array
    bias: Array
    bias_gradient: Array
    bias_velocity: Array
    norms: Array
    x: Sequence
    x_step: int
    h: Sequence
    c: Sequence
    gates: Sequence | None
    index: Array | None
    log: Log | None
    storage: LayerStorage
    delta: Sequence | None
    delta_index: Array | None
    delta_log: Log | None
    dy: Sequence
    dx: Sequence
    dh: Sequence
    dc: Sequence
    dh_sum: Sequence | None

    def c_at(self, step: int) -> int:
        """Which step of `c` holds the state after so many steps."""
        return 0 if self.storage.compressed else step

    def index_of(self, step: int, batch_tile: int, group: Span, kind: int) -> Place:
        """Where the index of a stream lies."""
        groups = self.tiling.unit_groups
        number = (step * self.h.batch.count + batch_tile) * len(groups) + groups.index(group)
        return Place(self.index, number * len(KINDS) + kind, (number, kind))

    def delta_at(self, step: int, batch_tile: int, tile: int = 0) -> Place:
        """Where a tile's δ lies, or with compressed storage the index of its stream."""
        if not self.storage.compressed:
            return self.delta.part(step, batch_tile, GATES * tile)
        number = (step * self.h.batch.count + batch_tile) * self.tiling.units.tiles + tile
        return Place(self.delta_index, number, (step, batch_tile))


class NetworkMap:
    """Memory map of a network on a machine.

    Parameters
    ----------
    config : Config
    network : NetworkShape
    batch, steps : int
        Sequences B and steps T of an iteration.
    masked : bool
        Sequences may be shorter than T.
    storage : Storage
        What is kept for the backward pass.
    share : function
        From a log's number to its room, as a share of what its streams need if they drop nothing.

    Raises
    ------
    PlanError
        If a layer cannot be divided so that it fits the lane memories.

    Members
    -------
    memory : MemoryMap
    batch : BatchTiles
    layers : list of LayerArrays
    logs : list of Log
    mask : Sequence or None
    """

    def __init__(
        self,
        config: Config,
        network: NetworkShape,
        batch: int,
        steps: int,
        masked: bool,
        storage: Storage = Storage(),  # noqa: B008  frozen
        share: Callable[[int], float] = whole,
    ):
        self.config, self.network, self.steps = config, network, steps
        self.memory = MemoryMap(config)
        self.batch = tile_batch(config, network.hidden_size, batch)
        self.mask = None
        if masked:
            index = memory.mask_index(config, steps, self.batch)
            self.mask = Sequence(self.memory.add("mask", "activations", index, (steps, batch)), 1, self.batch)
        self._storage = storage
        self._share = share
        self.logs: list[Log] = []
        if storage.compressed:
            self.logs.append(self._add_log(LOCAL_GRADIENTS, "log", "intermediates", self._stream_vectors()))
            self.logs.append(self._add_log(DELTAS, "delta_log", "deltas", self._delta_vectors()))
        self.layers: list[LayerArrays] = []
        for number in range(network.layers):
            self.layers.append(self._layer(number))

    def log(self, number: int) -> Log:
        """Give a log by its number."""
        return next(log for log in self.logs if log.number == number)

    def _add_log(self, number: int, name: str, kind: str, worst: int) -> Log:
        """Allocate a log whose streams need `worst` vectors of every channel if they drop nothing."""
        vectors = max(1, math.ceil(worst * self._share(number)))
        index = np.full((self.config.channels, vectors, self.config.lanes), -1, np.int64)
        return Log(number, self.memory.add(name, kind, index, (0,)), worst)

    def _stream_vectors(self) -> int:
        """Vectors of the streams of every compressed layer, should nothing be dropped."""
        hidden, layers = self.network.hidden_size, self.network.layers
        tiling = tile_layer(self.config, self.batch, self.network.input_size, hidden)
        vectors = 0
        for kept in filter(lambda kept: kept.compressed, map(self._storage.layer, range(layers))):
            for tile in range(self.batch.count):
                for group in tiling.unit_groups:
                    elements = group.count * self.batch.size_of(tile) * self.config.lanes
                    words = ceil_div(elements, STREAM_BLOCK) + (ceil_div(elements, 2) if kept.bf16 else elements)
                    vectors += len(KINDS) * ceil_div(words, self.config.lanes)
        return vectors * self.steps

    def _delta_vectors(self) -> int:
        """Vectors of the streams of δ of every compressed layer, should nothing be dropped."""
        config, layers = self.config, range(self.network.layers)
        tiles = ceil_div(ceil_div(self.network.hidden_size, config.channels), config.lanes)
        elements = [GATES * self.batch.size_of(tile) * config.lanes for tile in range(self.batch.count)]
        vectors = sum(ceil_div(count + ceil_div(count, STREAM_BLOCK), config.lanes) for count in elements)
        return vectors * tiles * self.steps * sum(self._storage.layer(number).compressed for number in layers)

    def _layer(self, number: int) -> LayerArrays:
        inputs, hidden = self.network.inputs_of(number), self.network.hidden_size
        tiling = tile_layer(self.config, self.batch, inputs, hidden)
        matrix, vector, batch, steps = (4 * hidden, inputs + hidden), (4 * hidden,), self.batch.batch, self.steps
        columns, biases = memory.column_copy_index(tiling), memory.bias_index(tiling)

        def add(name, kind, index, shape, padding=0.0):
            return self.memory.add(f"{name}{number}", kind, index, shape, padding)

        def sequence(name, kind, share, length):
            index = memory.sequence_index(share, length, self.batch)
            array = add(name, kind, index, (length, batch, share.size))
            return Sequence(array, share.tiles, self.batch)

        kept, parts = self._storage.layer(number), steps * self.batch.count

        def streams(name, kind, count):
            index = np.full((tiling.units.channels, count, tiling.units.lanes), -1, np.int64)
            return add(name, kind, index, (0,)) if kept.compressed else None

        def of_gates(name, kind):
            index = memory.gates_index(tiling.units, steps, self.batch)
            array = add(name, kind, index, (steps, batch, GATES, hidden))
            return Sequence(array, GATES * tiling.units.tiles, self.batch)

        below = self.layers[-1] if number else None
        return LayerArrays(
            tiling=tiling,
            rows=add("rows", "weights", memory.row_copy_index(tiling), matrix),
            columns=add("columns", "weights", columns, matrix),
            gradient=add("gradient", "optimizer", columns, matrix),
            velocity=add("velocity", "optimizer", columns, matrix),
            bias=add("bias", "weights", biases, vector, CLOSED),
            bias_gradient=add("bias_gradient", "optimizer", biases, vector),
            bias_velocity=add("bias_velocity", "optimizer", biases, vector),
            norms=add("norms", "optimizer", memory.column_index(tiling), (inputs + hidden,)),
            x=below.h if below else sequence("x", "activations", tiling.inputs, steps),
            x_step=1 if below else 0,
            h=sequence("h", "activations", tiling.units, steps + 1),
            c=sequence("c", "intermediates", tiling.units, 1 if kept.compressed else steps + 1),
            gates=None if kept.compressed else of_gates("gates", "intermediates"),
            index=streams("index", "intermediates", parts * len(tiling.unit_groups) * len(KINDS)),
            log=self.log(LOCAL_GRADIENTS) if kept.compressed else None,
            storage=kept,
            delta=None if kept.compressed else of_gates("delta", "deltas"),
            delta_index=streams("delta_index", "deltas", parts * tiling.units.tiles),
            delta_log=self.log(DELTAS) if kept.compressed else None,
            dy=sequence("dy", "activations", tiling.units, steps),
            dx=below.dy if below else sequence("dx", "activations", tiling.inputs, steps),
            dh=sequence("dh", "activations", tiling.units, 1),
            dc=sequence("dc", "activations", tiling.units, 1),
            dh_sum=sequence("dh_sum", "activations", tiling.units, 1) if self.mask else None,
        )
