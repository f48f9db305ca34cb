"""Arrays that hold something for each step and batch tile."""

import math
from dataclasses import dataclass, replace

import numpy as np

from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.operands import Place
from etalstm.plan.memory.tiling import BatchTiles


@dataclass(frozen=True)
class Sequence:
    """An array with a part for each step and batch tile, [tile][b] vectors in each (or [tile][gate][b]).

    Members
    -------
    array : Array
    tiles : int
        Vectors for each sequence: tiles, or a multiple of them for several gates.
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

    def first(self, steps: int) -> Array:
        """The first steps as an array of their own: (steps, B, elements of a sequence)."""
        if steps == self.array.shape[0]:
            return self.array
        return replace(self.array.part(0, steps * self.step_vectors), shape=(steps, *self.array.shape[1:]))

    def step(self, number: int) -> Array:
        """One step as an array of its own: (B, elements of a sequence)."""
        part, shape = self.array.part(number * self.step_vectors, self.step_vectors), self.array.shape[1:]

        def index():
            return np.where(part.index < 0, part.index, part.index - number * math.prod(shape))

        return replace(part, make_index=index, shape=shape)
