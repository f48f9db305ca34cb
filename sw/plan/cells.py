"""The element-wise work that forward and backward pass share: local gradients, and the streams they are kept in."""

from etalstm.hw import contract
from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Operand, Parameter
from etalstm.plan.network import NetworkMap
from etalstm.plan.tiling import GATES, Span

ONE = Parameter(contract.PARAMETER_ONE)
ZERO = Parameter(contract.PARAMETER_ZERO)
MINUS_ZERO = Parameter(contract.PARAMETER_MINUS_ZERO)
I, F, G, O = range(GATES)

Steps = frozenset[int]
NO_STEPS: Steps = frozenset()


def by_gate(operand: Operand, size: int) -> list[Operand]:
    """Each gate's vectors of an array that lies as [tile][gate][b]."""
    return [operand.at(gate * size, outer=GATES * size) for gate in range(GATES)]


def local_gradients(
    emitter: Emitter,
    tiles: int,
    size: int,
    *,
    gates: Operand,
    c_before: Operand,
    tanh_c: Operand,
    product: Operand,
    p: Operand,
) -> None:
    """Emit P_i, P_f, P_g, P_o into `p` ([tile][gate][b]) and P_s into `tanh_c`'s place; P_r is f, as it lies.

    Parameters
    ----------
    tiles, size : int
        Tiles of units and sequences.
    gates : [tile][gate][b], activated
    c_before, tanh_c, product : [tile][b]; `product` is used up

    Source: the design's section 2, each product left to right.
    """
    activated, local = by_gate(gates, size), by_gate(p, size)
    c_before, tanh_c, product = (operand.at(0, outer=size) for operand in (c_before, tanh_c, product))

    def run(op, d, a, b):
        emitter.vector(op, d, a, b, outer=tiles, inner=size)

    def of_sigmoid(d, factor, gate):
        run(VectorOp.MULTIPLY, d, factor, gate)
        run(VectorOp.SUBTRACT, product, ONE, gate)
        run(VectorOp.MULTIPLY, d, d, product)

    def of_tanh(d, factor, value):
        run(VectorOp.MULTIPLY, product, value, value)
        run(VectorOp.SUBTRACT, product, ONE, product)
        run(VectorOp.MULTIPLY, d, factor, product)

    of_sigmoid(local[I], activated[G], activated[I])
    of_sigmoid(local[F], c_before, activated[F])
    of_tanh(local[G], activated[I], activated[G])
    of_sigmoid(local[O], tanh_c, activated[O])
    of_tanh(tanh_c, activated[O], tanh_c)


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

    def keep(self, step: int, batch_tile: int, group: Span, size: int, p: Operand, p_s: Operand, f: Operand) -> None:
        """Append the six streams of a group's cells to their segment's log."""
        log = self._network.held_by(self._layer.number, step).log
        for place, stream, threshold in self._each(step, batch_tile, group, size, p, p_s, f):
            self._emitter.compress(
                stream,
                place,
                log,
                Traffic.INTERMEDIATES,
                contract.PARAMETER_THRESHOLDS + threshold,
                self._layer.storage.bf16,
                outer=group.count,
                inner=size,
            )

    def bring(self, step: int, batch_tile: int, group: Span, size: int, p: Operand, p_s: Operand, f: Operand) -> None:
        """Decompress the six streams of a group's cells into the scratch memory."""
        for place, stream, _ in self._each(step, batch_tile, group, size, p, p_s, f):
            self._emitter.decompress(stream, place, self._layer.storage.bf16, outer=group.count, inner=size)

    def _each(self, step, batch_tile, group, size, p, p_s, f):
        operands = [*by_gate(p, size), p_s.at(0, outer=size), f]
        for number, operand in enumerate(operands):
            yield self._layer.index_of(step, batch_tile, group, number), operand, number
