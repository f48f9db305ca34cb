"""A cell's named vectors in the scratch memory, its operations on them, and the streams in which it keeps some."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from etalstm.network.cells.cell import Array
from etalstm.network.cells.operation import CONDITIONAL, Operation
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Operand, Parameter, Scratch
from etalstm.plan.memory.tiling import Span
from etalstm.plan.program.emit import Emitter
from etalstm_hw import contract
from etalstm_hw.contract import Traffic, VectorOp

ONE = Parameter(contract.PARAMETER_ONE)
ZERO = Parameter(contract.PARAMETER_ZERO)
MINUS_ZERO = Parameter(contract.PARAMETER_MINUS_ZERO)

Elsewhere = dict[str, Operand | Parameter]  # operands, by name, that no vector of the scratch memory has

_CONSTANTS = {"0": ZERO, "-0": MINUS_ZERO, "1": ONE}


class Vectors:
    """The vectors of one phase: an array of n vectors lies as [tile][n][b], for any number of tiles and sequences.

    `most`: tiles of units, times sequences, that are worked on at a time. `free`: how many vectors are left free in
    front of the array of a name.
    """

    def __init__(self, emitter: Emitter, scratch: Scratch, most: int, free: Mapping[str, int] = MappingProxyType({})):
        self._emitter, self._scratch, self._most, self._free = emitter, scratch, most, free
        self._places: dict[str, tuple[Operand, int, Array]] = {}

    def take(self, layout: tuple[Array, ...]) -> None:
        """Reserve scratch memory for some arrays.

        Raises ``PlanError`` if it is full.
        """
        for array in layout:
            free = max(self._free.get(name, 0) for column in array for name in column)
            base = self._scratch.take(", ".join(column[0] for column in array), free + len(array) * self._most).at(free)
            for number, column in enumerate(array):
                self._places |= {name: (base, number, array) for name in column}

    def array(self, name: str) -> Operand:
        """Give the vectors of the whole array that a name is in, as they lie."""
        return self._places[name][0]

    def operand(self, name: str, size: int) -> Operand:
        """Give the vectors of a name, `size` of each tile in the inner loop, tiles in the outer one."""
        base, number, array = self._places[name]
        return base.at(number * size, outer=len(array) * size)

    def run(self, operations: tuple[Operation, ...], tiles: int, size: int, elsewhere: Elsewhere) -> None:
        """Emit operations; names of `elsewhere` are operands that are partial sums or parameters.

        An operation that writes only some elements keeps the others. So they are set to +0 first.
        """
        given = elsewhere | _CONSTANTS
        vector = partial(self._emitter.vector, outer=tiles, inner=size)
        for operation in operations:
            a, *b = (given.get(name) or self.operand(name, size) for name in operation.operands)
            d = self.operand(operation.d, size)
            if operation.op in CONDITIONAL:
                vector(VectorOp.MULTIPLY, d, ZERO, ZERO)
            vector(operation.op, d, a, *b)

    def select_zero(self, mask: Operand, names: tuple[str, ...], tiles: int, size: int) -> None:
        """Emit +0 for the sequences whose mask is 0: an array of which all vectors are named is done at once."""
        done: set[Operand] = set()
        for name in names:
            base, _, array = self._places[name]
            whole = all(set(column) & set(names) for column in array)
            if whole and base in done:
                continue
            done.add(base)
            values = base.at(0, outer=size) if whole else self.operand(name, size)
            count = len(array) * tiles if whole else tiles
            self._emitter.vector(VectorOp.SELECT_ZERO, values, mask.at(0, outer=0), ZERO, outer=count, inner=size)

    def where_ended(self, mask: Operand, name: str, other: Operand | Parameter, tiles: int, size: int) -> None:
        """Emit that a vector is `other` for the sequences whose mask is 0."""
        values, mask = self.operand(name, size), mask.at(0, outer=0)
        self._emitter.vector(VectorOp.SELECT_ZERO, values, mask, other, outer=tiles, inner=size)


Steps = frozenset[int]
NO_STEPS: Steps = frozenset()


def add_squares(emitter: Emitter, norms: Operand, values: Operand, rows: int, columns: int) -> None:
    """Add the squares of rows to the norms of their columns, rows in ascending order."""
    norms, values = norms.at(0, outer=0), values.at(0, outer=columns)
    emitter.vector(VectorOp.ADD_SQUARE, norms, values, norms, outer=rows, inner=columns, serial=True)


class Streams:
    """The compressed streams of a layer's cells: one for each step, batch tile, span of units and kind of P.

    `layer`: of a layer whose storage is compressed.
    """

    def __init__(self, emitter: Emitter, network: NetworkMap, layer: LayerArrays):
        self._emitter, self._network, self._layer = emitter, network, layer

    def store(self, step: int, batch_tile: int, span: Span, size: int, kinds: list[Operand]) -> None:
        """Append the streams of a span's cells, one of each kind, to their segment's log."""
        log = self._network.stored.segment_of(self._layer.number, step).log
        assert log, "a layer whose storage is compressed has a log"
        thresholds = contract.PARAMETER_THRESHOLDS + self._layer.first_kind
        for number, stream in enumerate(kinds):
            location = self._layer.index_of(step, batch_tile, span, number)
            threshold, bf16 = thresholds + number, self._layer.storage.bf16
            kind, counts = Traffic.INTERMEDIATES, (span.count, size)
            self._emitter.compress(stream, location, log, kind, threshold, bf16, *counts)

    def bring(self, step: int, batch_tile: int, span: Span, size: int, kinds: list[Operand]) -> None:
        """Decompress the streams of a span's cells into the scratch memory."""
        for number, stream in enumerate(kinds):
            location = self._layer.index_of(step, batch_tile, span, number)
            bf16 = self._layer.storage.bf16
            self._emitter.decompress(stream, location, Traffic.INTERMEDIATES, bf16, outer=span.count, inner=size)
