"""The cells of a layer in the order in which they are worked on.

Dimensions: B sequences, T steps. A row is one step of one sequence. Rows are ordered as in a ``PackedSequence``: by
step, and in a step the longest sequence first. A padded batch is one whose sequences are equally long.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

BLOCK_ROWS = 256  # a product that adds to dW reads and writes dW; with fewer rows that would take most of its time


@dataclass(frozen=True)
class Block:
    """Consecutive steps whose products with x, and whose compression, are one operation each.

    Members
    -------
    steps : range
    rows : slice
        Of these steps.
    skipped : bool
        The cells keep nothing and have no backward pass.
    """

    steps: range
    rows: slice
    skipped: bool


@dataclass(frozen=True)
class Plan:
    """What is done in a layer's passes.

    Members
    -------
    sizes : tuple of T int
        Sequences that have a step; they do not grow.
    skipped : tuple of T bool
        Cells that keep nothing and have no backward pass.
    """

    sizes: tuple[int, ...]
    skipped: tuple[bool, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First row of each step, and the number of rows."""
        return (0, *accumulate(self.sizes))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All steps, cut where skipped steps begin or end, and before a block would have more than ``BLOCK_ROWS``."""
        firsts = [*self._firsts(), len(self.sizes)]
        return tuple(self._block(range(*steps)) for steps in pairwise(firsts))

    def rows(self, step: int, count: int | None = None) -> slice:
        """Give the rows of a step: those of the first `count` sequences, or all."""
        return slice(self.starts[step], self.starts[step] + (self.sizes[step] if count is None else count))

    def ends(self) -> Iterator[slice]:
        """Give the rows that are their sequence's last, sequences ascending."""
        following = (*self.sizes[1:], 0)
        for step in reversed(range(len(self.sizes))):
            if following[step] < self.sizes[step]:
                yield slice(self.starts[step] + following[step], self.starts[step + 1])

    def _block(self, steps: range) -> Block:
        rows = slice(self.starts[steps.start], self.starts[steps.stop])
        return Block(steps, rows, self.skipped[steps.start])

    def _firsts(self) -> Iterator[int]:
        """Give the first step of each block."""
        first = 0
        for step in range(len(self.sizes)):
            is_full = self.starts[step + 1] - self.starts[first] > BLOCK_ROWS and step > first
            if step == 0 or is_full or self.skipped[step] != self.skipped[step - 1]:
                first = step
                yield step
