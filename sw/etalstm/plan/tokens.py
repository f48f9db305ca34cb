"""Sums of tokens: what the x of each distinct token of a batch adds to the gates' sums, made once a forward pass.

Equal tokens have equal x. A gate's sum is the bias, then the terms of x, then those of the other operand, each addition
rounded. So the sum of the bias and the terms of x depends on the token alone, and sums that begin with it have the same
bits: see :mod:`etalstm.shared_tokens`.

The sums of all distinct tokens are made first, with the tokens in the place of sequences. They are kept as if they were
rows of weights, one for each token. In the steps x is then replaced by a row that is 1 in the token's column and 0
elsewhere. 1 times a number is that number, so the sums begin with those of the token. That is one product for each row
tile, where x costs one for each of its elements.

The rows of ones are not compressed. The broadcaster makes a compressed stream whole again before it sends any of it, a
beat in a cycle. So a stream of them would take as long as they do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from etalstm.plan import layout
from etalstm.plan.emit import Emitter
from etalstm.plan.memory import Array, MemoryMap
from etalstm.plan.operands import Operand
from etalstm.plan.sequence import Sequence
from etalstm.plan.steps import loop_through
from etalstm.plan.sums import Sums, Terms, add_terms
from etalstm.plan.tiling import BatchTiles, LayerTiling, Share, ceil_div
from etalstm.plan.weights import Matrix, WeightStore
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic


@dataclass(frozen=True)
class TokenArrays:
    """The arrays of a layer whose x are tokens. Each group of channels has tokens of its own.

    Members
    -------
    columns : Share
        How the distinct tokens are divided where they are broadcast: among as few channels as hold a tile each. The
        broadcaster reads whole tiles.
    x : Sequence
        The x of each distinct token, in the place of sequences: one step, (groups, tokens, I). Zeros where there are
        fewer.
    chosen : Sequence
        (T, B, tokens): 1 in the column of the step's token, of the group that has the sequence; 0 at padding.
    sums : Array
        What the bias and x of each token add up to. It lies as rows of weights: [unit group][token][unit tile][gate].
    """

    columns: Share
    x: Sequence
    chosen: Sequence
    sums: Array


def tokens_at_once(config: Config, tiling: LayerTiling) -> int:
    """Give how many tokens' sums are made together: as many as half of the queue and a block of x hold."""
    row_tiles = tiling.gates * max(group.count for group in tiling.unit_groups)
    return min(config.queue_depth // (2 * row_tiles), config.broadcast_words // config.lanes)


def allocate_tokens(
    config: Config, into: MemoryMap, tiling: LayerTiling, batch: BatchTiles, steps: int, tokens: int
) -> TokenArrays:
    """Allocate the arrays for at most so many distinct tokens.

    Parameters
    ----------
    config : Config
        The machine of one group.
    into : MemoryMap
    tiling : LayerTiling
        Of the stage that takes x.
    batch : BatchTiles
        Of a group's part.
    steps, tokens : int
    """
    columns = Share(tokens, min(config.channels, ceil_div(tokens, config.lanes)), config.lanes)
    places = BatchTiles(columns.padded, tokens_at_once(config, tiling))
    index = partial(layout.sequence_index, tiling.inputs, 1, places)
    vectors = places.vectors * tiling.inputs.tiles
    x = into.add_of_groups("token_x", "activations", vectors, index, (columns.padded, tiling.inputs.size))
    index = partial(layout.sequence_index, columns, steps, batch, config.channels)
    vectors, shape = steps * batch.vectors * columns.tiles, (steps, batch.batch, tokens)
    chosen = into.add("chosen_tokens", "activations", vectors, index, shape, batch_axis=1)
    rows = tiling.gates * tiling.units.tiles
    return TokenArrays(
        columns=columns,
        x=Sequence(x, tiling.inputs.tiles, places),
        chosen=Sequence(chosen, columns.tiles, batch),
        sums=into.add_raw("token_sums", "activations", columns.padded * rows),
    )


class TokenSums:
    """Emits the sums of a stage's distinct tokens.

    Parameters
    ----------
    config : Config
        The machine with the share of the lane memories that the stage has.
    emitter : Emitter
    tokens : TokenArrays
    tiling : LayerTiling
    rows : Matrix
        The stage's weights: the rows of x.
    first_weight : int
        Where the stage's weight memory begins.
    bias : function
        From sums to the biases that they start from.

    Members
    -------
    matrix : Matrix
        The sums, as the rows of weights that the steps take for x.
    """

    def __init__(
        self,
        config: Config,
        emitter: Emitter,
        tokens: TokenArrays,
        tiling: LayerTiling,
        rows: Matrix,
        first_weight: int,
        bias: Callable[[Sums], Operand],
    ):
        self._emitter, self._tokens, self._tiling, self._rows = emitter, tokens, tiling, rows
        self._config, self._first, self._bias = config, first_weight, bias
        groups = (tiling.gates * group.count for group in tiling.unit_groups)
        self.matrix = Matrix.whole(tokens.sums, groups, tokens.columns.padded)

    def emit(self) -> None:
        """Append the sums of all tokens."""
        weights, tiles = WeightStore(self._config, self._emitter, [self._rows], self._first), self._tokens.x.batch
        loop_through(self._emitter, range(tiles.count), tiles.size_of, lambda tile: self._tile(weights, tile))

    def _tile(self, weights: WeightStore, tile: int) -> None:
        """Append the sums of some tokens, group by group of units."""
        tokens, tiling, groups = self._tokens, self._tiling, self._tiling.unit_groups
        for number, group in enumerate(groups):
            half = (tile * len(groups) + number) % 2
            size, queue = tokens.x.batch.size_of(tile), Operand(Memory.QUEUE, self._config.queue_depth // 2 * half)
            sums = Sums(
                number=number, group=group, size=size, gates=tiling.gates, queue=queue, in_second_half=half == 1
            )
            terms = Terms(
                place=tokens.x.part(0, tile), share=tiling.inputs, matrix=self._rows, row=0, narrow=tiling.narrow,
                start=True, finish=True,
            )  # fmt: skip
            add_terms(self._emitter, weights, sums, terms, self._bias(sums))
            place = self.matrix.place(number, tokens.x.batch.ranges[tile].start)
            self._emitter.store(queue, place, Traffic.ACTIVATIONS, 1, sums.vectors)

    def terms(self, step: int, batch_tile: int) -> Terms:
        """Give what the tokens of a step add to the gates' sums, which they begin."""
        place = self._tokens.chosen.part(step, batch_tile)
        return Terms(place=place, share=self._tokens.columns, matrix=self.matrix, row=0, start=True, finish=False)
