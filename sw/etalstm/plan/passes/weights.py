"""Which weights are in the weight memory when, and the maps that say which rows need not be loaded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

from etalstm.errors import PlanError
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.operands import Location, Operand, Parameter, RowMap, Scratch
from etalstm.plan.memory.tiling import NEEDED_ARRAYS, Partition, Span, ceil_div
from etalstm.plan.passes.vectors import ONE, ZERO
from etalstm.plan.program.emit import MOST_COUNTED, Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import PARAMETER_NEEDED_SCALE, Memory, Traffic, VectorOp


@dataclass(frozen=True)
class Run:
    """Consecutive blocks of a broadcast array, and the rows of weights that belong to them.

    Members
    -------
    first_block, blocks : int    in the order (channel, tile)
    first_row, rows : int        rows of the weights' array: one for each element of the blocks
    """

    first_block: int
    blocks: int
    first_row: int
    rows: int


@cache
def runs(partition: Partition, elements_per_unit: int, most_rows: int) -> list[Run]:
    """Cut all blocks of a partition into runs of at most `most_rows` rows of weights.

    Raises ``PlanError`` if one block alone has more.
    """
    result, first_block, first_row, row = [], 0, 0, 0
    total = partition.channels * partition.tiles
    for block in range(total):
        rows = partition.lanes_of(block % partition.tiles) * elements_per_unit
        if rows > most_rows:
            raise PlanError(f"a block's {rows} rows of weights do not fit half of the weight memory ({most_rows} rows)")
        if row + rows - first_row > most_rows:
            result.append(Run(first_block, block - first_block, first_row, row - first_row))
            first_block, first_row = block, row
        row += rows
    result.append(Run(first_block, total - first_block, first_row, row - first_row))
    return result


@dataclass(frozen=True)
class Matrix:
    """Rows of weights that a pass reads: some of an array that has spans one after the other, rows of vectors in each.

    Members
    -------
    widths : tuple of int    vectors of a row of each span
    height : int             rows of every span in the array
    rows : range             those that are read
    """

    array: Array
    widths: tuple[int, ...]
    height: int
    rows: range

    @classmethod
    def whole(cls, array: Array, widths: Iterable[int], height: int) -> "Matrix":
        """Take all rows."""
        return cls(array, tuple(widths), height, range(height))

    @property
    def row_vectors(self) -> int:
        """Vectors of a row, all spans together."""
        return sum(self.widths)

    @property
    def vectors(self) -> int:
        """Vectors that are read."""
        return self.row_vectors * len(self.rows)

    def location(self, number: int, row: int) -> Location:
        """Where a row of a span lies in the array."""
        return Location(self.array, self.height * sum(self.widths[:number]) + row * self.widths[number])

    def vector(self, number: int, row: int) -> int:
        """Count the vectors of the read rows that come before a row of a span."""
        return len(self.rows) * sum(self.widths[:number]) + (row - self.rows.start) * self.widths[number]


def staying(config: Config, sizes: Sequence[int], row_vectors: int) -> list[bool]:
    """Tell which of some matrices stay in the weight memory: all if they fit, else the first that leave enough.

    The rows of the others are loaded again for each use. They alternate two halves of what is left. That is at least
    half of the memory, and room for two blocks. `sizes` are the vectors of each matrix, `row_vectors` those of a row of
    a span at most.
    """
    if sum(sizes) <= config.weight_depth:
        return [True] * len(sizes)
    least, left, stays = max(config.weight_depth // 2, 2 * config.lanes * row_vectors), config.weight_depth, []
    for size in sizes:
        stays.append(left - size >= least)
        left -= size * stays[-1]
    return stays


class WeightStore:
    """Brings rows of matrices to the weight memory: once if they stay there, else again for each use.

    Parameters
    ----------
    matrices : sequence of Matrix    see :func:`staying`
    first : int    where the weight memory that the store has begins; it has `config.weight_depth` vectors
    """

    def __init__(self, config: Config, emitter: Emitter, matrices: Sequence[Matrix], first: int = 0):
        self._emitter, self._vector_beats = emitter, config.vector_beats
        stays = staying(config, [matrix.vectors for matrix in matrices], max(max(m.widths) for m in matrices))
        resident = [matrix for matrix, stay in zip(matrices, stays, strict=True) if stay]
        *firsts, self._alternate = accumulate((matrix.vectors for matrix in resident), initial=first)
        self._firsts = dict(zip(resident, firsts, strict=True))
        self._half = (first + config.weight_depth - self._alternate) // 2
        self._loaded: set[tuple[Matrix, int, int]] = set()
        self._turn = 0

    def runs(self, matrix: Matrix, partition: Partition, elements_per_unit: int, number: int) -> list[Run]:
        """Runs of a broadcast array whose weights are brought together."""
        most = len(matrix.rows) if matrix in self._firsts else self._half // matrix.widths[number]
        return runs(partition, elements_per_unit, min(most, MOST_COUNTED))

    def bring(
        self, matrix: Matrix, number: int, run: Run, row_offset: int = 0, needed: RowMap | None = None,
        whole_beats: int = 0,
    ) -> Operand:  # fmt: skip
        """Have the weights of a run in the weight memory.

        So many rows of the span as `row_offset` come before the broadcast array's first. Where weights are brought
        again for each use, `needed` are the rows of the array that this one needs. At least `whole_beats` are brought
        whether they are needed or not: while the map is not known yet.
        """
        row = row_offset + run.first_row
        if matrix in self._firsts:
            to = Operand(Memory.WEIGHTS, self._firsts[matrix] + matrix.vector(number, row))
            if (matrix, number, row) in self._loaded:
                return to
            self._loaded.add((matrix, number, row))
        else:
            to = Operand(Memory.WEIGHTS, self._alternate + self._half * (self._turn % 2))
            self._turn += 1
        self._load(to, matrix.location(number, row), run, matrix.widths[number], needed, whole_beats)
        return to

    def _load(self, to: Operand, rows: Location, run: Run, of_row: int, needed: RowMap | None, at_least: int) -> None:
        """Load whole blocks of a run, for `at_least` so many beats, then the needed rows; all if none are known."""
        whole, blocks = run.rows, run.blocks
        if needed is not None:
            whole = blocks = 0
            while whole * of_row * self._vector_beats < at_least and blocks < run.blocks:
                whole += needed.gates * needed.partition.lanes_of((run.first_block + blocks) % needed.partition.tiles)
                blocks += 1

        if whole:
            self._emitter.load(to.at(0, outer=of_row), rows, Traffic.WEIGHTS, whole, of_row)
        if needed and blocks < run.blocks:
            lane, rest = to.at(whole * of_row, outer=of_row), rows.at(whole * of_row)
            first_block, left = run.first_block + blocks, run.rows - whole
            self._emitter.load_rows(lane, rest, Traffic.WEIGHTS, left, of_row, first_block=first_block, needed=needed)


_LEAST = np.finfo(np.float32).smallest_normal  # what is less becomes 0


def needed_scale(threshold: float) -> np.float32:
    """Give the smallest factor by which no kept element, multiplied, becomes 0.

    The machine has no operation that compares. But it has no subnormals either: with `_LEAST` / `threshold`, rounded
    up, the product of an element below the threshold is 0. There are two exceptions. An element that is less than a
    rounding error below the threshold may stay. With a threshold above 1 every element above 1 may stay. Their rows
    are loaded in vain.

    `threshold`: elements of δ, or changes, whose size is below are dropped; 0: none.
    """
    if threshold <= _LEAST:
        return np.float32(1)
    exact = float(_LEAST) / threshold
    scale = np.float32(exact)
    return max(_LEAST, scale if scale >= exact else np.nextafter(scale, np.float32(1)))


def reduce_needed(emitter: Emitter, values: Operand, tiles: int, size: int) -> None:
    """Leave in the first vector of each tile, [tile][b], a value other than 0 wherever some sequence has one.

    The other vectors are overwritten. Halves are merged, so only log2(size) operations wait for each other.
    """
    first = values.at(0, outer=size)
    while size > 1:
        half = ceil_div(size, 2)
        other = first.at(half)
        emitter.vector(VectorOp.SELECT, first, other, other, outer=tiles, inner=size - half)
        size = half


class NeededRows:
    """Emits the computation of a stage's row map.

    `most`: tiles of units that are worked on at a time.
    """

    def __init__(self, emitter: Emitter, scratch: Scratch, row_map: RowMap, most: int):
        self._emitter, self._location = emitter, row_map.location
        self._rows = scratch.take("the rows that are needed", NEEDED_ARRAYS * most)

    def mark(self, delta: Operand, spare: Operand, span: Span, size: int, *, anew: bool) -> None:
        """Store 1 for each row of a span of units whose δ is kept in at least one sequence, [tile][gate].

        `delta` has δ of the span, [tile][gate][b], of `size` sequences. `spare` are vectors that are overwritten by as
        many elements, which are 0 where δ is dropped. With `anew` the map is empty before, else rows are added to it.
        """
        emitter, rows = self._emitter, NEEDED_ARRAYS * span.count
        emitter.vector(VectorOp.MULTIPLY, spare, Parameter(PARAMETER_NEEDED_SCALE), delta, inner=rows * size)
        location = self._location.at(NEEDED_ARRAYS * span.first)
        if anew:
            emitter.vector(VectorOp.MULTIPLY, self._rows, ZERO, ZERO, inner=rows)
        else:
            emitter.load(self._rows, location, Traffic.DELTAS, 1, rows)
        needed, every = self._rows.at(0, outer=0), spare.at(0, outer=1, inner=size)
        emitter.vector(VectorOp.SELECT, needed, every, ONE, outer=size, inner=rows, serial=True)
        emitter.store(self._rows, location, Traffic.DELTAS, 1, rows)
