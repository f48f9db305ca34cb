"""The streams in which a layer's cells keep their local gradients."""

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Operand
from etalstm.plan.memory.tiling import Span
from etalstm.plan.program.emit import Emitter
from etalstm_hw import contract
from etalstm_hw.contract import Traffic

Steps = frozenset[int]
NO_STEPS: Steps = frozenset()


class Streams:
    """The compressed streams of a layer's cells: one for each step, batch tile, group of units and kind of P.

    Parameters
    ----------
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
        Of a layer whose storage is compressed.
    """

    def __init__(self, emitter: Emitter, network: NetworkMap, layer: LayerArrays):
        self._emitter, self._network, self._layer = emitter, network, layer

    def keep(self, step: int, batch_tile: int, group: Span, size: int, kinds: list[Operand]) -> None:
        """Append the streams of a group's cells, one of each kind, to their segment's log."""
        log = self._network.held_by(self._layer.number, step).log
        for number, stream in enumerate(kinds):
            place = self._layer.index_of(step, batch_tile, group, number)
            self._emitter.compress(
                stream,
                place,
                log,
                Traffic.INTERMEDIATES,
                contract.PARAMETER_THRESHOLDS + self._layer.first_kind + number,
                self._layer.storage.bf16,
                outer=group.count,
                inner=size,
            )

    def bring(self, step: int, batch_tile: int, group: Span, size: int, kinds: list[Operand]) -> None:
        """Decompress the streams of a group's cells into the scratch memory."""
        for number, stream in enumerate(kinds):
            place = self._layer.index_of(step, batch_tile, group, number)
            bf16 = self._layer.storage.bf16
            self._emitter.decompress(stream, place, Traffic.INTERMEDIATES, bf16, outer=group.count, inner=size)
