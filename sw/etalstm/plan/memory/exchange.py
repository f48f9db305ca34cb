"""The memory through which groups of channels give each other what they have of a column group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.shards import Shards

# Column groups of dW that are there at once: other groups read one while the next is summed.
SUMS_SLOTS = 2

# Column groups of updated weights that are there at once, two at least. With a third no group waits for another one
# before it updates the next.
UPDATED_SLOTS = 3


@dataclass(frozen=True)
class Exchange:
    """An array that is used again and again: it is divided into slots, and column groups take turns.

    Members
    -------
    array : Array
    sums_vectors, updated_vectors : int
        Of a slot, for the dW of a column group and for the updated weights of a group's shard of it.
    """

    array: Array
    sums_vectors: int
    updated_vectors: int

    def sums(self, number: int) -> Array:
        """Give the slot for dW of a layer's column group."""
        return self._slot(number % SUMS_SLOTS, self.sums_vectors)

    def updated(self, turn: int) -> Array:
        """Give the slot for the updated weights of a column group; all layers' are counted."""
        slots = min(UPDATED_SLOTS, self.array.vectors // self.updated_vectors)
        return self._slot(turn % slots, self.updated_vectors)

    def _slot(self, number: int, vectors: int) -> Array:
        """Give some of the vectors as an array whose use is tracked on its own."""
        return replace(self.array.part(number * vectors, vectors), name=f"{self.array.name} {number}")


def allocate_exchange(into: MemoryMap, stages: Sequence[Shards]) -> Exchange | None:
    """Allocate what the column groups of some stages need; None if there is one group of channels."""
    if into.groups == 1:
        return None
    widest = [(shards, max(columns.count for columns in shards.columns)) for shards in stages]
    sums = max(shards.tiling.rows * count for shards, count in widest)
    updated = max(shards.rows * count for shards, count in widest)
    slots = min(SUMS_SLOTS, max(len(shards.columns) for shards in stages))
    array = into.add_raw("exchange", "optimizer", max(slots * sums, 2 * updated), exchanged=True)
    return Exchange(array, sums, updated)
