"""The arrays of a layer in the channels' windows, and where parts of them lie."""

import math
from dataclasses import dataclass, replace

import numpy as np

from etalstm.plan.emit import Place, RowMap
from etalstm.plan.memory import Array
from etalstm.plan.tiling import GATES, BatchTiles, LayerTiling, Span
from etalstm.storage import KINDS, LayerStorage


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

    def step(self, number: int) -> Array:
        """One step as an array of its own: (B, elements of a sequence)."""
        part, shape = self.array.part(number * self.step_vectors, self.step_vectors), self.array.shape[1:]

        def index():
            return np.where(part.index < 0, part.index, part.index - number * math.prod(shape))

        return replace(part, make_index=index, shape=shape)


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
    needed : Array        with compressed storage, unless the columns stay in the lanes: a vector for each tile and
        gate, which rows the present δ needs
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
    needed: Array | None
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

    @property
    def row_map(self) -> RowMap | None:
        """Where the map of the rows lies that the present δ needs, if there is one."""
        return RowMap(Place(self.needed, 0), self.tiling.units) if self.needed else None
