"""How a network's dimensions fall onto channels, lanes and the memories of a lane."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from etalstm.errors import PlanError
from etalstm.network.slices import most_totals, slice_ranges
from etalstm_hw.config import Config
from etalstm_hw.contract import MOST_GATES

# Scratch vectors
MASK_ARRAYS = 2  # of each sequence for the mask and the merge of masked gradients, besides the cell's own
NEEDED_ARRAYS = MOST_GATES  # of a tile of units in the backward pass: which rows of weights its δ needs, by gate
UPDATE_ARRAYS = 4  # of each weight of a lane in the update: weight, gradient, velocity, a temporary
UPDATE_SETS = 2  # sets of these vectors that alternate: one is loaded while another is updated

# Densities that are assumed where reads are weighed against products
SPARSE_DELTA = 0.1  # of a compressed δ: what pruning aims at
SPARSE_CHANGES = 0.1  # of the changes of x and h


def ceil_div(a: int, b: int) -> int:
    """Divide, rounding up."""
    return -(-a // b)


@dataclass(frozen=True)
class Partition:
    """How one dimension (inputs or units) is divided among channels and lanes.

    Channel n has elements n·`per_channel` to (n + 1)·`per_channel` - 1. Lane l has, in tile j, number j·lanes + l of
    these. Lanes without an element are padding, which is zero.

    `size`: elements in all.
    """

    size: int
    channels: int
    lanes: int

    @property
    def per_channel(self) -> int:
        """Elements of each channel, padding of the last channels included."""
        return ceil_div(self.size, self.channels)

    @property
    def tiles(self) -> int:
        """Vectors that hold a channel's elements."""
        return ceil_div(self.per_channel, self.lanes)

    @property
    def padded(self) -> int:
        """Elements of all channels, those beyond ``size`` included."""
        return self.per_channel * self.channels

    def lanes_of(self, tile: int) -> int:
        """Lanes of a tile that hold elements."""
        return min(self.lanes, self.per_channel - tile * self.lanes)


@dataclass(frozen=True)
class Span:
    """A run of tiles that are worked on together."""

    first: int
    count: int


def cut(total: int, step: int) -> list[Span]:
    """Cut into spans of `step`, of which the last may be shorter."""
    return [Span(first, min(step, total - first)) for first in range(0, total, step)]


def spans(total: int, most: int) -> list[Span]:
    """Cut `total` tiles into as few runs of at most `most` as possible, of nearly equal length."""
    runs = ceil_div(total, most)
    edges = [total * n // runs for n in range(runs + 1)]
    return [Span(a, b - a) for a, b in pairwise(edges)]


@dataclass(frozen=True)
class BatchTiles:
    """Sequences that are worked on together; the sequences of a tile belong to one slice.

    Parameters
    ----------
    batch, most : int    sequences in all, and at most at a time
    slices : int         slices of the batch, see :mod:`etalstm.network.slices`
    multiple : int       sequences of a tile are a multiple of it, but for the last one's, where `most` allows it

    `of_slices`: the sequences of each tile, by slice.
    """

    batch: int
    most: int
    slices: int = 1
    multiple: int = 1

    @cached_property
    def of_slices(self) -> tuple[tuple[range, ...], ...]:
        """Each slice in as few tiles as possible, all but its last of one size."""
        return tuple(self._cut(sequences) for sequences in slice_ranges(self.batch, self.slices))

    def _cut(self, sequences: range) -> tuple[range, ...]:
        size = ceil_div(len(sequences), ceil_div(len(sequences), self.most))
        whole = ceil_div(size, self.multiple) * self.multiple
        size = whole if whole <= self.most else size
        return tuple(sequences[first : first + size] for first in range(0, len(sequences), size))

    @cached_property
    def ranges(self) -> tuple[range, ...]:
        """The sequences of each tile."""
        return tuple(tile for tiles in self.of_slices for tile in tiles)

    @cached_property
    def slice_of(self) -> tuple[int, ...]:
        """The slice of each tile."""
        return tuple(number for number, tiles in enumerate(self.of_slices) for _ in tiles)

    @cached_property
    def tiles_of(self) -> tuple[range, ...]:
        """The numbers of each slice's tiles."""
        ends = list(accumulate(map(len, self.of_slices)))
        return tuple(range(end - len(tiles), end) for tiles, end in zip(self.of_slices, ends, strict=True))

    @cached_property
    def count(self) -> int:
        """Number of tiles."""
        return len(self.ranges)

    @cached_property
    def size(self) -> int:
        """Sequences of the largest tile."""
        return max(map(len, self.ranges))

    @property
    def vectors(self) -> int:
        """Vectors of a tile of units for all sequences, those of short tiles filled up."""
        return self.count * self.size

    def size_of(self, tile: int) -> int:
        """Sequences of one tile."""
        return len(self.ranges[tile])


@dataclass(frozen=True)
class LayerTiling:
    """One layer's division.

    Members
    -------
    gates : int                     rows of each unit in the layer's matrix
    inputs, units : Partition           columns of the layer's matrix are the inputs' tiles, then the units' tiles
    unit_spans : list of Span      unit tiles whose gates are summed together in the forward pass
    column_spans : list of Span
        Column tiles that are summed together in the backward pass and in the weights' gradient.
    row_lanes : int                 lanes of a δ block whose rows are summed together in the weights' gradient
    narrow : bool
        The copies of the weights that the passes read are bfloat16: a vector holds two tiles that follow each other.
    """

    gates: int
    inputs: Partition
    units: Partition
    unit_spans: list[Span]
    column_spans: list[Span]
    row_lanes: int
    narrow: bool = False

    def weight_vectors(self, tiles: int) -> int:
        """Vectors of weights that a scalar meets in so many tiles."""
        return weight_vectors(tiles, self.narrow)

    @property
    def column_vectors(self) -> int:
        """Vectors of a row of the column copy, all column spans together."""
        return sum(self.weight_vectors(span.count) for span in self.column_spans)

    @property
    def row_vectors(self) -> int:
        """Vectors of a row of the row copy, all spans of units together."""
        return sum(self.weight_vectors(self.gates * span.count) for span in self.unit_spans)

    @property
    def columns(self) -> int:
        """Column tiles of a channel."""
        return self.inputs.tiles + self.units.tiles

    @property
    def rows(self) -> int:
        """Rows of the matrix as the machine holds it: all gates of every unit, padding included."""
        return self.gates * self.units.padded

    @property
    def depth(self) -> int:
        """Columns of the matrix as the row copy holds it: padded inputs, then padded units."""
        return self.inputs.padded + self.units.padded

    @property
    def input_spans(self) -> list[Span]:
        """The column spans of inputs alone, which come first."""
        return [span for span in self.column_spans if span.first + span.count <= self.inputs.tiles]

    def lanes_of_column(self, tile: int) -> int:
        """Lanes of a column tile that hold columns."""
        if tile < self.inputs.tiles:
            return self.inputs.lanes_of(tile)
        return self.units.lanes_of(tile - self.inputs.tiles)


def tile_batch(config: Config, gates: int, vectors: int, hidden_size: int, batch: int, slices: int = 1) -> BatchTiles:
    """Choose how many sequences are worked on together: as many as every memory allows with one tile of units.

    A unit has `gates` rows and needs so many scratch `vectors` for each sequence.

    Raises ``PlanError`` if not even one sequence fits.
    """
    units = Partition(hidden_size, config.channels, config.lanes)
    reserved = slices * gates * units.tiles
    most = {
        "scratch_depth": (config.scratch_depth - reserved - NEEDED_ARRAYS) // (vectors + MASK_ARRAYS),
        "queue_depth": config.queue_depth // (2 * gates),
        "broadcast_words": config.broadcast_words // (gates * config.lanes),
        "weight_depth": config.weight_depth // 2,
    }
    name, fits = min(most.items(), key=lambda item: item[1])
    if fits < 1:
        raise PlanError(
            f"a layer of {hidden_size} units does not fit this machine: {name} is {getattr(config, name)}, "
            f"and its bias gradients in {slices} slices alone need {reserved} vectors"
        )
    return BatchTiles(batch, fits, slices)


def weight_vectors(tiles: int, narrow: bool) -> int:
    """Give the vectors of weights that a scalar meets in so many tiles: `narrow` ones hold two tiles each."""
    return ceil_div(tiles, 2) if narrow else tiles


def stay(config: Config, vectors: int, rows: int) -> bool:
    """Tell whether `rows` rows of `vectors` vectors each fit the weight memory, so that they are loaded once."""
    return vectors * rows <= config.weight_depth


def gradient_arrays(slices: int) -> int:
    """Give how many totals of slices the scratch memory holds for a range of rows of dW.

    The youngest of :func:`etalstm.network.slices.most_totals` is added as it leaves the partial sums, unless it is the
    only one.
    """
    return max(1, most_totals(slices) - 1)


def _row_lanes(config: Config, units: Partition, gates: int, widest: int, slices: int) -> int:
    """Choose how many lanes' rows of a δ block are summed together in dW.

    The xh of all steps is loaded once for each such range of rows. So they are as many as half of the partial sums and
    the scratch memory hold, and all ranges of a block are of about one length.
    """
    results = min(config.queue_depth // 2, (config.scratch_depth - widest) // gradient_arrays(slices))
    lanes = min(units.lanes, units.per_channel)
    most = max(1, min(lanes, results // (gates * widest)))
    return ceil_div(lanes, ceil_div(lanes, most))


def tile_layer(
    config: Config, gates: int, stage_gates: int, vectors: int, batch: BatchTiles, input_size: int, hidden_size: int,
    narrow: bool = False,
) -> LayerTiling:  # fmt: skip
    """Divide a product of a layer: the largest spans of tiles that the four lane memories hold.

    A unit has `gates` rows in the matrix, `stage_gates` in those of all products of the stage, and needs so many
    scratch `vectors` for each sequence. With `narrow` a vector of weights holds two tiles.
    """
    inputs = Partition(input_size, config.channels, config.lanes)
    units = Partition(hidden_size, config.channels, config.lanes)
    size = batch.size
    reserved = batch.slices * stage_gates * units.tiles + MASK_ARRAYS * size
    tiles = 2 if narrow else 1  # of a vector of weights
    most_units = min(
        config.queue_depth // (2 * stage_gates * size),
        (config.scratch_depth - reserved) // (vectors * size + NEEDED_ARRAYS),
        config.bias_depth // stage_gates,
        tiles * (config.weight_depth // (2 * config.lanes)) // gates,
    )
    most_columns = min(
        config.queue_depth // max(size, 2 * gates),
        tiles * (config.weight_depth // (2 * gates * config.lanes)),
        config.weight_depth // (2 * size),
        config.scratch_depth // (UPDATE_SETS * UPDATE_ARRAYS * gates * config.beat_words),
    )
    column_spans = _column_spans(config, inputs, units, gates, max(1, most_columns), narrow)
    widest = max(span.count for span in column_spans)
    return LayerTiling(
        gates=gates, inputs=inputs, units=units, unit_spans=spans(units.tiles, max(1, most_units)), narrow=narrow,
        column_spans=column_spans, row_lanes=_row_lanes(config, units, gates, widest, batch.slices),
    )  # fmt: skip


def _column_spans(
    config: Config, inputs: Partition, units: Partition, gates: int, most: int, narrow: bool
) -> list[Span]:
    """Cut the columns into spans of at most `most` tiles.

    Where weights are loaded again for each use, inputs and units have spans of their own: several steps then share the
    loads of the inputs' spans, see :mod:`etalstm.plan.passes.propagation`. But no span may become so narrow that
    reading a sparse δ takes longer than its products.
    """
    columns = inputs.tiles + units.tiles
    mixed = spans(columns, most)
    vectors = sum(weight_vectors(span.count, narrow) for span in mixed)
    if not inputs.tiles or stay(config, vectors, gates * units.padded):
        return mixed
    apart = spans(inputs.tiles, most) + [Span(inputs.tiles + s.first, s.count) for s in spans(units.tiles, most)]
    narrowest = min(span.count for span in apart)
    return apart if narrowest * SPARSE_DELTA * config.beat_words >= 1 else mixed
