"""How a network's dimensions fall onto channels, lanes and the memories of a lane."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from etalstm.errors import PlanError
from etalstm.hw.config import Config

GATES = 4

# Scratch vectors that the backward pass of a cell needs for each tile of units and sequence: gates (4), c, c', dy,
# δ (4), a temporary, dh, dc. A mask and the merge of masked gradients need further vectors for each sequence.
BACKWARD_ARRAYS = 14
MASK_ARRAYS = 3

# Scratch vectors that a tile of units needs besides in the backward pass: which rows of weights its δ needs, by gate.
NEEDED_ARRAYS = GATES

# Scratch vectors that the update needs for each weight of a lane: weight, gradient, velocity, a temporary.
UPDATE_ARRAYS = 4


def ceil_div(a: int, b: int) -> int:
    """Divide, rounding up."""
    return -(-a // b)


@dataclass(frozen=True)
class Share:
    """How one dimension (inputs or units) is divided among channels and lanes.

    Channel n owns the contiguous range n·share to (n+1)·share - 1, lane l of its tile j the element n·share + j·lanes +
    l; what lies beyond the size or the share is padding, and zero.

    Parameters
    ----------
    size : int
        Elements in all.
    channels, lanes : int
    """

    size: int
    channels: int
    lanes: int

    @property
    def share(self) -> int:
        """Elements of each channel, padding of the last channels included."""
        return ceil_div(self.size, self.channels)

    @property
    def tiles(self) -> int:
        """Vectors that hold a channel's share."""
        return ceil_div(self.share, self.lanes)

    @property
    def padded(self) -> int:
        """Elements of all channels, those beyond ``size`` included."""
        return self.share * self.channels

    def lanes_of(self, tile: int) -> int:
        """Lanes of a tile that hold elements."""
        return min(self.lanes, self.share - tile * self.lanes)


@dataclass(frozen=True)
class Span:
    """A run of tiles that are worked on together."""

    first: int
    count: int


def spans(total: int, most: int) -> list[Span]:
    """Cut `total` tiles into as few runs of at most `most` as possible, of nearly equal length."""
    runs = ceil_div(total, most)
    edges = [total * n // runs for n in range(runs + 1)]
    return [Span(a, b - a) for a, b in pairwise(edges)]


@dataclass(frozen=True)
class BatchTiles:
    """Sequences that are worked on together.

    Parameters
    ----------
    batch, most : int
        Sequences in all, and at most at a time.
    """

    batch: int
    most: int

    @cached_property
    def count(self) -> int:
        """Number of tiles."""
        return ceil_div(self.batch, self.most)

    @cached_property
    def size(self) -> int:
        """Sequences of a tile; the last tile may have fewer."""
        return ceil_div(self.batch, self.count)

    def size_of(self, tile: int) -> int:
        """Sequences of one tile."""
        return min(self.size, self.batch - tile * self.size)


@dataclass(frozen=True)
class LayerTiling:
    """One layer's division.

    Members
    -------
    inputs, units : Share
        Columns of the layer's matrix are the inputs' tiles, then the units' tiles.
    unit_groups : list of Span
        Unit tiles whose four gates are summed together in the forward pass.
    column_groups : list of Span
        Column tiles that are summed together in the backward pass and in the weights' gradient.
    row_lanes : int
        Lanes of a δ block whose rows are summed together in the weights' gradient.
    """

    inputs: Share
    units: Share
    unit_groups: list[Span]
    column_groups: list[Span]
    row_lanes: int

    @property
    def columns(self) -> int:
        """Column tiles of a channel."""
        return self.inputs.tiles + self.units.tiles

    @property
    def rows(self) -> int:
        """Rows of the matrix as the machine holds it: four gates of every unit, padding included."""
        return GATES * self.units.padded

    @property
    def depth(self) -> int:
        """Columns of the matrix as the row copy holds it: padded inputs, then padded units."""
        return self.inputs.padded + self.units.padded

    def lanes_of_column(self, tile: int) -> int:
        """Lanes of a column tile that hold columns."""
        if tile < self.inputs.tiles:
            return self.inputs.lanes_of(tile)
        return self.units.lanes_of(tile - self.inputs.tiles)


def tile_batch(config: Config, hidden_size: int, batch: int) -> BatchTiles:
    """Choose how many sequences are worked on together: as many as every memory allows with one tile of units.

    Raises
    ------
    PlanError
        If not even one sequence fits.
    """
    units = Share(hidden_size, config.channels, config.lanes)
    reserved = GATES * units.tiles
    most = {
        "scratch_depth": (config.scratch_depth - reserved - NEEDED_ARRAYS) // (BACKWARD_ARRAYS + MASK_ARRAYS),
        "queue_depth": config.queue_depth // (2 * GATES),
        "broadcast_words": config.broadcast_words // (GATES * config.lanes),
        "weight_depth": config.weight_depth // 2,
    }
    name, fits = min(most.items(), key=lambda item: item[1])
    if fits < 1:
        raise PlanError(
            f"a layer of {hidden_size} units does not fit this machine: {name} is {getattr(config, name)}, "
            f"and its bias gradients alone need {reserved} vectors"
        )
    return BatchTiles(batch, fits)


def tile_layer(config: Config, batch: BatchTiles, input_size: int, hidden_size: int) -> LayerTiling:
    """Divide a layer: the largest groups of tiles that queue, scratch, bias and weight memories hold."""
    inputs = Share(input_size, config.channels, config.lanes)
    units = Share(hidden_size, config.channels, config.lanes)
    size = batch.size
    most_units = min(
        config.queue_depth // (2 * GATES * size),
        (config.scratch_depth - GATES * units.tiles - MASK_ARRAYS * size) // (BACKWARD_ARRAYS * size + NEEDED_ARRAYS),
        config.bias_depth // GATES,
        config.weight_depth // (2 * GATES * config.lanes),
    )
    most_columns = min(
        config.queue_depth // max(size, 2 * GATES),
        config.weight_depth // (2 * GATES * config.lanes),
        config.weight_depth // (2 * size),
        config.scratch_depth // (UPDATE_ARRAYS * GATES * config.beat_words),
    )
    column_groups = spans(inputs.tiles + units.tiles, max(1, most_columns))
    widest = max(group.count for group in column_groups)
    results = min(config.queue_depth // 2, (config.scratch_depth - widest) // 2)
    return LayerTiling(
        inputs=inputs,
        units=units,
        unit_groups=spans(units.tiles, max(1, most_units)),
        column_groups=column_groups,
        row_lanes=max(1, min(units.lanes, units.share, results // (GATES * widest))),
    )
