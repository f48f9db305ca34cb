"""How groups of channels divide the optimiser's state of a matrix, and through which memory they exchange its parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.tiling import LayerTiling


@dataclass(frozen=True)
class Columns:
    """A column span of a layer, and where its vectors begin.

    Members
    -------
    number, first_tile, count : int    of the column span: its number, its first column tile, its column tiles
    first : int                        its first vector in the column copy
    first_in_shard : int               its first vector in an array of one group's rows
    """

    number: int
    first_tile: int
    count: int
    first: int
    first_in_shard: int


@dataclass(frozen=True)
class Shards:
    """The rows of a layer's matrix that each group of channels keeps gradient and velocity of.

    Group g has the rows g·stride to g·stride + rows - 1. All groups have equally many, because they run the same
    program. Where the rows cannot be divided equally, neighbours overlap: both have the same values there.
    """

    tiling: LayerTiling
    groups: int

    @property
    def stride(self) -> int:
        """Rows from the first of one group to the first of the next."""
        return self.tiling.rows // self.groups

    @property
    def rows(self) -> int:
        """Rows of each group."""
        return self.tiling.rows - (self.groups - 1) * self.stride

    @property
    def vectors(self) -> int:
        """Vectors of each group's rows."""
        return self.rows * self.tiling.columns

    def rows_of(self, group: int) -> range:
        """Give the rows of a group."""
        first = group * self.stride
        return range(first, first + self.rows)

    def owners(self, rows: range) -> Iterator[tuple[int, range]]:
        """Cut rows, in ascending order, into those that are taken from one group each."""
        first = rows.start
        for group in range(self.groups):
            stop = rows.stop if group == self.groups - 1 else min(rows.stop, (group + 1) * self.stride)
            if first < stop:
                yield group, range(first, stop)
                first = stop

    @property
    def normed_stride(self) -> int:
        """Column spans from the first one whose norms a group sums to that of the next group: see :attr:`normed`."""
        alike = len({columns.count for columns in self.columns}) == 1
        return len(self.columns) // self.groups if alike else 0

    @property
    def normed(self) -> tuple[Columns, ...]:
        """The column spans whose norms the first group of channels sums.

        Group g sums those of as many, `normed_stride`·g further on. So the programs of all groups differ in an address
        alone. Where the column spans cannot be divided equally, neighbours overlap. If they are of different widths,
        each group sums all norms.
        """
        return self.columns[: len(self.columns) - (self.groups - 1) * self.normed_stride]

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        """The layer's column spans."""
        result, vectors = [], 0
        for number, span in enumerate(self.tiling.column_spans):
            firsts = self.tiling.rows * vectors, self.rows * span.first
            result.append(Columns(number, span.first, span.count, *firsts))
            vectors += self.tiling.weight_vectors(span.count)
        return tuple(result)


# Column spans of dW that are there at once: other groups read one while the next is summed.
SUMS_SLOTS = 2

# Column spans of updated weights that are there at once, two at least. With a third no group waits for another one
# before it updates the next.
UPDATED_SLOTS = 3


@dataclass(frozen=True)
class Exchange:
    """An array that is used again and again: it is divided into slots, and column spans take turns.

    A slot has `sums_vectors` for the dW of a column span, `updated_vectors` for the updated weights of a shard of it.
    """

    array: Array
    sums_vectors: int
    updated_vectors: int

    def sums(self, number: int) -> Array:
        """Give the slot for dW of a layer's column span."""
        return self._slot(number % SUMS_SLOTS, self.sums_vectors)

    def updated(self, turn: int) -> Array:
        """Give the slot for the updated weights of a column span; all layers' are counted."""
        slots = min(UPDATED_SLOTS, self.array.vectors // self.updated_vectors)
        return self._slot(turn % slots, self.updated_vectors)

    def _slot(self, number: int, vectors: int) -> Array:
        return replace(self.array.section(number * vectors, vectors), name=f"{self.array.name} {number}")


def allocate_exchange(into: MemoryMap, stages: Sequence[Shards]) -> Exchange | None:
    """Allocate what the column spans of some stages need; None if there is one group of channels."""
    if into.groups == 1:
        return None
    widest = [(shards, max(columns.count for columns in shards.columns)) for shards in stages]
    sums = max(shards.tiling.rows * count for shards, count in widest)
    updated = max(shards.rows * count for shards, count in widest)
    slots = min(SUMS_SLOTS, max(len(shards.columns) for shards in stages))
    array = into.add_raw("exchange", "optimizer", max(slots * sums, 2 * updated), exchanged=True)
    return Exchange(array, sums, updated)
