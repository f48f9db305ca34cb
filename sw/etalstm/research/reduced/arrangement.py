"""The cells of a layer: the order in which they are computed, and the layout of their values in memory.

A row is one step of one sequence. Rows are ordered as in a ``PackedSequence``: by step, and in a step the longest
sequence first. A padded batch counts as one whose sequences are equally long.

There is one class for each layout. A step of B sequences has B·H numbers of h. In batch-major these are B cells of H
units. In batch-minor the sequences are innermost, and the step counts as one cell of H·B units. So the element-wise
functions of :mod:`etalstm.research.reduced.layer`, and the compression, serve both layouts. Only the products, and the
way from rows to cells and back, differ.

Dimensions: T steps of a layer; N rows, S steps and B sequences of a block, I inputs, H units; M cells of U units: N and
H, or S and H·B. m: the cells of one step, B or 1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from etalstm.network.shape import GATES
from etalstm.research.layouts import BATCH_MAJOR, BATCH_MINOR

BLOCK_ROWS = 256  # a product that adds to dW reads and writes dW, which would take most of its time with fewer rows


@dataclass(frozen=True)
class Block:
    """Consecutive steps whose products with x, and whose compression, are one operation each.

    Cells of a skipped block store nothing and have no backward pass. The layout is that of the products with the
    recurrent weights: see :mod:`etalstm.research.layouts`.
    """

    steps: range
    rows: slice
    skipped: bool
    layout: str


@dataclass(frozen=True)
class Plan:
    """The work of a layer's passes: steps, skipped cells, and layouts."""

    sizes: tuple[int, ...]  # of each step, the number of sequences that have it; descending
    skipped: tuple[bool, ...]  # cells that keep nothing and have no backward pass
    # Gives the layout of a block whose steps all have so many sequences. Other blocks are batch-major.
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


class Matrix:
    """A weight matrix (4H, H) and its transpose. A product is fastest with the matrix whose rows it reads."""

    def __init__(self, given: Tensor):
        self.given = given

    @cached_property
    def transposed(self) -> Tensor:
        """The transpose, contiguous; made on first use."""
        return self.given.T.contiguous()


class BatchMajor:
    """Cells are rows, and share their memory. Steps of the block may have unequal numbers of sequences."""

    def __init__(self, plan: Plan, block: Block):
        self._plan, self._first = plan, block.rows.start

    def cells(self, step: int) -> slice:
        """Give the cells of a step."""
        rows = self._plan.rows(step)
        return slice(rows.start - self._first, rows.stop - self._first)

    def units(self, hidden: int) -> int:
        """Give U for H."""
        return hidden

    def enter(self, rows: Tensor) -> Tensor:
        """Make cells (m, H) or (M, H) of the rows of one step or of all; they share memory."""
        return rows

    def results(self, rows: Tensor) -> Tensor:
        """Give cells for results that will :meth:`leave` to `rows`."""
        return rows

    def leave(self, cells: Tensor, rows: Tensor) -> None:
        """Write cells to the rows that they were made of: nothing to do, as they share memory."""

    def gate_sums(self, x: Tensor, w_ih: Tensor, bias: Tensor | None) -> Tensor:
        """Multiply x (N, I): give the gates' sums without the recurrent ones, (M, 4, U)."""
        sums = x @ w_ih.T if bias is None else torch.addmm(bias, x, w_ih.T)
        return sums.unflatten(1, (GATES, -1))

    def add_recurrent(self, sums: Tensor, h: Tensor, w_hh: Matrix) -> None:
        """Add the recurrent product of h (m, U) to a step's `sums` (m, 4, U)."""
        sums.flatten(1).addmm_(h, w_hh.transposed)

    def multiply_back(self, delta: Tensor, w_hh: Matrix, dh: Tensor) -> None:
        """Multiply δ (m, 4U) of a step by the recurrent weights into `dh` (m, U)."""
        torch.mm(delta, w_hh.given, out=dh)

    def rows_of_delta(self, p: Tensor) -> Tensor:
        """Give δ as rows, (N, 4H), a view of `p` (M, 6, U), whose first four kinds it is."""
        return p[:, :GATES].flatten(1)


class BatchMinor:
    """A step is one cell, in which the sequences are innermost; all steps of the block have the same number of them.

    Rows are copied on their way in and out.
    """

    def __init__(self, plan: Plan, block: Block):
        self._first, self._batch = block.steps.start, plan.sizes[block.steps.start]

    def cells(self, step: int) -> slice:
        """Give the cell of a step."""
        return slice(step - self._first, step - self._first + 1)

    def units(self, hidden: int) -> int:
        """Give U for H."""
        return hidden * self._batch

    def enter(self, rows: Tensor) -> Tensor:
        """Make cells (m, U) or (M, U) of the rows (B, H) of one step or (N, H) of all."""
        by_unit = rows.unflatten(0, (-1, self._batch)).transpose(1, 2)
        return by_unit.clone(memory_format=torch.contiguous_format).flatten(1)

    def results(self, rows: Tensor) -> Tensor:
        """Give cells for results that will :meth:`leave` to `rows`."""
        return rows.new_empty(len(rows) // self._batch, self.units(rows.shape[1]))

    def leave(self, cells: Tensor, rows: Tensor) -> None:
        """Write cells (m, U) or (M, U) to their rows (B, H) or (N, H)."""
        rows.unflatten(0, (-1, self._batch)).copy_(cells.unflatten(1, (-1, self._batch)).transpose(1, 2))

    def gate_sums(self, x: Tensor, w_ih: Tensor, bias: Tensor | None) -> Tensor:
        """Multiply x (N, I): give the gates' sums without the recurrent ones, (M, 4, U)."""
        sums = w_ih @ x.T if bias is None else torch.addmm(bias[:, None], w_ih, x.T)
        by_step = sums.unflatten(1, (-1, self._batch)).transpose(0, 1)
        return by_step.flatten(1).contiguous().unflatten(1, (GATES, -1))

    def add_recurrent(self, sums: Tensor, h: Tensor, w_hh: Matrix) -> None:
        """Add the recurrent product of h (m, U) to a step's `sums` (m, 4, U)."""
        sums.view(-1, self._batch).addmm_(w_hh.given, h.view(-1, self._batch))

    def multiply_back(self, delta: Tensor, w_hh: Matrix, dh: Tensor) -> None:
        """Multiply δ (m, 4U) of a step by the recurrent weights into `dh` (m, U)."""
        torch.mm(w_hh.transposed, delta.view(-1, self._batch), out=dh.view(-1, self._batch))

    def rows_of_delta(self, p: Tensor) -> Tensor:
        """Give δ as rows, (N, 4H), a copy of the first four kinds of `p` (M, 6, U)."""
        return p[:, :GATES].flatten(1).unflatten(1, (-1, self._batch)).transpose(0, 1).flatten(1).T


Arrangement = BatchMajor | BatchMinor


def arrangement_of(plan: Plan, block: Block) -> Arrangement:
    """Arrange a block as its layout says."""
    kinds: dict[str, type[Arrangement]] = {BATCH_MAJOR: BatchMajor, BATCH_MINOR: BatchMinor}
    return kinds[block.layout](plan, block)
