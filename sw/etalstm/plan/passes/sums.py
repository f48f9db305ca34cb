"""Sums of gates: what a broadcast array adds to them, those of a product, and those of the distinct tokens of a batch.

Equal tokens have equal x. A gate's sum is the bias, then the terms of x, then those of the other operand, each addition
rounded. So the sum of the bias and the terms of x depends on the token alone, and sums that begin with it have the same
bits: see :mod:`etalstm.network.shared_tokens`.

The sums of all distinct tokens are made first, with the tokens in the place of sequences. They are kept as if they were
rows of weights, one for each token. In the steps x is then replaced by a row that is 1 in the token's column and 0
elsewhere. 1 times a number is that number, so the sums begin with those of the token. That is one product for each row
tile, where x costs one for each of its elements.

The rows of ones are not compressed. The broadcaster makes a compressed stream whole again before it sends any of it, a
beat in a cycle. So a stream of them would take as long as they do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from etalstm.plan.memory.arrays import LayerArrays, TokenArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, RowMap
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.memory.tiling import SPARSE_CHANGES, LayerTiling, Partition, Span
from etalstm.plan.passes.weights import Matrix, WeightStore
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.fold import loop_through
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The gates' sums of a span of units, for some sequences.

    Members
    -------
    number : int       of the span
    size : int         sequences
    gates : int        rows of each unit
    operand : Operand  where the first sum lies: sums alternate the halves of their memory
    """

    number: int
    span: Span
    size: int
    gates: int
    operand: Operand
    in_second_half: bool

    @property
    def row_tiles(self) -> int:
        """Vectors of rows that are summed for each scalar."""
        return self.gates * self.span.count

    @property
    def vectors(self) -> int:
        """Vectors that the sums take."""
        return self.row_tiles * self.size


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a broadcast array adds to sums.

    Members
    -------
    source : Location          the array, or with `compressed` the index of its first tile's stream
    partition : Partition      how its elements are divided
    matrix : Matrix            its weights
    row : int                  row of the matrix's array that belongs to the first element
    narrow : bool              a vector of the weights holds two tiles
    start, finish : bool       the terms begin the sums, and end them
    needed : RowMap or None    the rows of weights that the array needs, if that is known
    """

    source: Location
    partition: Partition
    matrix: Matrix
    row: int
    compressed: bool = False
    narrow: bool = False
    start: bool
    finish: bool
    needed: RowMap | None = None


def add_terms(emitter: Emitter, weights: WeightStore, sums: Sums, terms: Terms, bias: Operand | None) -> None:
    """Append the products of a broadcast array, added to sums; without `bias` these begin with their first term."""
    for run in (runs := weights.runs(terms.matrix, terms.partition, 1, sums.number)):
        bring = partial(weights.bring, terms.matrix, sums.number, run, terms.row, terms.needed)
        # A LOAD_ROWS holds back what follows it until its map is stored. So the CAST comes before it.
        brought = None if terms.needed else bring()
        emitter.cast(
            terms.source, terms.partition, Traffic.ACTIVATIONS, compressed=terms.compressed,
            first_block=run.first_block, blocks=run.blocks, gates=1, batch=sums.size, tiles=sums.row_tiles,
            start=terms.start and run is runs[0], finish=terms.finish and run is runs[-1], narrow=terms.narrow,
        )  # fmt: skip
        vectors = run.rows * terms.matrix.widths[sums.number]
        emitter.mac(brought or bring(), vectors, sums.operand, sums.vectors, sums.row_tiles, bias=bias)


class TokenSums:
    """Emits the sums of a stage's distinct tokens.

    Parameters
    ----------
    config : Config       the machine with the share of the lane memories that the stage has
    rows : Matrix         the stage's weights: the rows of x
    first_weight : int    where the stage's weight memory begins
    bias : function       from sums to the biases that they start from

    Members
    -------
    matrix : Matrix    the sums, as the rows of weights that the steps take for x
    """

    def __init__(
        self, config: Config, emitter: Emitter, tokens: TokenArrays, tiling: LayerTiling, rows: Matrix,
        first_weight: int, bias: Callable[[Sums], Operand],
    ):  # fmt: skip
        self._emitter, self._tokens, self._tiling, self._rows = emitter, tokens, tiling, rows
        self._config, self._first, self._bias = config, first_weight, bias
        spans = (tiling.gates * span.count for span in tiling.unit_spans)
        self.matrix = Matrix.whole(tokens.sums, spans, tokens.columns.padded)

    def emit(self) -> None:
        """Append the sums of all tokens."""
        weights, tiles = WeightStore(self._config, self._emitter, [self._rows], self._first), self._tokens.x.batch
        loop_through(self._emitter.loop, range(tiles.count), tiles.size_of, lambda tile: self._tile(weights, tile))

    def _tile(self, weights: WeightStore, tile: int) -> None:
        tokens, tiling, spans = self._tokens, self._tiling, self._tiling.unit_spans
        for number, span in enumerate(spans):
            half = (tile * len(spans) + number) % 2
            size, operand = tokens.x.batch.size_of(tile), Operand(Memory.SUMS, self._config.queue_depth // 2 * half)
            sums = Sums(
                number=number, span=span, size=size, gates=tiling.gates, operand=operand, in_second_half=half == 1
            )
            terms = Terms(
                source=tokens.x.at(0, tile), partition=tiling.inputs, matrix=self._rows, row=0, narrow=tiling.narrow,
                start=True, finish=True,
            )  # fmt: skip
            add_terms(self._emitter, weights, sums, terms, self._bias(sums))
            location = self.matrix.location(number, tokens.x.batch.ranges[tile].start)
            self._emitter.store(operand, location, Traffic.ACTIVATIONS, 1, sums.vectors)

    def terms(self, step: int, batch_tile: int) -> Terms:
        """Give what the tokens of a step add to the gates' sums, which they begin."""
        source, columns = self._tokens.chosen.at(step, batch_tile), self._tokens.columns
        return Terms(source=source, partition=columns, matrix=self.matrix, row=0, start=True, finish=False)


class ProductSums:
    """Emits the sums of one product.

    Parameters
    ----------
    shares : bool    the sums of the distinct tokens stand for x, where the layer has such arrays
    skips : bool    weights that are loaded again at each step are loaded row by row, where only changes are broadcast

    `has_maps`: rows are loaded as the maps of the changes say.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, shares: bool, skips: bool
    ):
        self._emitter, self._layer, self._has_biases = emitter, layer, False
        self._refreshes: Callable[[int], bool] = layer.delta_inputs.refreshes
        self.tokens: TokenSums | None = None
        self._take_weights(shares)
        has_maps = skips and any(operand.needed for operand in layer.operands_sent)
        self.has_maps = has_maps and self._loads_prevail(config, network.batch.size)

    def _take_weights(self, shares: bool) -> None:
        """Say which weights the steps take: all rows, or those of the other operand and the sums of the tokens."""
        layer, tiling, emitter = self._layer, self._layer.tiling, self._emitter
        spans = [tiling.weight_vectors(tiling.gates * span.count) for span in tiling.unit_spans]
        self._rows = Matrix.whole(layer.rows, spans, tiling.depth)
        matrices = [self._rows]
        if shares and layer.tokens:
            of_x, of_operand = range(tiling.inputs.padded), range(tiling.inputs.padded, tiling.depth)
            rows, self._rows = (replace(self._rows, rows=rows) for rows in (of_x, of_operand))
            given = layer.tokens, tiling, rows, layer.first_weight, partial(self._bias, start=True)
            self.tokens = tokens = TokenSums(layer.lanes, emitter, *given)
            matrices = [tokens.matrix, self._rows]
        self._weights = WeightStore(layer.lanes, emitter, matrices, layer.first_weight)

    def _loads_prevail(self, config: Config, size: int) -> bool:
        """Tell whether a row of weights takes longer to load than its products take, if changes are sparse."""
        tiling, tiles = self._layer.tiling, self._layer.tiling.gates * self._layer.tiling.units.tiles
        products = SPARSE_CHANGES * size * tiles
        return tiling.row_vectors * config.vector_beats * config.channels_per_port > products

    def sum_inputs(self, step: int, batch_tile: int, sums: Sums) -> None:
        """Begin sums with the terms of x, if the product is with it."""
        layer = self._layer
        if layer.x is None:
            return
        if self.tokens:
            add_terms(self._emitter, self._weights, sums, self.tokens.terms(step, batch_tile), None)
            return
        source = layer.x.at(step + layer.x_step, batch_tile)
        sent = layer.operands_sent[0] if layer.operands_sent else None
        self._sum(step, batch_tile, sums, source, sent, layer.tiling.inputs, row=0, start=True, finish=False)

    def sum_state(self, step: int, batch_tile: int, sums: Sums) -> None:
        """Add the terms of the other operand, which ends the sums."""
        layer, row, starts = self._layer, self._layer.tiling.inputs.padded, self._layer.x is None
        source = layer.operand.at(step + layer.operand_step, batch_tile)
        sent = layer.operands_sent[1] if layer.operands_sent else None
        self._sum(step, batch_tile, sums, source, sent, layer.tiling.units, row=row, start=starts, finish=True)

    def _sum(
        self, step: int, batch_tile: int, sums: Sums, source: Location, sent: SentOperand | None, partition: Partition,
        row: int, start: bool, finish: bool,
    ) -> None:  # fmt: skip
        """Add the terms of one broadcast array, or of its changes, to sums; `start` begins, `finish` ends them.

        Sums of changes, and those that begin with the sum of a token, begin with their first term.
        """
        changed = None if self._refreshes(step) else sent
        bias = None if changed or self.tokens else self._bias(sums, start)
        source = changed.changes(step, batch_tile) if changed else source
        needed = changed.row_map(step, batch_tile) if changed and self.has_maps else None
        terms = Terms(
            source=source, partition=partition, matrix=self._rows, row=row, compressed=changed is not None,
            narrow=self._layer.tiling.narrow, start=start, finish=finish, needed=needed,
        )  # fmt: skip
        add_terms(self._emitter, self._weights, sums, terms, bias)

    def _bias(self, sums: Sums, start: bool) -> Operand:
        """Have the biases of some sums' rows in the bias memory: all spans' at once, if they fit, else their own.

        Their own come when the sums `start`.
        """
        first, gates = self._layer.first_bias, sums.gates
        everything = gates * self._layer.tiling.units.tiles
        if everything <= self._layer.bias_depth:
            if not self._has_biases:
                self._bring_biases(first, 0, everything)
            self._has_biases = True
            return Operand(Memory.BIAS, first + gates * sums.span.first)
        first += self._bias_half(sums)
        if start:
            self._bring_biases(first, gates * sums.span.first, sums.row_tiles)
        return Operand(Memory.BIAS, first)

    def _bias_half(self, sums: Sums) -> int:
        """Choose where sums' own biases go: they alternate halves, as the sums do, if they fit a half.

        So the next sums' biases come while these are still finished with their own.
        """
        half = self._layer.bias_depth // 2
        return half if sums.row_tiles <= half and sums.in_second_half else 0

    def _bring_biases(self, to: int, vector: int, vectors: int) -> None:
        location = Location(self._layer.bias, vector)
        self._emitter.load(Operand(Memory.BIAS, to), location, Traffic.WEIGHTS, outer=1, inner=vectors)
