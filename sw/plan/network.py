"""Where everything of a network lies, and how each of its layers is divided."""

from collections.abc import Callable
from functools import cache, partial

from etalstm.hw.config import Config
from etalstm.network import NetworkShape
from etalstm.plan import memory
from etalstm.plan.arrays import LayerArrays, Sequence
from etalstm.plan.emit import Log, Place
from etalstm.plan.held import Held, Kept, whole
from etalstm.plan.memory import MemoryMap
from etalstm.plan.segments import Segment, everything
from etalstm.plan.tiling import GATES, NEEDED_ARRAYS, Span, tile_batch, tile_layer
from etalstm.plan.weights import stay
from etalstm.storage import KINDS, Storage

# The bias of lanes that hold no unit: their gates are 0, so their local gradients are too and no stream keeps them.
CLOSED = -200.0


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
    every_delta : bool
        Compressed δ of all layers stay until the next pass; else those of a layer until its weights' gradient is done.

    Raises
    ------
    PlanError
        If a layer cannot be divided so that it fits the lane memories.

    Members
    -------
    memory : MemoryMap
    batch : BatchTiles
    layers : list of LayerArrays
    kept : Kept
        Where what cells keep lies.
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
        every_delta: bool = True,
    ):
        self.config, self.network, self.steps = config, network, steps
        self.memory = MemoryMap(config)
        self.batch = tile_batch(config, network.hidden_size, batch)
        self.mask = None
        if masked:
            index = partial(memory.mask_index, config, steps, self.batch)
            vectors = steps * self.batch.count * self.batch.size
            self.mask = Sequence(self.memory.add("mask", "activations", vectors, index, (steps, batch)), 1, self.batch)
        self._storage = storage
        self.layers: list[LayerArrays] = []
        for number in range(network.layers):
            self.layers.append(self._layer(number))
        segments = segments or everything(network.layers, steps)
        self.kept = Kept(config, self.memory, self.layers, share, segments, every_delta)

    def held_by(self, layer: int, step: int) -> Held:
        """Tell where a cell keeps what it keeps."""
        return self.kept.holder(layer, step)

    def delta_log(self, layer: int, step: int) -> Log | None:
        """Tell where the streams of a compressed cell's δ go; None if the cell is dense."""
        return self.held_by(layer, step).deltas.get(layer)

    def gates(self, layer: LayerArrays, step: int, batch_tile: int, group: Span) -> Place:
        """Where the gates of a group of a dense cell lie, [tile][gate][b]."""
        held, batch = self.held_by(layer.number, step), self.batch
        before = batch_tile * layer.tiling.units.tiles * batch.size + group.first * batch.size_of(batch_tile)
        vector = held.gates(layer.number, step) + GATES * before
        return Place(held.region, vector, (layer.number, step, batch_tile))

    def _layer(self, number: int) -> LayerArrays:
        inputs, hidden = self.network.inputs_of(number), self.network.hidden_size
        tiling = tile_layer(self.config, self.batch, inputs, hidden)
        matrix, vector, batch, steps = (4 * hidden, inputs + hidden), (4 * hidden,), self.batch.batch, self.steps
        rows = tiling.depth * GATES * tiling.units.tiles, partial(memory.row_copy_index, tiling)
        columns = tiling.rows * tiling.columns, _once(memory.column_copy_index, tiling)
        biases = GATES * tiling.units.tiles, _once(memory.bias_index, tiling)
        norms = tiling.columns, partial(memory.column_index, tiling)
        of_step = self.batch.count * self.batch.size

        def add(name, kind, layout, shape, padding=0.0):
            return self.memory.add(f"{name}{number}", kind, *layout, shape, padding)

        def sequence(name, kind, share, length):
            layout = length * of_step * share.tiles, partial(memory.sequence_index, share, length, self.batch)
            array = add(name, kind, layout, (length, batch, share.size))
            return Sequence(array, share.tiles, self.batch)

        kept, parts = self._storage.layer(number), steps * self.batch.count

        def streams(name, kind, count):
            return self.memory.add_raw(f"{name}{number}", kind, count) if kept.compressed else None

        def of_gates(name, kind):
            tiles = GATES * tiling.units.tiles
            layout = steps * of_step * tiles, partial(memory.gates_index, tiling.units, steps, self.batch)
            return Sequence(add(name, kind, layout, (steps, batch, GATES, hidden)), tiles, self.batch)

        below = self.layers[-1] if number else None
        needed = NEEDED_ARRAYS * tiling.units.tiles
        return LayerArrays(
            number=number,
            tiling=tiling,
            rows=add("rows", "weights", rows, matrix),
            columns=add("columns", "weights", columns, matrix),
            gradient=add("gradient", "optimizer", columns, matrix),
            velocity=add("velocity", "optimizer", columns, matrix),
            bias=add("bias", "weights", biases, vector, CLOSED),
            bias_gradient=add("bias_gradient", "optimizer", biases, vector),
            bias_velocity=add("bias_velocity", "optimizer", biases, vector),
            norms=add("norms", "optimizer", norms, (inputs + hidden,)),
            x=below.h if below else sequence("x", "activations", tiling.inputs, steps),
            x_step=1 if below else 0,
            h=sequence("h", "activations", tiling.units, steps + 1),
            c=sequence("c", "intermediates", tiling.units, 1 if kept.compressed else steps + 1),
            index=streams("index", "intermediates", parts * len(tiling.unit_groups) * len(KINDS)),
            storage=kept,
            delta=None if kept.compressed else of_gates("delta", "deltas"),
            delta_index=streams("delta_index", "deltas", parts * tiling.units.tiles),
            needed=None if stay(self.config, tiling.columns, tiling.rows) else streams("needed", "deltas", needed),
            dy=sequence("dy", "activations", tiling.units, steps),
            dx=below.dy if below else sequence("dx", "activations", tiling.inputs, steps),
            dh=sequence("dh", "activations", tiling.units, 1),
            dc=sequence("dc", "activations", tiling.units, 1),
            dh_sum=sequence("dh_sum", "activations", tiling.units, 1) if self.mask else None,
        )


def _once(make: Callable, *arguments):
    """Give a function that makes something when it is first asked for, and the same from then on."""
    return cache(partial(make, *arguments))
