"""The cells of a layer in the order in which they are worked on.

Dimensions: B sequences, T steps. A row is one step of one sequence. Rows are ordered as in a ``PackedSequence``: by
step, and in a step the longest sequence first. A padded batch is one whose sequences are equally long.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from etalstm.research.layouts.layout import BATCH_MAJOR

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
    layout : str
        Of its products with the recurrent weights: see :mod:`etalstm.research.layouts.layout`.
    """

    steps: range
    rows: slice
    skipped: bool
    layout: str


@dataclass(frozen=True)
class Plan:
    """What is done in a layer's passes.

    Members
    -------
    sizes : tuple of T int
        Sequences that have a step; they do not grow.
    skipped : tuple of T bool
        Cells that keep nothing and have no backward pass.
    choose : callable
        Gives the layout of a block whose steps all have so many sequences. Other blocks are batch-major.
    """

    sizes: tuple[int, ...]
    skipped: tuple[bool, ...]
    choose: Callable[[int], str]

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
        most, least = self.sizes[steps.start], self.sizes[steps.stop - 1]
        layout = self.choose(most) if most == least else BATCH_MAJOR
        return Block(steps, rows, self.skipped[steps.start], layout)

    def _firsts(self) -> Iterator[int]:
        """Give the first step of each block."""
        first = 0
        for step in range(len(self.sizes)):
            is_full = self.starts[step + 1] - self.starts[first] > BLOCK_ROWS and step > first
            if step == 0 or is_full or self.skipped[step] != self.skipped[step - 1]:
                first = step
                yield step
