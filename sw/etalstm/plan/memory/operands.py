"""What instructions work on: vectors of lane memories, parameters, sections of arrays, sequences of them, logs."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from etalstm.errors import PlanError
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.tiling import BatchTiles, Partition
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory


@final
class Section(NamedTuple):
    """A section of an array in the channels' windows. Sections of one array are equal, or they share no vector."""

    array: Hashable
    section: tuple = ()


@dataclass(frozen=True)
class Operand:
    """Vectors of a lane memory that an instruction runs through with two nested loops.

    Members
    -------
    outer, inner : int    strides
    """

    memory: Memory
    address: int
    outer: int = 0
    inner: int = 1

    def at(self, offset: int, outer: int | None = None, inner: int | None = None) -> "Operand":
        """Move by `offset` vectors, with other strides where given."""
        return Operand(
            self.memory,
            self.address + offset,
            self.outer if outer is None else outer,
            self.inner if inner is None else inner,
        )


@dataclass(frozen=True)
class Parameter:
    """A scalar that the host sets before the program starts."""

    number: int


@dataclass(frozen=True)
class Location:
    """Vectors of an array in the channels' windows, and the name under which their use is tracked."""

    array: Array
    vector: int
    section: tuple[Hashable, ...] = ()

    def at(self, offset: int) -> "Location":
        """Move by `offset` vectors."""
        return Location(self.array, self.vector + offset, self.section)

    @property
    def resource(self) -> Section:
        """What the program tracks."""
        return Section(self.array.name, self.section)


@dataclass(frozen=True)
class RowMap:
    """Which rows of weights a broadcast array needs.

    Members
    -------
    location : Location      the map of the first tile: a vector for each row of a lane, 0 where the row is not needed
    partition : Partition    of the array's elements
    gates : int              rows of each element
    """

    location: Location
    partition: Partition
    gates: int


LOCAL_GRADIENTS, DELTAS = range(2)  # logs, by their streams; the forward pass stores changes in the second one


@dataclass(frozen=True)
class Log:
    """Where compressed streams are appended; a program's first stream in it begins it anew.

    Members
    -------
    number : int           which of a channel's logs
    array : Array          the memory it has
    worst : int            vectors that it would need if its streams dropped nothing; more than 0
    layer : int or None    the layer whose streams it has; None: of several layers
    """

    number: int
    array: Array
    worst: int
    layer: int | None = None

    @property
    def share(self) -> float:
        """Its room as a share of `worst`."""
        return self.array.vectors / self.worst


class Scratch:
    """Hands out the scratch memory of a phase, from address 0; ``PlanError`` when it is full."""

    def __init__(self, config: Config):
        self._depth = config.scratch_depth
        self._next = 0

    @property
    def left(self) -> int:
        """Vectors that nobody has reserved."""
        return self._depth - self._next

    def take(self, name: str, vectors: int) -> Operand:
        """Reserve `vectors` vectors."""
        address = self._next
        self._next += vectors
        if self._next > self._depth:
            raise PlanError(f"scratch memory of {self._depth} vectors has no room for {name} ({self._next} needed)")
        return Operand(Memory.SCRATCH, address)


@dataclass(frozen=True)
class Sequence:
    """An array with a section for each step and batch tile, [tile][b] vectors in each (or [tile][gate][b]).

    `tiles`: vectors for each sequence: tiles, or a multiple of them for several gates.
    """

    array: Array
    tiles: int
    batch: BatchTiles

    def at(self, step: int, batch_tile: int, tile: int = 0) -> Location:
        """Vectors from `tile` on; all tiles of a step and batch tile are tracked together."""
        size = self.batch.size_of(batch_tile)
        start = step * self.step_vectors + batch_tile * self.tiles * self.batch.size
        return Location(self.array, start + tile * size, (step, batch_tile))

    @property
    def step_vectors(self) -> int:
        """Vectors of a step."""
        return self.batch.count * self.tiles * self.batch.size

    def first(self, steps: int) -> Array:
        """The first steps as an array of their own: (steps, B, elements of a sequence)."""
        if steps == self.array.shape[0]:
            return self.array
        return replace(self.array.section(0, steps * self.step_vectors), shape=(steps, *self.array.shape[1:]))

    def step(self, number: int) -> Array:
        """One step as an array of its own: (B, elements of a sequence)."""
        section, shape = self.array.section(number * self.step_vectors, self.step_vectors), self.array.shape[1:]

        def elements() -> np.ndarray:
            return np.where(section.elements < 0, section.elements, section.elements - number * math.prod(shape))

        return replace(section, make_elements=elements, shape=shape)
