"""Delta inputs: sends the changes of a layer's operands, and collects the gradients of elements that were not sent.

See :mod:`etalstm.network.delta_inputs`. The changes of a step are computed while the step before runs. They are stored
as streams, which drop changes below the threshold. A step later the streams are read again and added to what was sent
before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Parameter, Sequence
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.memory.tiling import Span, spans
from etalstm.plan.passes.vectors import MINUS_ZERO, ZERO, Steps
from etalstm.plan.passes.weights import reduce_needed
from etalstm.plan.program.emit import Emitter
from etalstm_hw.contract import Traffic, VectorOp


@dataclass(frozen=True)
class Tiles:
    """Some tiles of an operand, of a batch tile of so many sequences."""

    batch_tile: int
    span: Span
    size: int

    @property
    def vectors(self) -> int:
        """Vectors of the tiles."""
        return self.span.count * self.size

    def vector(self, emitter: Emitter) -> Callable[..., None]:
        """Give what runs operations on all of it: tiles in the outer loop, sequences in the inner one."""
        return partial(emitter.vector, outer=self.span.count, inner=self.size)


class Sender:
    """Emits how an operand is sent.

    Parameters
    ----------
    operand : SentOperand    of the layer
    vectors : sequence of ``SENDING_ARRAYS`` Operand    scratch memory, [tile][b]
    maps : bool              tell which rows of weights the changes need
    """

    def __init__(
        self, emitter: Emitter, network: NetworkMap, layer: LayerArrays, operand: SentOperand, vectors: list[Operand],
        maps: bool,
    ):  # fmt: skip
        self._emitter, self._operand, self._network = emitter, operand, network
        self._has_map = maps
        self._refreshes, (self._sent, self._change) = layer.delta_inputs.refreshes, vectors

    def sends_changes(self, step: int) -> bool:
        """Tell whether a step broadcasts changes: it is there, and does not broadcast everything."""
        return step < self._network.steps and not self._refreshes(step)

    def update_sent(self, step: int, tiles: Tiles, value: Operand) -> None:
        """Have what has been sent up to a step, and store it; `value` is scratch memory for the operand."""
        emitter, operand = self._emitter, self._operand
        location = self._location(operand.sent, step, tiles)
        if self._refreshes(step):
            self._load(self._sent, self._value(step, tiles), tiles)
        else:
            self._load(self._sent, self._location(operand.sent, step - 1, tiles), tiles)
            self._load(value, self._value(step, tiles), tiles)
            for number, index in self._streams(step, tiles):
                stream = self._change.at(number * tiles.size)
                emitter.decompress(stream, index, Traffic.ACTIVATIONS, False, outer=1, inner=tiles.size)
            sent, change, value = (vectors.at(0, outer=tiles.size) for vectors in (self._sent, self._change, value))
            tiles.vector(emitter)(VectorOp.SELECT, sent, change, value)
        emitter.store(self._sent, location, Traffic.ACTIVATIONS, 1, tiles.vectors)

    def send(self, step: int, tiles: Tiles, value: Operand, mask: Operand | None) -> None:
        """Store what a step sends: how `value` differs from what was sent up to the step before, which is overwritten.

        Sequences whose `mask` is 0 send nothing.
        """
        change, sent, value = (vectors.at(0, outer=tiles.size) for vectors in (self._change, self._sent, value))
        tiles.vector(self._emitter)(VectorOp.SUBTRACT, change, value, sent)
        if mask:
            tiles.vector(self._emitter)(VectorOp.SELECT_ZERO, change, mask.at(0, outer=0), ZERO)
        threshold = self._operand.parameters.threshold
        for number, index in self._streams(step, tiles):
            log = self._operand.log(step, tiles.batch_tile, tiles.span.first + number)
            self._emitter.compress(
                self._change.at(number * tiles.size), index, log, Traffic.ACTIVATIONS, threshold, False,
                outer=1, inner=tiles.size, alone=True,
            )  # fmt: skip
        if self._has_map:
            self._store_map(step, tiles, change, sent)

    def _store_map(self, step: int, tiles: Tiles, change: Operand, products: Operand) -> None:
        """Store for each element whether a change is sent for some sequence; `products` is scratch memory for that.

        It does not wait for the streams, which tell the same: compressing them takes longer.
        """
        row_map = self._operand.row_map(step, tiles.batch_tile, tiles.span.first)
        scale = self._operand.parameters.scale
        if row_map is None or scale is None:
            return
        tiles.vector(self._emitter)(VectorOp.MULTIPLY, products, Parameter(scale), change)
        reduce_needed(self._emitter, products, tiles.span.count, tiles.size)
        self._emitter.store(products, row_map.location, Traffic.DELTAS, tiles.span.count, 1)

    def load_value(self, step: int, tiles: Tiles, value: Operand) -> None:
        """Bring the operand of a step."""
        self._load(value, self._value(step, tiles), tiles)

    def _streams(self, step: int, tiles: Tiles) -> Iterator[tuple[int, Location]]:
        for number in range(tiles.span.count):
            yield number, self._operand.changes(step, tiles.batch_tile, tiles.span.first + number)

    def _load(self, to: Operand, location: Location, tiles: Tiles) -> None:
        self._emitter.load(to, location, Traffic.ACTIVATIONS, 1, tiles.vectors)

    def _value(self, step: int, tiles: Tiles) -> Location:
        return self._location(self._operand.values, step + self._operand.first, tiles)

    @staticmethod
    def _location(sequence: Sequence, step: int, tiles: Tiles) -> Location:
        return sequence.at(step, tiles.batch_tile, tiles.span.first)


class InputSender:
    """Sends a layer's x: the changes of a step while the second step before it runs.

    The products with x run a step ahead.

    Parameters
    ----------
    operand : SentOperand    its x
    vectors : sequence of ``SENDING_ARRAYS`` Operand    scratch memory for some tiles, [tile][b]
    value : Operand          likewise, for x
    mask : Operand           scratch memory for a mask
    most : int               tiles that the scratch memory holds
    maps : bool              tell which rows of weights the changes need
    """

    def __init__(
        self, emitter: Emitter, network: NetworkMap, layer: LayerArrays, operand: SentOperand, vectors: list[Operand],
        value: Operand, mask: Operand, most: int, maps: bool,
    ):  # fmt: skip
        self._emitter, self._network = emitter, network
        self._sender = Sender(emitter, network, layer, operand, vectors, maps)
        self._value, self._mask = value, mask
        batch, operand_spans = network.batch, spans(operand.partition.tiles, most)
        self._tiles = [Tiles(tile, span, batch.size_of(tile)) for tile in range(batch.count) for span in operand_spans]

    def kind(self, step: int) -> tuple[bool, bool]:
        """Tell in what :meth:`during` differs from step to step, but for the last step."""
        return self._sender.sends_changes(step + 1), self._sender.sends_changes(step + 2)

    def during(self, step: int) -> None:
        """Append what is to be done while a step runs; step -1 stands for the time before the first.

        What is sent up to the step after it is stored, and the changes of the second after it are sent.
        """
        if step + 1 == self._network.steps:
            return
        for tiles in self._tiles:
            self._sender.update_sent(step + 1, tiles, self._value)
            if self._sender.sends_changes(step + 2):
                self._sender.load_value(step + 2, tiles, self._value)
                if self._network.mask:
                    location = self._network.mask.at(step + 2, tiles.batch_tile)
                    self._emitter.load(self._mask, location, Traffic.ACTIVATIONS, 1, tiles.size)
                self._sender.send(step + 2, tiles, self._value, self._mask if self._network.mask else None)


COLLECTING = 4  # scratch vectors of each element: collected, sent up to a step and up to the one before, its gradient


class Collector:
    """Emits the gradients of an operand's elements: what has been collected where an element was sent, else nothing.

    No gradient passes at steps that are `skipped`.
    """

    def __init__(self, emitter: Emitter, network: NetworkMap, layer: LayerArrays, operand: SentOperand, skipped: Steps):
        self._emitter, self._operand, self._refreshes = emitter, operand, layer.delta_inputs.refreshes
        self._skipped, self._last = skipped, network.steps - 1

    def collect(
        self, step: int, batch_tile: int, tiles: Span, size: int, sums: Operand, vectors: tuple[Operand, ...]
    ) -> Operand:
        """Add a step's sums of some tiles to what is collected, and take out what was sent.

        The batch tile has `size` sequences. `sums` are Wᵀδ of the step, tiles in the outer loop. `vectors` are
        ``COLLECTING`` ones of scratch memory, [tile][b]. Returns those that have the gradient; the third is free.
        """
        emitter, operand, count = self._emitter, self._operand, tiles.count * size
        collected, sent, before, gradient = (array.at(0, outer=size) for array in vectors)
        vector = partial(emitter.vector, outer=tiles.count, inner=size)
        location = operand.collected.at(0, batch_tile, tiles.first)
        is_new = step == self._last or step + 1 in self._skipped or self._refreshes(step + 1)
        if not is_new:
            emitter.load(collected, location, Traffic.ACTIVATIONS, 1, count)
        vector(VectorOp.ADD, collected, sums, MINUS_ZERO if is_new else collected)
        if self._refreshes(step):
            return collected
        for to, number in ((sent, step), (before, step - 1)):
            emitter.load(to, operand.sent.at(number, batch_tile, tiles.first), Traffic.ACTIVATIONS, 1, count)
        vector(VectorOp.SUBTRACT, sent, sent, before)
        vector(VectorOp.MULTIPLY, gradient, ZERO, ZERO)
        vector(VectorOp.SELECT, gradient, sent, collected)
        vector(VectorOp.SELECT, collected, sent, MINUS_ZERO)
        emitter.store(collected, location, Traffic.ACTIVATIONS, 1, count)
        return gradient
