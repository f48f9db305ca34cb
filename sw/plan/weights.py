"""Which weights are in the weight memory when: all of a pass at once, or block runs that alternate two halves."""

from dataclasses import dataclass
from functools import cache

from etalstm.errors import PlanError
from etalstm.hw.config import Config
from etalstm.hw.contract import MOST_GATES, Memory, Traffic
from etalstm.plan.emit import MOST_COUNTED, Emitter
from etalstm.plan.memory import Array
from etalstm.plan.operands import Operand, Place, RowMap
from etalstm.plan.tiling import Share, stay


@dataclass(frozen=True)
class Run:
    """Consecutive blocks of a broadcast array, and the rows of weights that belong to them.

    Members
    -------
    first_block, blocks : int
        In the order (channel, tile).
    first_row, rows : int
        Rows of the weights' array: one for each element of the blocks.
    """

    first_block: int
    blocks: int
    first_row: int
    rows: int


@cache
def runs(share: Share, elements_per_unit: int, most_rows: int) -> list[Run]:
    """Cut all blocks of a share into runs of at most `most_rows` rows of weights.

    Raises
    ------
    PlanError
        If one block alone has more.
    """
    result, first_block, first_row, row = [], 0, 0, 0
    total = share.channels * share.tiles
    for block in range(total):
        rows = share.lanes_of(block % share.tiles) * elements_per_unit
        if rows > most_rows:
            raise PlanError(f"a block's {rows} rows of weights do not fit half of the weight memory ({most_rows} rows)")
        if row + rows - first_row > most_rows:
            result.append(Run(first_block, block - first_block, first_row, row - first_row))
            first_block, first_row = block, row
        row += rows
    result.append(Run(first_block, total - first_block, first_row, row - first_row))
    return result


class WeightStore:
    """Brings rows of a weight array to the weight memory, once if everything fits, else again for each use.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    array : Array
        Groups one after the other, rows of vectors in each.
    groups : list of int
        Vectors of a row of each group.
    rows : int
        Rows of every group.
    first : int
        Where the weight memory that the store has begins; it has `config.weight_depth` vectors.
    """

    def __init__(self, config: Config, emitter: Emitter, array: Array, groups: list[int], rows: int, first: int = 0):
        self._emitter, self._array, self._groups = emitter, array, groups
        self._offsets = [rows * sum(groups[:n]) for n in range(len(groups))]
        self._first, self._half, self._vector_beats = first, config.weight_depth // 2, config.vector_beats
        self._resident = stay(config, sum(groups), rows)
        self._rows = rows
        self._loaded: set[tuple[int, int]] = set()
        self._turn = 0

    def runs(self, share: Share, elements_per_unit: int, group: int) -> list[Run]:
        """Runs of a broadcast array whose weights are brought together."""
        most = self._rows if self._resident else self._half // self._groups[group]
        return runs(share, elements_per_unit, min(most, MOST_COUNTED))

    def vectors(self, run: Run, group: int) -> int:
        """Count the vectors of a run's weights."""
        return run.rows * self._groups[group]

    def bring(
        self, group: int, run: Run, row_offset: int = 0, needed: RowMap | None = None, whole_beats: int = 0
    ) -> Operand:
        """Have the weights of a run in the weight memory.

        Parameters
        ----------
        group : int
        run : Run
        row_offset : int
            Rows of the group that come before the broadcast array's first.
        needed : RowMap, optional
            If weights are brought again for each use, the rows that this one needs, of the broadcast array.
        whole_beats : int
            Bring so many beats at least whether they are needed or not: while the map is not known yet.
        """
        of_row, row = self._groups[group], row_offset + run.first_row
        vector = self._offsets[group] + row * of_row
        if self._resident:
            to = Operand(Memory.WEIGHTS, self._first + vector)
            if (group, row) in self._loaded:
                return to
            self._loaded.add((group, row))
        else:
            to = Operand(Memory.WEIGHTS, self._first + self._half * (self._turn % 2))
            self._turn += 1
        self._load(to, vector, run, of_row, needed, whole_beats)
        return to

    def _load(self, to, vector, run, of_row, needed, whole_beats):
        """Load a run's first blocks whole, all if nothing is known of what is needed, and of the others what is."""
        whole, blocks = run.rows, run.blocks
        if needed is not None:
            whole = blocks = 0
            while whole * of_row * self._vector_beats < whole_beats and blocks < run.blocks:
                whole += MOST_GATES * needed.share.lanes_of((run.first_block + blocks) % needed.share.tiles)
                blocks += 1

        def part(first, rows):
            lane, place = to.at(first * of_row, outer=of_row), Place(self._array, vector + first * of_row)
            return lane, place, Traffic.WEIGHTS, rows, of_row

        if whole:
            self._emitter.load(*part(0, whole))
        if blocks < run.blocks:
            rest = part(whole, run.rows - whole)
            self._emitter.load_rows(*rest, first_block=run.first_block + blocks, needed=needed)
