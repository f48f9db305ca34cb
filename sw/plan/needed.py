"""The map of the rows of weights that δ needs, as the machine makes it."""

from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter
from etalstm.plan.operands import Operand, Place, Scratch
from etalstm.plan.tiling import NEEDED_ARRAYS, Span
from etalstm.plan.vectors import ONE, ZERO


class NeededRows:
    """Emits the making of a stage's row map, whose layer has one.

    Parameters
    ----------
    emitter : Emitter
    scratch : Scratch
    layer : LayerArrays
    most : int
        Tiles of units that are worked on at a time.
    """

    def __init__(self, emitter: Emitter, scratch: Scratch, layer: LayerArrays, most: int):
        self._emitter, self._layer = emitter, layer
        self._rows = scratch.take("the rows that are needed", NEEDED_ARRAYS * most)

    def keep(self, delta: Operand, group: Span, size: int, *, anew: bool) -> None:
        """Store 1 for each row of a group of units whose δ is not zero for some sequence, [tile][gate].

        Parameters
        ----------
        delta : Operand
            δ of the group, [tile][gate][b].
        group : Span
            Tiles of units.
        size : int
            Sequences.
        anew : bool
            Forget what the map says; else its rows are still needed.
        """
        emitter, rows = self._emitter, NEEDED_ARRAYS * group.count
        place = Place(self._layer.needed, NEEDED_ARRAYS * group.first)
        if anew:
            emitter.vector(VectorOp.MULTIPLY, self._rows, ZERO, ZERO, inner=rows)
        else:
            emitter.load(self._rows, place, Traffic.DELTAS, 1, rows)
        each = {"outer": size, "inner": rows, "serial": True}
        emitter.vector(VectorOp.SELECT, self._rows.at(0, outer=0), delta.at(0, outer=1, inner=size), ONE, **each)
        emitter.store(self._rows, place, Traffic.DELTAS, 1, rows)
