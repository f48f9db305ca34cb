"""How a layer falls onto a machine whose products are integers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

from etalstm.errors import PlanError
from etalstm.network.cells.cell import Stage, count_vectors
from etalstm.plan.memory.tiling import MASK_ARRAYS, BatchTiles, LayerTiling, Partition, Span, ceil_div, cut, spans
from etalstm_hw.config import Config
from etalstm_hw.contract.integers import PLANES, WORD_BYTES

AREAS = 4  # of the partial sums: of x twice, of the other operand twice
NUMBERS = (
    4  # vectors of each element that is sent: its integer, what was last sent, how that changes, whether it is sent
)

# Scratch vectors
OF_A_ROW = 6  # of each of a unit's rows: its bias and exponents, or sums of its bias and exponents
CONSTANTS = 10  # exponents that all elements share
BUFFERS = 1  # of each sequence for a tile of columns: their gradients
RECEIVERS = 2  # of a layer's output: its own next step, and the layer above
DIGIT_SETS = 2  # of the digits of a tile of units, a vector of sequences and a plane: one is made, one is stored


@dataclass(frozen=True)
class Sent:
    """What limits an array that is sent: lines of a beat, of which each vector of bytes has some for each plane."""

    config: Config

    @property
    def block(self) -> int:
        """Elements of a block: a vector of words has their bytes."""
        return WORD_BYTES * self.config.lanes

    def lines(self, wide: bool) -> int:
        """Lines of a sequence in a block."""
        return self.config.vector_beats * (1 + wide)

    @property
    def _most_lines(self) -> int:
        """Lines of an array that a stream sends."""
        return self.config.broadcast_words // self.config.beat_words

    @property
    def most_sequences(self) -> int:
        """Sequences of an array of one block of two planes."""
        sums = self.config.queue_depth // self.config.tile_sums
        return self.config.integer_streams * min(sums, self._most_lines // self.lines(True))

    def most_blocks(self, sequences: int, wide: bool) -> int:
        """Give how many blocks of so many sequences can be sent at a time.

        Raises ``PlanError`` if none can.
        """
        blocks = self._most_lines // (self.config.of_stream(sequences) * self.lines(wide))
        if blocks < 1:
            raise PlanError(f"broadcast_words of {self.config.broadcast_words} hold no block of {sequences} sequences")
        return blocks


@dataclass(frozen=True)
class IntegerTiling:
    """One layer's division.

    A *group* is the vectors whose bytes lie in one vector of words: four of them. A *tile* is the vectors that the
    lanes sum at a time. Where the machine's channels work in several groups, each has a *shard* of every channel's
    rows: their weights, velocities and dW.

    Members
    -------
    config : Config
    gates : int                   rows of each unit
    inputs, units : Partition
    batch : BatchTiles            of a part of the batch
    steps : int
    parts : int                   groups of channels, each with a part of the batch
    """

    config: Config
    gates: int
    inputs: Partition
    units: Partition
    batch: BatchTiles
    steps: int
    parts: int = 1

    @property
    def tile(self) -> int:
        """Vectors of a tile."""
        return self.config.tile_sums

    @property
    def rows(self) -> int:
        """Vectors of rows that a channel owns: all gates of its tiles of units."""
        return self.gates * self.units.tiles

    @property
    def shard_rows(self) -> int:
        """Vectors of rows of a shard. The last shard is filled up with rows that are no units'."""
        return ceil_div(self.rows, self.parts)

    @property
    def padded_rows(self) -> int:
        """Vectors of rows of all shards."""
        return self.parts * self.shard_rows

    def columns_of(self, operand: str) -> Partition:
        """Give how an operand is divided."""
        return self.inputs if operand == "x" else self.units

    def groups_of(self, operand: str) -> int:
        """Groups of an operand's vectors that a channel owns."""
        return ceil_div(self.columns_of(operand).tiles, WORD_BYTES)

    @property
    def block(self) -> int:
        """Elements of a block."""
        return Sent(self.config).block

    def elements(self, operand: str) -> int:
        """Elements of an operand as it is sent, bytes without one included."""
        return self.columns_of(operand).channels * self.groups_of(operand) * self.block

    @property
    def sent_rows(self) -> int:
        """Elements of δ as it is sent: a block is the gates of a tile of units."""
        return self.units.channels * self.units.tiles * self.block

    @property
    def pair_blocks(self) -> int:
        """Blocks of the sequences of a step."""
        return self.batch.count * self.tile_blocks

    @property
    def tile_blocks(self) -> int:
        """Blocks of the sequences of a step and batch tile."""
        return ceil_div(self.batch.size, self.block)

    @cached_property
    def row_runs(self) -> list[Span]:
        """Runs of a shard's vectors of rows whose dW is summed at a time: as many as sums and what is sent hold."""
        of_half = self.config.integer_streams * (self.config.queue_depth // self.tile // 2)
        sequences = min(of_half, Sent(self.config).most_sequences)
        most = sequences // self.config.lanes
        if most < 1:
            raise PlanError(
                f"the sums of {self.config.lanes} rows do not fit: queue_depth is {self.config.queue_depth}, "
                f"broadcast_words are {self.config.broadcast_words}"
            )
        return spans(self.shard_rows, most)

    @property
    def placed_runs(self) -> Iterator[tuple[int, int, Span]]:
        """Go through the runs of all shards: number of the shard, number of the run in it, vectors of a channel."""
        for shard, (number, run) in product(range(self.parts), enumerate(self.row_runs)):
            yield shard, number, Span(shard * self.shard_rows + run.first, run.count)


def ended_groups(span: Span, tiles: int) -> Span:
    """Give the tiles of the groups that end in a span of a layer of so many tiles; the last group may be no whole one.

    They begin before the span if their first tiles belong to spans before it. There may be none.
    """
    first, end = span.first // WORD_BYTES * WORD_BYTES, span.first + span.count
    return Span(first, (end if end == tiles else end // WORD_BYTES * WORD_BYTES) - first)


def vectors_of_changes(tiles: int) -> int:
    """Give the scratch vectors of each sequence for what is sent of some tiles of a layer's output to one receiver.

    They hold what was last sent, the change as two planes of digits, what is last sent now, and where that is another
    number than the output.
    """
    return (1 + PLANES + 2) * ceil_div(tiles, WORD_BYTES)


def _of_sequence(config: Config, stage: Stage, units: Partition, tiles: int, sends: bool) -> int:
    """Give the scratch vectors of each sequence for spans of so many tiles; `sends`: changes of operands are sent.

    Forward, sums and terms, and the outputs of earlier spans come to the arrays; backward, integers of δ, their digits,
    and a tile of columns.
    """
    gates, columns = len(stage.gates), BUFFERS * config.tile_sums
    of_spans = cut(units.tiles, tiles)
    sums = sums_and_terms(gates, units, of_spans, sends=sends)
    forward = (count_vectors(stage.forward_arrays) + count_vectors(stage.local_arrays)) * tiles + sums
    forward += most_earlier(of_spans)
    backward = (stage.vectors + gates + PLANES) * tiles + columns
    if sends:
        forward += RECEIVERS * vectors_of_changes(most_ended(of_spans, units))
        backward += columns + 1  # what is collected, and bytes that tell where
    return max(forward, backward) + MASK_ARRAYS


def most_earlier(unit_spans: Sequence[Span]) -> int:
    """Give how many tiles at most of a group belong to spans before the one that it ends in."""
    return max(span.first % WORD_BYTES for span in unit_spans)


def most_ended(unit_spans: Sequence[Span], units: Partition) -> int:
    """Give how many tiles at most the groups have that end in a span."""
    return max(ended_groups(span, units.tiles).count for span in unit_spans)


def sums_and_terms(gates: int, units: Partition, unit_spans: Sequence[Span], *, sends: bool) -> int:
    """Give the scratch vectors of each sequence for a span's sums and as many terms.

    Those have also what is sent of the groups that end in it, if changes are.
    """
    of_sums = 2 * gates * max(span.count for span in unit_spans)
    return max(of_sums, NUMBERS * most_ended(unit_spans, units) if sends else 0)


def tile_integer_batch(config: Config, stage: Stage, hidden_size: int, batch: int, *, sends: bool) -> BatchTiles:
    """Choose how many sequences are worked on together: as many as every memory allows with one row of tiles.

    `sends`: only changes of operands are sent. Raises ``PlanError`` if not even one sequence fits, or a unit's rows are
    no group.
    """
    gates = len(stage.gates)
    if gates != WORD_BYTES:
        raise PlanError(f"with integers a cell must have {WORD_BYTES} gates, got {gates}")
    units, sent = Partition(hidden_size, config.channels, config.lanes), Sent(config)
    reserved = _reserved(config, gates, units)
    least_tiles = min(units.tiles, _span_step(config, gates))
    most = {
        "scratch_depth": (config.scratch_depth - reserved) // _of_sequence(config, stage, units, least_tiles, sends),
        "queue_depth": config.integer_streams
        * (config.queue_depth // (AREAS * config.tile_sums * ceil_div(gates * least_tiles, config.tile_sums))),
        "broadcast_words": sent.most_sequences,
    }
    name, fits = min(most.items(), key=lambda item: item[1])
    if fits < 1:
        raise PlanError(
            f"a layer of {hidden_size} units does not fit this machine: {name} is {getattr(config, name)}, exponents "
            f"alone need {reserved} vectors of scratch memory"
        )
    return _cut_evenly(config, batch, fits)


def _cut_evenly(config: Config, batch: int, most: int) -> BatchTiles:
    """Cut a batch so that streams have turns as even as can be, and δ as it is sent for dW has few blocks.

    In two tiles at least if that costs no more: while the products of one are made, the cells of another are computed.
    """
    streams, block = config.integer_streams, Sent(config).block
    half = ceil_div(ceil_div(batch, 2), streams) * streams
    sizes = {most, half, *(max(1, size // streams) * streams for size in (most, block))}
    every = [BatchTiles(batch, size, multiple=streams) for size in sorted(sizes) if size <= most]
    return min(every, key=lambda tiles: (*_costs(config, tiles), tiles.count == 1, tiles.count))


def _costs(config: Config, tiles: BatchTiles) -> tuple[int, int]:
    """Count the sequences that a stream gets one after the other, and the blocks of all tiles' sequences."""
    turns = sum(config.of_stream(tiles.size_of(number)) for number in range(tiles.count))
    return turns, tiles.count * ceil_div(tiles.size, Sent(config).block)


def _reserved(config: Config, gates: int, units: Partition) -> int:
    """Give the scratch vectors that do not depend on the batch."""
    return OF_A_ROW * gates * units.tiles + CONSTANTS + DIGIT_SETS * gates * config.lanes


def _span_step(config: Config, gates: int) -> int:
    """Give of how many tiles of units a span is a multiple: of whole tiles of sums."""
    return max(config.tile_sums // gates, 1)


def tile_integer_layer(
    config: Config, stage: Stage, batch: BatchTiles, input_size: int, hidden_size: int, *, sends: bool
) -> LayerTiling:
    """Divide a layer: the largest spans of tiles of units that the lane memories hold, whole tiles of sums each."""
    inputs, units = (Partition(size, config.channels, config.lanes) for size in (input_size, hidden_size))
    gates, size = len(stage.gates), batch.size
    step = _span_step(config, gates)
    left = config.scratch_depth - _reserved(config, gates, units)
    of_scratch = partial(_of_sequence, config, stage, units, sends=sends)
    most = min(
        config.queue_depth // AREAS // (config.tile_sums * config.of_stream(size)) * config.tile_sums // gates,
        max((tiles for tiles in range(1, units.tiles + 1) if of_scratch(tiles) * size <= left), default=0),
    )
    most = max(step, most if most >= units.tiles else most // step * step)
    count = ceil_div(units.tiles, most)
    unit_spans = [Span(n * most, min(most, units.tiles - n * most)) for n in range(count)]
    return LayerTiling(
        gates=gates, inputs=inputs, units=units, unit_spans=unit_spans,
        column_spans=[Span(0, inputs.tiles + units.tiles)], row_lanes=min(units.lanes, units.per_channel),
    )  # fmt: skip
