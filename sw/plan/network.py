"""Where everything of a network lies, and how each of its layers is divided."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from etalstm.hw.config import Config
from etalstm.hw.contract import STREAM_BLOCK
from etalstm.network import NetworkShape
from etalstm.plan import memory
from etalstm.plan.emit import Log, Place
from etalstm.plan.memory import Array, MemoryMap
from etalstm.plan.segments import REGIONS, Piece, Segment, everything
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
class Held:
    """What a segment keeps for the backward pass, and where: the gates of dense cells, then streams.

    The δ that its backward pass makes is kept until the weights' gradient of its layers is done, so it takes no turns.

    Members
    -------
    segment : Segment
    region : Array
        The memory it has; segments take turns.
    gates : dict from (layer, step) to the first vector of a dense cell's gates in the region
    log, deltas : Log or None
        Where streams of local gradients and of δ go; None if all cells are dense.
    """

    segment: Segment
    region: Array
    gates: dict[tuple[int, int], int]
    log: Log | None
    deltas: Log | None


@dataclass(frozen=True)
class LayerArrays:
    """One layer's arrays in memory.

    Members
    -------
    number : int          of the layer
    tiling : LayerTiling
    rows, columns : the two copies of the matrix; the column copy is the master
    gradient, velocity : like the column copy
    bias, bias_gradient, bias_velocity : [unit tile][gate]
    norms : Σ dW² of each column
    x : Sequence          what enters the layer, and the step it starts at
    h : Sequence          T + 1 steps, the first is the initial state
    c : Sequence          likewise; with compressed storage one step, the present state
    index : Array         with compressed storage: a vector for the index of each stream
    storage : LayerStorage
    delta : Sequence      gradients of the gates; None with compressed storage
    delta_index : Array   with compressed storage: a vector for the index of each tile's stream
    dy : Sequence         gradients that arrive from above
    dx : Sequence         gradients that leave below
    dh, dc : Sequence     running state gradients, one step: the final states' before, the initial states' after
    dh_sum : Sequence     dy + dh of a step, kept where the batch is masked
    """

    number: int
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
    index: Array | None
    storage: LayerStorage
    delta: Sequence | None
    delta_index: Array | None
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
    segments : list of Segment, optional
        Cells that share a region of memory for what they keep; by default all do.

    Raises
    ------
    PlanError
        If a layer cannot be divided so that it fits the lane memories.

    Members
    -------
    memory : MemoryMap
    batch : BatchTiles
    layers : list of LayerArrays
    held : list of Held
        One for each segment; neighbours have different regions.
    regions : list of Array
    deltas : Array or None
        All segments' streams of δ.
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
        segments: list[Segment] | None = None,
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
        self.layers: list[LayerArrays] = []
        for number in range(network.layers):
            self.layers.append(self._layer(number))
        self.held = self._hold(segments or everything(network.layers, steps))
        self._holder = {
            (piece.layer, step): held for held in self.held for piece in held.segment for step in piece.steps
        }

    def held_by(self, layer: int, step: int) -> Held:
        """Tell where a cell keeps what it keeps."""
        return self._holder[layer, step]

    def gates(self, layer: LayerArrays, step: int, batch_tile: int, group: Span) -> Place:
        """Where the gates of a group of a dense cell lie, [tile][gate][b]."""
        held, batch = self.held_by(layer.number, step), self.batch
        before = batch_tile * layer.tiling.units.tiles * batch.size + group.first * batch.size_of(batch_tile)
        vector = held.gates[layer.number, step] + GATES * before
        return Place(held.region, vector, (layer.number, step, batch_tile))

    def cell_needs(self) -> list[int]:
        """Vectors that a cell of each layer is given for what it keeps."""
        share = self._share(LOCAL_GRADIENTS)
        return [
            math.ceil(share * self._stream_vectors(layer)) if layer.storage.compressed else self._gates_vectors(layer)
            for layer in self.layers
        ]

    def _hold(self, segments: list[Segment]) -> list[Held]:
        """Allocate the regions, each as large as the largest segment that uses it needs."""
        plans = [self._contents(segment) for segment in segments]
        self.regions: list[Array] = []
        for number in range(min(len(segments), REGIONS)):
            vectors = max(gates + math.ceil(worst * self._share(LOCAL_GRADIENTS)) for _, gates, worst in plans)
            self.regions.append(self._add_streams(f"held{number}", "intermediates", vectors))
        result = []
        for number, (segment, (places, gates, worst)) in enumerate(zip(segments, plans, strict=True)):
            region = self.regions[number % REGIONS]
            log = Log(LOCAL_GRADIENTS, region.part(gates, region.vectors - gates), worst) if worst else None
            result.append(Held(segment, region, places, log, None))
        return self._with_deltas(result)

    def _with_deltas(self, held: list[Held]) -> list[Held]:
        """Allocate what δ takes, one segment's behind the other's."""
        worst = [
            sum(len(p.steps) * self._delta_vectors(self.layers[p.layer]) for p in one.segment if self._is_compressed(p))
            for one in held
        ]
        vectors = [math.ceil(need * self._share(DELTAS)) for need in worst]
        self.deltas = self._add_streams("delta_log", "deltas", sum(vectors)) if sum(vectors) else None
        firsts = [sum(vectors[:number]) for number in range(len(held))]
        return [
            replace(one, deltas=Log(DELTAS, self.deltas.part(first, count), need)) if need else one
            for one, first, count, need in zip(held, firsts, vectors, worst, strict=True)
        ]

    def _is_compressed(self, piece: Piece) -> bool:
        return self.layers[piece.layer].storage.compressed

    def _add_streams(self, name: str, kind: str, vectors: int) -> Array:
        """Allocate memory that holds no array of the host's."""
        index = np.broadcast_to(np.int64(-1), (self.config.channels, vectors, self.config.lanes))
        return self.memory.add(name, kind, index, (0,))

    def _contents(self, segment: Segment) -> tuple[dict, int, int]:
        """Give a segment's dense cells' places, the vectors of all of them, and those of its streams at worst."""
        places, gates, worst = {}, 0, 0
        for piece in segment:
            layer = self.layers[piece.layer]
            for step in piece.steps:
                if layer.storage.compressed:
                    worst += self._stream_vectors(layer)
                else:
                    places[piece.layer, step] = gates
                    gates += self._gates_vectors(layer)
        return places, gates, worst

    def _gates_vectors(self, layer: LayerArrays) -> int:
        return GATES * layer.tiling.units.tiles * self.batch.size * self.batch.count

    def _stream_vectors(self, layer: LayerArrays) -> int:
        """Vectors of a compressed cell's streams, should nothing be dropped."""
        vectors = 0
        for tile in range(self.batch.count):
            for group in layer.tiling.unit_groups:
                elements = group.count * self.batch.size_of(tile) * self.config.lanes
                words = ceil_div(elements, STREAM_BLOCK) + (ceil_div(elements, 2) if layer.storage.bf16 else elements)
                vectors += len(KINDS) * ceil_div(words, self.config.lanes)
        return vectors

    def _delta_vectors(self, layer: LayerArrays) -> int:
        """Vectors of a compressed cell's streams of δ, should nothing be dropped."""
        lanes = self.config.lanes
        elements = [GATES * self.batch.size_of(tile) * lanes for tile in range(self.batch.count)]
        return layer.tiling.units.tiles * sum(ceil_div(n + ceil_div(n, STREAM_BLOCK), lanes) for n in elements)

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
            return self._add_streams(f"{name}{number}", kind, count) if kept.compressed else None

        def of_gates(name, kind):
            index = memory.gates_index(tiling.units, steps, self.batch)
            array = add(name, kind, index, (steps, batch, GATES, hidden))
            return Sequence(array, GATES * tiling.units.tiles, self.batch)

        below = self.layers[-1] if number else None
        return LayerArrays(
            number=number,
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
            index=streams("index", "intermediates", parts * len(tiling.unit_groups) * len(KINDS)),
            storage=kept,
            delta=None if kept.compressed else of_gates("delta", "deltas"),
            delta_index=streams("delta_index", "deltas", parts * tiling.units.tiles),
            dy=sequence("dy", "activations", tiling.units, steps),
            dx=below.dy if below else sequence("dx", "activations", tiling.inputs, steps),
            dh=sequence("dh", "activations", tiling.units, 1),
            dc=sequence("dc", "activations", tiling.units, 1),
            dh_sum=sequence("dh_sum", "activations", tiling.units, 1) if self.mask else None,
        )
