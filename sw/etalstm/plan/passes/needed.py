"""Maps of the rows of weights that δ, or the changes of x and h, need: how the machine makes them."""

import numpy as np

from etalstm.plan.memory.operands import Operand, Parameter, RowMap, Scratch
from etalstm.plan.memory.tiling import NEEDED_ARRAYS, Span, ceil_div
from etalstm.plan.passes.vectors import ONE, ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import PARAMETER_NEEDED_SCALE, Traffic, VectorOp

_LEAST = np.finfo(np.float32).smallest_normal  # what is less becomes 0


def needed_scale(threshold: float) -> np.float32:
    """Give the smallest factor with which no product of an element that is kept becomes 0.

    The machine has no operation that compares. But it has no subnormals either: with `_LEAST` / `threshold`, rounded
    up, the product of an element below the threshold is 0. There are two exceptions. An element that is less than a
    rounding error below the threshold may stay. With a threshold above 1 every element above 1 may stay. Their rows
    are loaded in vain.

    Parameters
    ----------
    threshold : float
        Elements of δ, or changes, whose size is below are dropped; 0: none.
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
    """Emits the making of a stage's row map, whose layer has one.

    Parameters
    ----------
    emitter : Emitter
    scratch : Scratch
    row_map : RowMap
    most : int
        Tiles of units that are worked on at a time.
    """

    def __init__(self, emitter: Emitter, scratch: Scratch, row_map: RowMap, most: int):
        self._emitter, self._place = emitter, row_map.place
        self._rows = scratch.take("the rows that are needed", NEEDED_ARRAYS * most)

    def keep(self, delta: Operand, kept: Operand, group: Span, size: int, *, anew: bool) -> None:
        """Store 1 for each row of a group of units of which δ is kept for some sequence, [tile][gate].

        Parameters
        ----------
        delta : Operand
            δ of the group, [tile][gate][b].
        kept : Operand
            Vectors that are overwritten by as many elements, which are 0 where δ is dropped.
        group : Span
            Tiles of units.
        size : int
            Sequences.
        anew : bool
            Forget what the map says; else its rows are still needed.
        """
        emitter, rows = self._emitter, NEEDED_ARRAYS * group.count
        emitter.vector(VectorOp.MULTIPLY, kept, Parameter(PARAMETER_NEEDED_SCALE), delta, inner=rows * size)
        place = self._place.at(NEEDED_ARRAYS * group.first)
        if anew:
            emitter.vector(VectorOp.MULTIPLY, self._rows, ZERO, ZERO, inner=rows)
        else:
            emitter.load(self._rows, place, Traffic.DELTAS, 1, rows)
        needed, every = self._rows.at(0, outer=0), kept.at(0, outer=1, inner=size)
        emitter.vector(VectorOp.SELECT, needed, every, ONE, outer=size, inner=rows, serial=True)
        emitter.store(self._rows, place, Traffic.DELTAS, 1, rows)
