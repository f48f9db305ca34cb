"""Wᵀδ of a stage, and where the gradients of what it broadcast go."""

from etalstm.hw.contract import Memory, Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Operand, RowMap
from etalstm.plan.network import NetworkMap
from etalstm.plan.vectors import MINUS_ZERO
from etalstm.plan.weights import WeightStore


class Propagation:
    """Emits the sums Wᵀδ of a stage.

    Parameters
    ----------
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
    row_map : RowMap or None
        Which rows of weights δ needs, if that is known.
    whole_beats : int
        Beats of weights that are brought before the map is known.
    masking : list of Operand
        Where sequences have ended: the mask, which the stage has brought, and room for two vectors of each sequence.
    """

    def __init__(
        self,
        emitter: Emitter,
        network: NetworkMap,
        layer: LayerArrays,
        row_map: RowMap | None,
        whole_beats: int,
        masking: list[Operand],
    ):
        self._emitter, self._layer, self._batch = emitter, layer, network.batch
        self._row_map, self._whole_beats, self._masking = row_map, whole_beats, masking
        groups = [group.count for group in layer.tiling.column_groups]
        self._weights = WeightStore(layer.lanes, emitter, layer.columns, groups, layer.tiling.rows, layer.first_weight)
        self._half, self._turn = layer.lanes.queue_depth // 2, 0

    def emit(self, step: int, batch_tile: int) -> None:
        """Sum Wᵀδ: the inputs' part leaves the layer, the units' part goes to the step or stage before."""
        layer, size = self._layer, self._batch.size_of(batch_tile)
        place = layer.delta_at(step, batch_tile)
        for number, group in enumerate(layer.tiling.column_groups):
            sums = group.count * size
            queue = Operand(Memory.QUEUE, self._half * (self._turn % 2) if sums <= self._half else 0)
            self._turn += 1
            for run in (runs := self._weights.runs(layer.tiling.units, layer.tiling.gates, number)):
                self._emitter.cast(
                    place,
                    layer.tiling.units,
                    Traffic.DELTAS,
                    compressed=layer.storage.compressed,
                    first_block=run.first_block,
                    blocks=run.blocks,
                    gates=layer.tiling.gates,
                    batch=size,
                    tiles=group.count,
                    start=run is runs[0],
                    finish=run is runs[-1],
                )
                whole_beats = self._whole_beats if number == 0 and run is runs[0] else 0
                weights = self._weights.bring(number, run, needed=self._row_map, whole_beats=whole_beats)
                self._emitter.mac(weights, run.rows * group.count, queue, sums, group.count, backward=True)
            self._keep_sums(step, batch_tile, group, queue, size)

    def _keep_sums(self, step, batch_tile, group, queue, size):
        """Store a column group's sums as the gradients of x and of the other operand."""
        layer, inputs = self._layer, self._layer.tiling.inputs.tiles
        dx_count = max(0, min(group.count, inputs - group.first))
        if dx_count:
            sums = queue.at(0, outer=1, inner=group.count)
            place = layer.dx.part(step, batch_tile, group.first)
            self._emitter.store(sums, place, Traffic.ACTIVATIONS, dx_count, size)
        if dx_count == group.count:
            return
        first = group.first + dx_count - inputs
        sums = queue.at(dx_count, outer=1, inner=group.count)
        count = group.count - dx_count
        if not (self._masking and layer.is_recurrent):
            place = layer.operand_gradient.part(0, batch_tile, first)
            self._emitter.store(sums, place, Traffic.ACTIVATIONS, count, size)
            return
        for tile in range(count):
            self._merge(batch_tile, first + tile, sums.at(tile), size)

    def _merge(self, batch_tile, tile, sums, size):
        """Store one tile of dh; sequences that have ended pass on the gradient that reached them."""
        layer, emitter, (mask, merged, passed) = self._layer, self._emitter, self._masking
        emitter.load(passed, layer.dh_sum.part(0, batch_tile, tile), Traffic.ACTIVATIONS, 1, size)
        emitter.vector(VectorOp.ADD, merged, sums, MINUS_ZERO, inner=size)
        emitter.vector(VectorOp.SELECT_ZERO, merged, mask, passed, inner=size)
        place = layer.operand_gradient.part(0, batch_tile, tile)
        emitter.store(merged, place, Traffic.ACTIVATIONS, 1, size)
