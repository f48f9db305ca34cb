"""Sums of gates: what a broadcast array adds to them, block run by block run of its weights."""

from dataclasses import dataclass
from functools import partial

from etalstm.plan.memory.operands import Operand, Place, RowMap
from etalstm.plan.memory.tiling import Share, Span
from etalstm.plan.passes.weights import Matrix, WeightStore
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import Traffic


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The gates' sums of a group of units, for some sequences.

    Members
    -------
    number : int
        Of the group.
    group : Span
    size : int
        Sequences.
    gates : int
        Rows of each unit.
    queue : Operand
        Where the sums start in the queue: they alternate its halves.
    in_second_half : bool
    """

    number: int
    group: Span
    size: int
    gates: int
    queue: Operand
    in_second_half: bool

    @property
    def row_tiles(self) -> int:
        """Vectors of rows that are summed for each scalar."""
        return self.gates * self.group.count

    @property
    def vectors(self) -> int:
        """Vectors of the queue that the sums take."""
        return self.row_tiles * self.size


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a broadcast array adds to sums.

    Members
    -------
    place : Place
        The array, or with `compressed` the index of its first tile's stream.
    share : Share
        How its elements are divided.
    matrix : Matrix
        Its weights.
    row : int
        Row of the matrix's array that belongs to the first element.
    compressed : bool
    narrow : bool
        A vector of the weights holds two tiles.
    start, finish : bool
        The terms begin the sums, and end them.
    needed : RowMap or None
        The rows of weights that the array needs, if that is known.
    """

    place: Place
    share: Share
    matrix: Matrix
    row: int
    compressed: bool = False
    narrow: bool = False
    start: bool
    finish: bool
    needed: RowMap | None = None


def add_terms(emitter: Emitter, weights: WeightStore, sums: Sums, terms: Terms, bias: Operand | None) -> None:
    """Append the products of a broadcast array, added to sums; without `bias` these begin with their first term."""
    for run in (runs := weights.runs(terms.matrix, terms.share, 1, sums.number)):
        bring = partial(weights.bring, terms.matrix, sums.number, run, terms.row, terms.needed)
        # A LOAD_ROWS holds back what follows it until its map is stored. So the CAST comes before it.
        brought = None if terms.needed else bring()
        emitter.cast(
            terms.place,
            terms.share,
            Traffic.ACTIVATIONS,
            compressed=terms.compressed,
            first_block=run.first_block,
            blocks=run.blocks,
            gates=1,
            batch=sums.size,
            tiles=sums.row_tiles,
            start=terms.start and run is runs[0],
            finish=terms.finish and run is runs[-1],
            narrow=terms.narrow,
        )
        vectors = run.rows * terms.matrix.groups[sums.number]
        emitter.mac(brought or bring(), vectors, sums.queue, sums.vectors, sums.row_tiles, bias=bias)
