"""Sends what has changed of a layer's operands since it was last sent: see :mod:`etalstm.delta_inputs`."""

from etalstm.hw.config import Config
from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter
from etalstm.plan.network import NetworkMap
from etalstm.plan.operands import Operand, Scratch
from etalstm.plan.sent import SentOperand
from etalstm.plan.steps import loop_through
from etalstm.plan.tiling import Span, spans
from etalstm.plan.vectors import ZERO

_SETS = 2  # sets of buffers that alternate: one is loaded while another is worked on


class Sender:
    """Emits how an operand's changes are found and sent, for some tiles of a batch tile at a time.

    A change goes to memory as a stream that drops what is below the threshold. The stream comes back to tell which
    elements have been sent, and is broadcast by the next CAST of the step.

    Parameters
    ----------
    emitter : Emitter
    operand : SentOperand
    """

    def __init__(self, emitter: Emitter, operand: SentOperand):
        self._emitter, self._operand = emitter, operand

    def keep(self, change: Operand, step: int, batch_tile: int, tiles: Span, size: int, anew: bool | None) -> None:
        """Keep the changes that a step will broadcast, a stream for each tile.

        Streams of the present step only have a place for each tile (`anew` is None); others are appended, and with
        `anew` the first begins the log.
        """
        for number in range(tiles.count):
            tile = tiles.first + number
            log = self._operand.whole_log if anew is not None else self._operand.log(step, batch_tile, tile)
            first = anew is None or (anew and not number)
            place = self._operand.changes(step, batch_tile, tile)
            self._emitter.compress(
                change.at(number * size), place, log, Traffic.ACTIVATIONS, self._operand.threshold, False,
                outer=1, inner=size, first=first,
            )  # fmt: skip

    def update(self, sent: Operand, change: Operand, value: Operand, step: int, batch_tile: int, tiles: Span, size):
        """Bring a step's changes, and replace what had been sent where there is one by the operand's value."""
        for number in range(tiles.count):
            place = self._operand.changes(step, batch_tile, tiles.first + number)
            self._emitter.decompress(change.at(number * size), place, Traffic.ACTIVATIONS, False, outer=1, inner=size)
        self._emitter.vector(VectorOp.SELECT, sent, change, value, outer=tiles.count, inner=size)


class StateSender:
    """Sends the changes of a stage's output to its next step, from where it is computed.

    Parameters
    ----------
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
    scratch : Scratch
    most : int
        Tiles, times sequences, that are worked on at a time.
    """

    def __init__(self, emitter: Emitter, network: NetworkMap, layer: LayerArrays, scratch: Scratch, most: int):
        self._emitter, self._steps, self._inputs = emitter, network.steps, layer.inputs
        self._operand = layer.sent_operand
        self._sent, self._change = (scratch.take(name, most) for name in ("what was sent", "changes"))
        self._sender = Sender(emitter, self._operand)

    def hold(self, step: int, batch_tile: int, tiles: Span, size: int, value: Operand) -> None:
        """Have what has been sent up to a step; `value` is scratch memory for the operand."""
        operand, count = self._operand, tiles.count * size
        present = operand.value(step, batch_tile, tiles.first)
        if self._inputs.refreshes(step):
            self._emitter.load(self._sent, present, Traffic.ACTIVATIONS, 1, count)
        else:
            before = operand.sent.part(step - 1, batch_tile, tiles.first)
            self._emitter.load(self._sent, before, Traffic.ACTIVATIONS, 1, count)
            self._emitter.load(value, present, Traffic.ACTIVATIONS, 1, count)
            each = (vectors.at(0, outer=size) for vectors in (self._sent, self._change, value))
            self._sender.update(*each, step, batch_tile, tiles, size)
        place = operand.sent.part(step, batch_tile, tiles.first)
        self._emitter.store(self._sent, place, Traffic.ACTIVATIONS, 1, count)

    def send(self, step: int, batch_tile: int, tiles: Span, size: int, output: Operand, mask: Operand | None) -> None:
        """Send the changes of a step's output to the next step, if that does not broadcast everything."""
        if self.is_last(step):
            return
        change, sent = (vectors.at(0, outer=size) for vectors in (self._change, self._sent))
        each = {"outer": tiles.count, "inner": size}
        self._emitter.vector(VectorOp.SUBTRACT, change, output, sent, **each)
        if mask:
            self._emitter.vector(VectorOp.SELECT_ZERO, change, mask.at(0, outer=0), ZERO, **each)
        self._sender.keep(change, step + 1, batch_tile, tiles, size, None)

    def is_last(self, step: int) -> bool:
        """Tell whether no later step goes on from what this one leaves."""
        return step + 1 == self._steps or self._inputs.refreshes(step + 1)


class InputSender:
    """Sends the changes of a layer's x, of all steps before the first of them is worked on.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    network : NetworkMap
    layer : LayerArrays
    """

    def __init__(self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays):
        self._emitter, self._network, self._inputs = emitter, network, layer.inputs
        self._operand, scratch = layer.sent_x, Scratch(config)
        self._sender = Sender(emitter, self._operand)
        size, tiles = network.batch.size, self._operand.share.tiles
        self._masks = [scratch.take("the mask", size) for _ in range(_SETS)]
        most = min(tiles, (config.scratch_depth - _SETS * size) // (_SETS * 3 * size))
        self._tiles = spans(tiles, most)
        names = "what was sent", "changes", "the operand"
        self._sets = [[scratch.take(name, most * size) for name in names] for _ in range(_SETS)]
        self._turn = 0

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps."""
        first = [step for step in steps if not self._inputs.refreshes(step)][:1]
        loop_through(self._emitter, steps, self._inputs.refreshes, lambda step: self._step(step, step in first))

    def _step(self, step: int, anew: bool) -> None:
        for batch_tile in range(self._network.batch.count):
            for tiles in self._tiles:
                self._send(step, batch_tile, tiles, anew)
                anew = False

    def _send(self, step: int, batch_tile: int, tiles: Span, anew: bool) -> None:
        """Send the changes of some tiles; `anew` tells that they are the first that a log gets."""
        operand, size = self._operand, self._network.batch.size_of(batch_tile)
        vectors, mask = self._sets[self._turn % _SETS], self._masks[self._turn % _SETS]
        self._turn += 1
        sent, change, value = (array.at(0, outer=size) for array in vectors)
        present = operand.value(step, batch_tile, tiles.first)
        place = operand.sent.part(step, batch_tile, tiles.first)
        count = tiles.count * size
        if self._inputs.refreshes(step):
            self._emitter.load(value, present, Traffic.ACTIVATIONS, 1, count)
            self._emitter.store(value, place, Traffic.ACTIVATIONS, 1, count)
            return
        before = operand.sent.part(step - 1, batch_tile, tiles.first)
        self._emitter.load(value, present, Traffic.ACTIVATIONS, 1, count)
        self._emitter.load(sent, before, Traffic.ACTIVATIONS, 1, count)
        each = {"outer": tiles.count, "inner": size}
        self._emitter.vector(VectorOp.SUBTRACT, change, value, sent, **each)
        if self._network.mask:
            masks = self._network.mask.part(step, batch_tile)
            self._emitter.load(mask, masks, Traffic.ACTIVATIONS, 1, size)
            self._emitter.vector(VectorOp.SELECT_ZERO, change, mask.at(0, outer=0), ZERO, **each)
        self._sender.keep(change, step, batch_tile, tiles, size, anew)
        self._sender.update(sent, change, value, step, batch_tile, tiles, size)
        self._emitter.store(sent, place, Traffic.ACTIVATIONS, 1, count)
