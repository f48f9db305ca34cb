"""Sums of the distinct tokens of a batch with integers: made once, and kept as weights of a byte."""

from functools import partial

from etalstm.plan.integers.products import Broadcast, Columns, Multiplier, Share, convert
from etalstm.plan.memory.digits import Packed
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.integer_tokens import IntegerTokens
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import Span, cut
from etalstm.plan.passes.propagation import emit_all
from etalstm.plan.passes.vectors import ZERO
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp
from etalstm_hw.contract.integers import WEIGHT_BITS


class IntegerTokenSums:
    """Emits the sums of a layer's distinct tokens.

    Parameters
    ----------
    columns : dict of Columns      the weights of x, by span of units
    values, parts, words : Operand
        Scratch memory: of the gates of a span's units twice, and of a span's units, for as many tokens as a batch tile
        has sequences.
    """

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, arrays: IntegerArrays, columns: dict[Span, Columns],
        values: Operand, parts: Operand, words: Operand,
    ):  # fmt: skip
        assert arrays.tokens, "a layer that shares tokens has arrays for them"
        self._config, self._emitter, self._arrays, self._columns = config, emitter, arrays, columns
        self._tokens: IntegerTokens = arrays.tokens
        self._values, self._parts, self._words = values, parts, words
        self._scales = scratch.take("what the bytes of tokens' sums count", 2 * len(self._tokens.powers))

    @property
    def matrix(self) -> Packed:
        """The sums, as the weights that the steps take for x."""
        return self._tokens.sums

    def array(self, step: int, batch_tile: int, size: int) -> Broadcast:
        """Give what the steps send for x."""
        chosen = self._tokens.chosen
        blocks = self._tokens.partition.channels * chosen.groups
        return Broadcast(
            chosen.at(step, batch_tile), 0, chosen.groups, blocks, size, True, Traffic.ACTIVATIONS, Traffic.ACTIVATIONS
        )

    def emit(self) -> None:
        """Append the sums of all tokens; the two halves of the memory of sums take turns."""
        tokens, multiplier, turn = self._tokens, Multiplier(self._config, self._emitter), 0
        self._emitter.load(self._scales, Location(tokens.scales, 0), Traffic.WEIGHTS, 1, 2 * len(tokens.powers))
        for tile, sequences in enumerate(tokens.x.sent.batch.ranges):
            for span, columns in self._columns.items():
                sums = Operand(Memory.SUMS, self._config.queue_depth // 2 * (turn % 2))
                turn += 1
                emit_all(multiplier.multiply([Share(self._x(tile, len(sequences)), sums)], columns))
                self._keep(multiplier, span, sequences, sums)

    def _x(self, tile: int, size: int) -> Broadcast:
        x, groups = self._tokens.x, self._tokens.x.groups
        blocks = self._arrays.tiling.inputs.channels * groups
        return Broadcast(x.at(0, tile), 0, groups, blocks, size, False, Traffic.ACTIVATIONS)

    def _keep(self, multiplier: Multiplier, span: Span, sequences: range, sums: Operand) -> None:
        """Store the sums of a span's units and some tokens, byte by byte; each byte leaves what the next ones hold."""
        size, rows = len(sequences), self._arrays.tiling.gates * span.count
        for number, some in enumerate(cut(rows, self._config.tile_sums)):
            of_tile = sums.at(number * multiplier.of_tile(size))
            to = self._values.at(some.first * size)
            convert(self._emitter, self._config, to, of_tile, ZERO, some.count, size)
        vector, last = partial(self._emitter.vector, inner=rows * size), len(self._tokens.powers) - 1
        for byte in range(last + 1):
            places, power = (self._scales.at(2 * byte + n, outer=0, inner=0) for n in range(2))
            self._store(byte, span, sequences, places)
            if byte < last:
                vector(VectorOp.QUANTISE, self._parts, self._values, places, bits=WEIGHT_BITS)
                vector(VectorOp.CONVERT, self._parts, self._parts, power)
                vector(VectorOp.SUBTRACT, self._values, self._values, self._parts)

    def _store(self, byte: int, span: Span, sequences: range, places: Operand) -> None:
        """Store a byte of the sums as weights: a word has the gates of a unit."""
        emitter, size, gates = self._emitter, len(sequences), self._arrays.tiling.gates
        for tile in range(span.count):
            words = self._words.at(tile * size, outer=1, inner=0)
            values = self._values.at(tile * gates * size, outer=1, inner=size)
            emitter.vector(VectorOp.BYTES, words, values, places, outer=size, inner=gates, bits=WEIGHT_BITS)
            to = self._tokens.sums.at(span.first + tile, self._tokens.first_of(byte) + sequences.start)
            emitter.store(words.at(0, inner=1), to, Traffic.ACTIVATIONS, 1, size)
