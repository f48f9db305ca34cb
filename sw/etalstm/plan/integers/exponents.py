"""Exponents in the scratch memory: those that all elements share, and those of a channel's rows."""

from functools import partial

from etalstm.plan.memory.integer_arrays import Constant, IntegerArrays
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import Traffic, VectorOp


class Exponents:
    """Brings a layer's exponents, and adds those of its rows to others: of all rows, or of those of its `shard`."""

    def __init__(self, emitter: Emitter, scratch: Scratch, arrays: IntegerArrays, *, shard: bool = False):
        tiling = arrays.tiling
        self._emitter, self._arrays = emitter, arrays
        self._rows = tiling.shard_rows if shard else tiling.rows
        self._stride = tiling.shard_rows if shard and tiling.parts > 1 else 0
        self._take = partial(scratch.take, "exponents")
        self._constants, self.of_rows = self._take(Constant.COUNT), self._take(self._rows)

    def begin(self) -> None:
        """Bring them."""
        of_constants, of_rows = (Location(array, 0) for array in (self._arrays.constants, self._arrays.exponents))
        self._emitter.load(self._constants, of_constants, Traffic.WEIGHTS, 1, Constant.COUNT)
        self._emitter.load(self.of_rows, of_rows, Traffic.WEIGHTS, 1, self._rows, group_stride=self._stride)

    def constant(self, number: int) -> Operand:
        """Give one that all elements share."""
        return self._constants.at(number, outer=0, inner=0)

    def take(self) -> Operand:
        """Reserve memory for exponents of the rows."""
        return self._take(self._rows)

    def with_rows(self, to: Operand, number: int, *, minus: bool = False) -> None:
        """Make the sums of a shared exponent and those of the rows, or the differences."""
        op = VectorOp.SUBTRACT_INTEGERS if minus else VectorOp.ADD_INTEGERS
        self._emitter.vector(op, to, self.constant(number), self.of_rows, inner=self._rows)
