"""How a layer falls onto a machine whose products are integers."""

from dataclasses import dataclass
from functools import cached_property

from etalstm.errors import PlanError
from etalstm.plan.memory.tiling import MASK_ARRAYS, BatchTiles, LayerTiling, Partition, Span, ceil_div, spans
from etalstm_hw.config import Config

WORD_BYTES = 4  # weights of a word
AREAS = 4  # of the partial sums: of x twice, of the other operand twice

# Scratch vectors
OF_A_GATE = 2  # of each gate and sequence: sums and a temporary, or integers of δ and a temporary
OF_A_ROW = 6  # of each of a unit's rows: its bias and exponents, or sums of its bias, exponents and what is known of δ
CONSTANTS = 10  # exponents that all elements share
BUFFERS = 2  # of each sequence for a tile of columns: their gradients, and those that are passed on


@dataclass(frozen=True)
class Sent:
    """What limits an array that is sent: patches of four beats, in which each of its sequences begins anew."""

    config: Config

    @property
    def patches(self) -> int:
        """Patches of an array that a stream sends."""
        return self.config.broadcast_words // self.config.beat_words // 4 // self.config.integer_streams

    @property
    def most_sequences(self) -> int:
        """Sequences of an array of one block."""
        streams = self.config.integer_streams
        sums = self.config.queue_depth // self.config.tile_sums // streams
        return streams * min(sums, self.patches // ceil_div(self._beats, 4))

    @property
    def _beats(self) -> int:
        return self.config.vector_beats

    def most_blocks(self, gates: int, sequences: int) -> int:
        """Give how many blocks of so many gates and sequences can be sent at a time.

        Raises ``PlanError`` if none can.
        """
        own = ceil_div(sequences, self.config.integer_streams)
        blocks = 4 * (self.patches // own) // (gates * self._beats)
        if blocks < 1:
            raise PlanError(
                f"broadcast_words of {self.config.broadcast_words} hold no block of {gates} gates and {sequences} "
                "sequences"
            )
        return blocks


@dataclass(frozen=True)
class IntegerTiling:
    """One layer's division.

    A *group* is the vectors whose weights of an element lie in one vector of words: four of them. A *tile* is the
    vectors that the lanes sum at a time.

    Members
    -------
    config : Config
    gates : int                   rows of each unit
    inputs, units : Partition
    batch : BatchTiles
    steps : int
    """

    config: Config
    gates: int
    inputs: Partition
    units: Partition
    batch: BatchTiles
    steps: int

    @property
    def tile(self) -> int:
        """Vectors of a tile."""
        return self.config.tile_sums

    @property
    def rows(self) -> int:
        """Vectors of rows that a channel owns: all gates of its tiles of units."""
        return self.gates * self.units.tiles

    @property
    def row_groups(self) -> int:
        """Their groups."""
        return ceil_div(self.rows, WORD_BYTES)

    def columns_of(self, operand: str) -> Partition:
        """Give how an operand is divided."""
        return self.inputs if operand == "x" else self.units

    def column_groups(self, operand: str) -> int:
        """Groups of the vectors of columns that a channel owns."""
        return ceil_div(self.columns_of(operand).tiles, WORD_BYTES)

    def elements(self, operand: str) -> int:
        """Elements of an operand as it is sent, lanes without one included."""
        return padded_elements(self.columns_of(operand))

    @property
    def sent_rows(self) -> int:
        """Elements of δ as it is sent, likewise."""
        return self.gates * padded_elements(self.units)

    @property
    def pair_blocks(self) -> int:
        """Vectors of sequences of a step."""
        return self.batch.count * self.tile_blocks

    @property
    def tile_blocks(self) -> int:
        """Vectors of sequences of a step and batch tile."""
        return ceil_div(self.batch.size, self.config.lanes)

    @cached_property
    def row_runs(self) -> list[Span]:
        """Runs of a channel's vectors of rows whose dW is summed at a time: as many as sums and what is sent hold."""
        sequences = min(self.config.queue_depth // self.tile // 2, Sent(self.config).most_sequences)
        most = sequences // self.config.lanes
        if most < 1:
            raise PlanError(
                f"the sums of {self.config.lanes} rows do not fit: queue_depth is {self.config.queue_depth}, "
                f"broadcast_words are {self.config.broadcast_words}"
            )
        return spans(self.rows, most)


def padded_elements(partition: Partition) -> int:
    """Count the elements of all channels' tiles, lanes without one included."""
    return partition.channels * partition.tiles * partition.lanes


def tile_integer_batch(config: Config, gates: int, vectors: int, hidden_size: int, batch: int) -> BatchTiles:
    """Choose how many sequences are worked on together: as many as every memory allows with one row of tiles.

    Raises ``PlanError`` if not even one sequence fits.
    """
    units, sent = Partition(hidden_size, config.channels, config.lanes), Sent(config)
    reserved = OF_A_ROW * gates * units.tiles + CONSTANTS
    least_tiles = min(units.tiles, _span_step(config, gates))
    most = {
        "scratch_depth": (config.scratch_depth - reserved)
        // ((vectors + OF_A_GATE * gates) * least_tiles + MASK_ARRAYS + BUFFERS * config.tile_sums),
        "queue_depth": config.queue_depth
        // (AREAS * config.tile_sums * ceil_div(gates * least_tiles, config.tile_sums)),
        "broadcast_words": min(
            sent.most_sequences, config.integer_streams * (4 * sent.patches // (gates * config.vector_beats))
        ),
    }
    most["queue_depth"] -= most["queue_depth"] % config.integer_streams
    name, fits = min(most.items(), key=lambda item: item[1])
    if fits < 1:
        raise PlanError(
            f"a layer of {hidden_size} units does not fit this machine: {name} is {getattr(config, name)}, exponents "
            f"alone need {reserved} vectors of scratch memory"
        )
    return BatchTiles(batch, fits)


def _span_step(config: Config, gates: int) -> int:
    """Give of how many tiles of units a span is a multiple: of whole tiles of sums, and of whole groups."""
    return max(config.tile_sums // gates, WORD_BYTES)


def tile_integer_layer(
    config: Config, gates: int, vectors: int, batch: BatchTiles, input_size: int, hidden_size: int
) -> LayerTiling:
    """Divide a layer: the largest spans of tiles of units that the lane memories hold, whole tiles of sums each."""
    inputs, units = (Partition(size, config.channels, config.lanes) for size in (input_size, hidden_size))
    size, step = batch.size, _span_step(config, gates)
    reserved = OF_A_ROW * gates * units.tiles + CONSTANTS + (MASK_ARRAYS + BUFFERS * config.tile_sums) * size
    most = min(
        config.queue_depth // AREAS // (config.tile_sums * config.summed(size)) * config.tile_sums // gates,
        (config.scratch_depth - reserved) // ((vectors + OF_A_GATE * gates) * size),
    )
    most = max(step, most if most >= units.tiles else most // step * step)
    count = ceil_div(units.tiles, most)
    unit_spans = [Span(n * most, min(most, units.tiles - n * most)) for n in range(count)]
    return LayerTiling(
        gates=gates, inputs=inputs, units=units, unit_spans=unit_spans,
        column_spans=[Span(0, inputs.tiles + units.tiles)], row_lanes=min(units.lanes, units.per_channel),
    )  # fmt: skip
