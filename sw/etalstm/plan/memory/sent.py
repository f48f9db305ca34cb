"""Memory for operands of which only the changes are broadcast: see :mod:`etalstm.network.delta_inputs`."""

from collections.abc import Sequence as Several
from dataclasses import dataclass

from etalstm.errors import PlanError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import DELTAS, Location, Log, RowMap, Sequence
from etalstm.plan.memory.tiling import BatchTiles, LayerTiling, Partition, ceil_div
from etalstm_hw.contract import (
    MOST_INPUT_SCALES,
    MOST_INPUT_THRESHOLDS,
    PARAMETER_INPUT_SCALES,
    PARAMETER_INPUT_THRESHOLDS,
    STREAM_BLOCK,
)

SENDING_ARRAYS = 2  # scratch vectors of each element: what has been sent, and how the operand differs from it
TURNS = 2  # steps whose changes are in memory at once


@dataclass(frozen=True)
class ThresholdParameters:
    """Parameters of a threshold Θ in the forward pass.

    `threshold` is the number of the one that has it: smaller changes are not sent. `scale` is the number of the one by
    which a smaller change, multiplied, becomes ±0; None if no parameter is left.
    """

    threshold: int
    scale: int | None


@dataclass(frozen=True)
class SentOperand:
    """An operand of a layer, what has been sent of it, and the streams of its changes.

    Members
    -------
    partition : Partition    how its elements are divided
    values : Sequence        the operand
    first : int              number of the operand's step that is step 0
    sent : Sequence          for each step the values sent up to then
    index : Array            a vector for the index of each stream of changes: [step][batch tile][tile]
    streams : Array          room for these streams
    collected : Sequence     gradients of elements that have not been sent since
    needed : Array or None
        The rows of weights that the changes need, a vector for each tile: [turn][batch tile][tile]. None: all rows of
        weights are loaded.
    """

    partition: Partition
    values: Sequence
    first: int
    sent: Sequence
    index: Array
    streams: Array
    collected: Sequence
    parameters: ThresholdParameters
    needed: Array | None

    def value(self, step: int, batch_tile: int, tile: int = 0) -> Location:
        """Where the operand of a step lies."""
        return self.values.at(step + self.first, batch_tile, tile)

    def changes(self, step: int, batch_tile: int, tile: int = 0) -> Location:
        """Where the index of a tile's changes lies."""
        number = (step * self.sent.batch.count + batch_tile) * self.partition.tiles + tile
        return Location(self.index, number, (step, batch_tile))

    def log(self, step: int, batch_tile: int, tile: int) -> Log:
        """Give the room of one tile's stream.

        Two steps take turns: a step's first changes are there before the last ones of the step before are broadcast.
        """
        worst = stream_vectors(self.sent.batch.size, self.partition.lanes)
        return Log(DELTAS, self.streams.section(self._in_turn(step, batch_tile, tile) * worst, worst), worst)

    def row_map(self, step: int, batch_tile: int, tile: int = 0) -> RowMap | None:
        """Tell where the map of the rows lies that a step's changes need, if there is one; two steps take turns."""
        if self.needed is None:
            return None
        location = Location(self.needed, self._in_turn(step, batch_tile, tile), (step % TURNS, batch_tile))
        return RowMap(location, self.partition, gates=1)

    def _in_turn(self, step: int, batch_tile: int, tile: int) -> int:
        return (step % TURNS * self.sent.batch.count + batch_tile) * self.partition.tiles + tile


def stream_vectors(vectors: int, lanes: int) -> int:
    """Vectors that a stream of so many takes at most."""
    elements = vectors * lanes
    return ceil_div(elements + ceil_div(elements, STREAM_BLOCK), lanes)


class SendingRoom:
    """Arrays that layers use one after the other: for the streams of changes, for sums, and for collected gradients.

    `tilings` are those of all layers, `parameters` those of each input threshold.
    """

    def __init__(
        self, into: MemoryMap, batch: BatchTiles, tilings: Several[LayerTiling],
        parameters: dict[float, ThresholdParameters],
    ):  # fmt: skip
        self.parameters = parameters
        self._batch, units = batch, tilings[0].units
        inputs = max(tiling.inputs.tiles for tiling in tilings)
        of_tile = batch.count * stream_vectors(batch.size, units.lanes)
        self.x_streams = into.add_raw("x_changes", "activations", TURNS * inputs * of_tile)
        self.operand_streams = into.add_raw("h_changes", "activations", TURNS * units.tiles * of_tile)
        self._sums = into.add_raw("sums", "intermediates", tilings[0].gates * units.tiles * batch.vectors)
        self._x_collected = into.add_raw("x_collected", "activations", inputs * batch.vectors)
        self._operand_collected = into.add_raw("h_collected", "activations", units.tiles * batch.vectors)

    def sums(self, tiling: LayerTiling) -> Sequence:
        """Where the sums of a layer's gates lie."""
        return Sequence(self._sums, tiling.gates * tiling.units.tiles, self._batch)

    def x_collected(self, tiling: LayerTiling) -> Sequence:
        """Where the gradient of x lies that has not reached an element yet."""
        return Sequence(self._x_collected, tiling.inputs.tiles, self._batch)

    def operand_collected(self, tiling: LayerTiling) -> Sequence:
        """Where the gradient of the other operand lies that has not reached an element yet."""
        return Sequence(self._operand_collected, tiling.units.tiles, self._batch)


def threshold_parameters(inputs: DeltaInputs, layers: int) -> dict[float, ThresholdParameters]:
    """Give each input threshold of a network parameters of the forward pass.

    The largest thresholds have scales: of their operands the least is sent. Gives {} without delta inputs. Raises
    ``PlanError`` if the machine has fewer parameters.
    """
    of_layers = [inputs.layer(number) for number in range(0 if inputs.off else layers)]
    values = sorted({threshold for layer in of_layers for threshold in (layer.x, layer.h)})
    if len(values) > MOST_INPUT_THRESHOLDS:
        raise PlanError(f"the machine has {MOST_INPUT_THRESHOLDS} input thresholds, the network has {values}")
    scales = {value: PARAMETER_INPUT_SCALES + number for number, value in enumerate(values[-MOST_INPUT_SCALES:])}
    return {
        value: ThresholdParameters(PARAMETER_INPUT_THRESHOLDS + number, scales.get(value))
        for number, value in enumerate(values)
    }


def same_programs(first: DeltaInputs, second: DeltaInputs, layers: int) -> bool:
    """Tell whether two networks have the same programs if they differ in their delta inputs: in Θ's values at most.

    Raises :class:`PlanError` as :func:`threshold_parameters` does.
    """

    def programmed(inputs: DeltaInputs) -> tuple:  # R, and the parameters that the operands of all layers take
        numbers, of_layers = threshold_parameters(inputs, layers), map(inputs.layer, range(layers))
        return inputs.refresh, [numbers.get(threshold) for layer in of_layers for threshold in (layer.x, layer.h)]

    return programmed(first) == programmed(second)
