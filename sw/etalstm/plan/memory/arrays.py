"""The arrays of a layer in the channels' windows, and where parts of them lie."""

from dataclasses import dataclass
from functools import partial
from itertools import islice

from etalstm.network.cells.cell import Cell, Product, Stage
from etalstm.network.delta_inputs import LayerInputs
from etalstm.network.storage import LayerStorage
from etalstm.plan.memory import layout
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import Location, RowMap, Sequence
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.memory.shards import Exchange, Shards
from etalstm.plan.memory.tiling import BatchTiles, LayerTiling, Partition, Span, ceil_div
from etalstm_hw.config import Config


@dataclass(frozen=True)
class TokenArrays:
    """The arrays of a layer whose x are tokens. Each group of channels has tokens of its own.

    Members
    -------
    columns : Partition
        How the distinct tokens are divided where they are broadcast: among as few channels as hold a tile each. The
        broadcaster reads whole tiles.
    x : Sequence
        The x of each distinct token, in the place of sequences: one step, (groups, tokens, I). Zeros where there are
        fewer.
    chosen : Sequence
        (T, B, tokens): 1 in the column of the step's token, of the group that has the sequence; 0 at padding.
    sums : Array
        What the bias and x of each token add up to. It lies as rows of weights: [unit span][token][unit tile][gate].
    """

    columns: Partition
    x: Sequence
    chosen: Sequence
    sums: Array


def tokens_at_once(config: Config, tiling: LayerTiling) -> int:
    """Give how many tokens' sums are made together: as many as half of the memory of sums and a block of x hold."""
    row_tiles = tiling.gates * max(span.count for span in tiling.unit_spans)
    return min(config.queue_depth // (2 * row_tiles), config.broadcast_words // config.lanes)


def allocate_tokens(
    config: Config, into: MemoryMap, tiling: LayerTiling, batch: BatchTiles, steps: int, tokens: int
) -> TokenArrays:
    """Allocate the arrays for at most so many distinct tokens.

    `config` is the machine of one group, `batch` that of its part; `tiling` is of the stage that takes x.
    """
    columns = Partition(tokens, min(config.channels, ceil_div(tokens, config.lanes)), config.lanes)
    at_once = BatchTiles(columns.padded, tokens_at_once(config, tiling))
    elements = partial(layout.sequence_elements, tiling.inputs, 1, at_once)
    vectors = at_once.vectors * tiling.inputs.tiles
    x = into.add_of_groups("token_x", "activations", vectors, elements, (columns.padded, tiling.inputs.size))
    elements = partial(layout.sequence_elements, columns, steps, batch, channels=config.channels)
    vectors, shape = steps * batch.vectors * columns.tiles, (steps, batch.batch, tokens)
    chosen = into.add("chosen_tokens", "activations", vectors, elements, shape, batch_axis=1)
    rows = tiling.gates * tiling.units.tiles
    return TokenArrays(
        columns=columns,
        x=Sequence(x, tiling.inputs.tiles, at_once),
        chosen=Sequence(chosen, columns.tiles, batch),
        sums=into.add_raw("token_sums", "activations", columns.padded * rows),
    )


@dataclass(frozen=True)
class ParameterArrays:
    """The arrays of a product's matrix and bias, and of what belongs to them.

    Members
    -------
    rows, columns : the two copies of the matrix that the passes read
    weights : the matrix that the update works on. The column copy, unless copies are narrow: then like the velocity
    gradient, velocity : [column span][row][column tile], each group's rows
    bias, bias_gradient, bias_velocity : [unit tile][gate]
    norms : Σ dW² of each column
    bias_sums : db of each slice, while segments follow one another; None if there is one slice
    group_bias : db of a group's part of the batch; None if there is one group
    partial : dW and db of parts of the batch that wait for those before them
    """

    rows: Array
    columns: Array
    weights: Array
    gradient: Array
    velocity: Array
    bias: Array
    bias_gradient: Array
    bias_velocity: Array
    norms: Array
    bias_sums: Array | None
    group_bias: Array | None
    partial: list[tuple[Array, Array]]


@dataclass(frozen=True)
class LayerArrays(ParameterArrays):
    """The arrays in memory of one product of a layer's cell.

    The last product of a stage has the stage's own arrays too. Others have none in their place. That of the last stage
    has the cell's arrays besides: see :class:`CellArrays`.

    Members
    -------
    number : int          of the layer
    stage : Stage         of the cell
    product : Product     of the stage
    earlier : tuple of LayerArrays    the products before this one
    lanes : Config        the machine with the share of the lane memories that this product has; of the bias memory,
        that its stage has
    shards : Shards       which rows of `gradient` and `velocity` each group of channels has
    exchange : Exchange   where groups of channels exchange dW of their parts of the batch, and weights; None if there
        is one group
    x : Sequence          what enters the layer, and the step it starts at; None if another product is with it
    dx : Sequence         gradients that leave below; None likewise
    operand : Sequence    the operand of the matrix that is not x, and the step it starts at: the cell's output of the
        step before, or an earlier stage's of this step
    operand_gradient : Sequence    its gradient, one step
    outputs : tuple of Sequence    of the stage: T + 1 steps, the first of the cell's is the initial state
    output_gradients : tuple of Sequence    gradients of the stage's outputs, of one step. In the last stage these are
        the final states' before the backward pass, and the initial states' after it
    index : Array         with compressed storage: a vector for the index of each stream; None if the stage has none
    delta : Sequence      gradients of the gates; None with compressed storage
    delta_index : Array   with compressed storage: a vector for the index of each tile's stream
    needed : Array        with compressed storage, unless the columns stay in the lanes: a vector for each tile and
        gate, which rows the present δ needs
    dh_sum : Sequence     dy + dh of a step; None unless the batch is masked
    delta_inputs : LayerInputs    which elements of the operands are broadcast
    operands_sent : (SentOperand, SentOperand)    x and the other operand, where only changes are broadcast; else ()
    sums : Sequence       then the sums of the gates, [tile][gate][b], as the present step leaves them
    tokens : TokenArrays  where x are tokens whose sums are shared; else None
    integers : IntegerArrays    where products are integers; else None
    """

    number: int
    cell: Cell
    stage: Stage
    product: Product
    earlier: tuple["LayerArrays", ...]
    lanes: Config
    tiling: LayerTiling
    shards: Shards
    storage: LayerStorage
    exchange: Exchange | None
    x: Sequence | None
    x_step: int
    dx: Sequence | None
    operand: Sequence
    operand_step: int
    operand_gradient: Sequence
    outputs: tuple[Sequence, ...]
    output_gradients: tuple[Sequence, ...]
    index: Array | None
    delta: Sequence | None
    delta_index: Array | None
    needed: Array | None
    dh_sum: Sequence | None
    delta_inputs: LayerInputs
    operands_sent: tuple[SentOperand, SentOperand] | tuple[()]
    sums: Sequence | None
    tokens: TokenArrays | None
    integers: IntegerArrays | None

    @property
    def products(self) -> tuple["LayerArrays", ...]:
        """All products up to this one: of the last, all products of the layer."""
        return (*self.earlier, self)

    @property
    def stages(self) -> tuple[tuple["LayerArrays", ...], ...]:
        """The products of each stage up to this one."""
        products = iter(self.products)
        stages = (tuple(islice(products, len(stage.products))) for stage in self.cell.stages)
        return tuple(filter(None, stages))

    @property
    def shares_tokens(self) -> bool:
        """There are arrays for the sums of distinct tokens."""
        return bool(self.tokens or (self.integers and self.integers.tokens))

    @property
    def batch(self) -> BatchTiles:
        """How the sequences are divided."""
        return self.operand.batch

    @property
    def matrices(self) -> tuple[Array, ...]:
        """All arrays that hold the weights."""
        return tuple({array.name: array for array in (self.rows, self.columns, self.weights)}.values())

    @property
    def has_stage(self) -> bool:
        """This is the last product of its stage, so it has the stage's arrays."""
        return self.product is self.stage.products[-1]

    @property
    def is_recurrent(self) -> bool:
        """The operand that is no input is the cell's output of the step before."""
        return self.product.operands[-1] == self.cell.output

    @property
    def factors(self) -> tuple[tuple[Sequence | None, int], tuple[Sequence, int]]:
        """The factors of δ in dW, x and the other operand: their sequences, and which step of each is step 0."""
        if self.operands_sent:
            return (self.operands_sent[0].sent, 0), (self.operands_sent[1].sent, 0)
        return (self.x, self.x_step), (self.operand, self.operand_step)

    @property
    def first_weight(self) -> int:
        """Where the product's share of the weight memory begins."""
        return sum(product.lanes.weight_depth for product in self.earlier)

    @property
    def first_bias(self) -> int:
        """Where the product's share of the bias memory begins."""
        return sum(product.bias_depth for product in self.earlier)

    @property
    def bias_depth(self) -> int:
        """The product's share of the bias memory."""
        return self.lanes.bias_depth // len(self.stage.products)

    @property
    def first_kind(self) -> int:
        """Kinds of local gradients that the earlier stages store."""
        return sum(len(product.stage.kept) for product in self.earlier if product.has_stage)

    @property
    def gates_vectors(self) -> int:
        """Vectors of a step's gates, which a dense cell stores of this stage; counted at its last product."""
        gates = len(self.stage.kept_gates) if self.has_stage else 0
        return gates * self.tiling.units.tiles * self.batch.size * self.batch.count

    def dw_at(self, number: int) -> Location:
        """Where a backward pass leaves dW of a column span, of a group's part of the batch."""
        return Location(self.exchange.sums(number), 0) if self.exchange else self.gradient_at(number)

    def gradient_at(self, number: int) -> Location:
        """Where a group's rows of a column span of the whole batch's dW begin."""
        return Location(self.gradient, self.shards.columns[number].first_in_shard)

    @property
    def db(self) -> Array:
        """Where a backward pass leaves db of a group's part of the batch."""
        return self.group_bias or self.bias_gradient

    def index_of(self, step: int, batch_tile: int, span: Span, kind: int) -> Location:
        """Where the index of a stream lies."""
        if self.index is None:
            raise ValueError(f"a stage of layer {self.number} keeps no streams")
        spans = self.tiling.unit_spans
        number = (step * self.batch.count + batch_tile) * len(spans) + spans.index(span)
        return Location(self.index, number * len(self.stage.kept) + kind, (number, kind))

    def delta_at(self, step: int, batch_tile: int, tile: int = 0) -> Location:
        """Where a tile's δ lies, or with compressed storage the index of its stream."""
        if self.delta:
            return self.delta.at(step, batch_tile, self.tiling.gates * tile)
        assert self.delta_index, "a layer stores its δ dense or as streams"
        number = (step * self.batch.count + batch_tile) * self.tiling.units.tiles + tile
        return Location(self.delta_index, number, (step, batch_tile))

    @property
    def row_map(self) -> RowMap | None:
        """Where the map of the rows lies that the present δ needs, if there is one."""
        return RowMap(Location(self.needed, 0), self.tiling.units, self.tiling.gates) if self.needed else None


@dataclass(frozen=True)
class CellArrays(LayerArrays):
    """The arrays of the last product of a layer's cell, which has the cell's own.

    Members
    -------
    c : Sequence          the state, T + 1 steps; with compressed storage one step, the present state
    dy : Sequence         gradients that arrive from above
    dc : Sequence         gradient of the state, as `output_gradients`
    """

    c: Sequence
    dy: Sequence
    dc: Sequence

    @property
    def h(self) -> Sequence:
        """The cell's output."""
        return self.outputs[0]

    @property
    def dh(self) -> Sequence:
        """Its gradient."""
        return self.output_gradients[0]

    def c_at(self, step: int) -> int:
        """Which step of `c` holds the state after so many steps."""
        return 0 if self.storage.compressed else step
