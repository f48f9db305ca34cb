"""The sums of one product of a stage in the forward pass: its weights, its biases, its operands."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Operand, Place
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.memory.tiling import SPARSE_CHANGES, Share
from etalstm.plan.passes.sums import Sums, Terms, add_terms
from etalstm.plan.passes.token_sums import TokenSums
from etalstm.plan.passes.weights import Matrix, WeightStore
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic


class ProductSums:
    """Emits the sums of one product.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
    shares : bool
        The sums of the distinct tokens stand for x, where the layer has such arrays.
    skips : bool
        Weights that are loaded again at each step are loaded row by row, where only changes are broadcast.

    Members
    -------
    tokens : TokenSums or None
    has_maps : bool
        Rows are loaded as the maps of the changes say.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, shares: bool, skips: bool
    ):
        self._emitter, self._layer, self._has_biases = emitter, layer, False
        self._refreshes: Callable[[int], bool] = layer.delta_inputs.refreshes
        self.tokens: TokenSums | None = None
        self._take_weights(shares)
        has_maps = skips and any(operand.needed for operand in layer.sent)
        self.has_maps = has_maps and self._loads_prevail(config, network.batch.size)

    def _take_weights(self, shares: bool) -> None:
        """Say which weights the steps take: all rows, or those of the other operand and the sums of the tokens."""
        layer, tiling, emitter = self._layer, self._layer.tiling, self._emitter
        groups = [tiling.weight_vectors(tiling.gates * group.count) for group in tiling.unit_groups]
        self._rows = Matrix.whole(layer.rows, groups, tiling.depth)
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
        place = layer.x.part(step + layer.x_step, batch_tile)
        sent = layer.sent[0] if layer.sent else None
        self._sum(step, batch_tile, sums, place, sent, layer.tiling.inputs, row=0, start=True, finish=False)

    def sum_state(self, step: int, batch_tile: int, sums: Sums) -> None:
        """Add the terms of the other operand, which ends the sums."""
        layer, row, starts = self._layer, self._layer.tiling.inputs.padded, self._layer.x is None
        place = layer.operand.part(step + layer.operand_step, batch_tile)
        sent = layer.sent[1] if layer.sent else None
        self._sum(step, batch_tile, sums, place, sent, layer.tiling.units, row=row, start=starts, finish=True)

    def _sum(
        self,
        step: int,
        batch_tile: int,
        sums: Sums,
        place: Place,
        sent: SentOperand | None,
        share: Share,
        row: int,
        start: bool,
        finish: bool,
    ) -> None:
        """Add the terms of one broadcast array, or of its changes, to sums; `start` begins, `finish` ends them.

        Sums of changes, and those that begin with the sum of a token, begin with their first term.
        """
        changed = None if self._refreshes(step) else sent
        bias = None if changed or self.tokens else self._bias(sums, start)
        place = changed.changes(step, batch_tile) if changed else place
        needed = changed.row_map(step, batch_tile) if changed and self.has_maps else None
        terms = Terms(
            place=place, share=share, matrix=self._rows, row=row, compressed=changed is not None,
            narrow=self._layer.tiling.narrow, start=start, finish=finish, needed=needed,
        )  # fmt: skip
        add_terms(self._emitter, self._weights, sums, terms, bias)

    def _bias(self, sums: Sums, start: bool) -> Operand:
        """Have the biases of some sums' rows in the bias memory: all groups' at once, if they fit, else their own.

        Their own come when the sums `start`.
        """
        first, gates = self._layer.first_bias, sums.gates
        everything = gates * self._layer.tiling.units.tiles
        if everything <= self._layer.bias_depth:
            if not self._has_biases:
                self._bring_biases(first, 0, everything)
            self._has_biases = True
            return Operand(Memory.BIAS, first + gates * sums.group.first)
        first += self._bias_half(sums)
        if start:
            self._bring_biases(first, gates * sums.group.first, sums.row_tiles)
        return Operand(Memory.BIAS, first)

    def _bias_half(self, sums: Sums) -> int:
        """Choose where sums' own biases go: they alternate halves, as those of the queue, if they fit a half.

        So the next sums' biases come while these are still finished with their own.
        """
        half = self._layer.bias_depth // 2
        return half if sums.row_tiles <= half and sums.in_second_half else 0

    def _bring_biases(self, to: int, vector: int, vectors: int) -> None:
        place = Place(self._layer.bias, vector)
        self._emitter.load(Operand(Memory.BIAS, to), place, Traffic.WEIGHTS, outer=1, inner=vectors)
