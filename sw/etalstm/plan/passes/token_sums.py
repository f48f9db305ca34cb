"""Sums of tokens: what the x of each distinct token of a batch adds to the gates' sums, made once a forward pass.

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

from etalstm.plan.memory.operands import Operand
from etalstm.plan.memory.tiling import LayerTiling
from etalstm.plan.memory.tokens import TokenArrays
from etalstm.plan.passes.sums import Sums, Terms, add_terms
from etalstm.plan.passes.weights import Matrix, WeightStore
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.steps import loop_through
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic


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
