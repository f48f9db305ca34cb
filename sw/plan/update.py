"""Programs of the optimiser: SGD with momentum, weight decay and clipping, and the refresh of the row copies."""

from etalstm.hw import contract
from etalstm.hw.config import Config
from etalstm.hw.contract import Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.emit import Emitter, Operand, Parameter, Place, Scratch
from etalstm.plan.tiling import UPDATE_ARRAYS, UPDATE_SETS, Span

SCALE = Parameter(contract.PARAMETER_SCALE)
WEIGHT_DECAY = Parameter(contract.PARAMETER_WEIGHT_DECAY)
ZERO = Parameter(contract.PARAMETER_ZERO)
MOMENTUM = Parameter(contract.PARAMETER_MOMENTUM)
LEARNING_RATE = Parameter(contract.PARAMETER_LEARNING_RATE)


class UpdateLayer:
    """Emits one layer's update.

    As many units at a time as a transposer's square has rows: their gates' rows of one column group are loaded with
    gradient and velocity, updated, stored, and written transposed into the row copy of the units' owner. Two sets of
    buffers alternate where the scratch memory holds them. All channels go through the owners in the same order, so one
    memory takes what all of them write: an instruction is the same for all, and has no address that rotates with the
    channel.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._config, self._emitter, self._layer = config, emitter, layer
        tiling = layer.tiling
        widest = max(group.count for group in tiling.column_groups)
        self._gates = tiling.gates
        self._chunk = chunk = self._gates * config.beat_words * widest
        sets = UPDATE_SETS if UPDATE_SETS * UPDATE_ARRAYS * chunk <= config.scratch_depth else 1
        scratch = Scratch(config)
        names = ("weights", "gradients", "velocities", "products")
        self._sets = [tuple(scratch.take(name, chunk) for name in names) for _ in range(sets)]
        self._turn = 0

    def emit(self) -> None:
        """Append the layer's instructions."""
        layer, tiling = self._layer, self._layer.tiling
        offset = 0
        for group in tiling.column_groups:
            row = 0
            for target in range(tiling.units.channels):
                for first in range(0, tiling.units.share, self._config.beat_words):
                    units = min(self._config.beat_words, tiling.units.share - first)
                    vector = offset + row * group.count
                    weights = self._step(
                        (layer.columns, layer.gradient, layer.velocity),
                        vector,
                        self._gates * units * group.count,
                        WEIGHT_DECAY,
                    )
                    self._refresh(group, weights, target, first, units)
                    row += self._gates * units
            offset += tiling.rows * group.count
        biases = self._gates * tiling.units.tiles
        for first in range(0, biases, self._chunk):
            arrays = (layer.bias, layer.bias_gradient, layer.bias_velocity)
            self._step(arrays, first, min(self._chunk, biases - first), ZERO)

    def _step(self, arrays, vector: int, count: int, decay: Parameter) -> Operand:
        """Update `count` vectors; the weights stay in the scratch memory."""
        emitter = self._emitter
        w, g, v, product = buffers = self._sets[self._turn % len(self._sets)]
        self._turn += 1
        places = [Place(array, vector, (vector,)) for array in arrays]
        for to, place in zip(buffers, places, strict=False):
            emitter.load(to, place, Traffic.WEIGHTS, 1, count)

        def run(op, d, a, b):
            emitter.vector(op, d, a, b, inner=count)

        run(VectorOp.MULTIPLY, g, SCALE, g)
        run(VectorOp.MULTIPLY, product, decay, w)
        run(VectorOp.ADD, g, g, product)
        run(VectorOp.MULTIPLY, v, MOMENTUM, v)
        run(VectorOp.ADD, v, v, g)
        run(VectorOp.MULTIPLY, product, LEARNING_RATE, v)
        run(VectorOp.SUBTRACT, w, w, product)
        emitter.store(w, places[0], Traffic.WEIGHTS, 1, count)
        emitter.store(v, places[2], Traffic.WEIGHTS, 1, count)
        return w

    def _refresh(self, columns: Span, weights: Operand, target: int, first: int, units: int) -> None:
        """Write the rows of some units, transposed, into their owner's row copy."""
        config, tiling = self._config, self._layer.tiling
        tile, lane = divmod(first, tiling.units.lanes)
        base = 0
        for group in tiling.unit_groups:
            if tile < group.first + group.count:
                break
            base += tiling.depth * self._gates * group.count
        stride = self._gates * group.count  # vectors from one column to the next
        for position in range(columns.count):
            column = columns.first + position
            of_units = column >= tiling.inputs.tiles
            share = tiling.units if of_units else tiling.inputs
            start = (
                (column - tiling.inputs.tiles) * share.lanes + tiling.inputs.padded
                if of_units
                else (column * share.lanes)
            )
            vector = base + start * stride + self._gates * (tile - group.first)
            self._emitter.transpose(
                weights.at(position, outer=columns.count, inner=self._gates * columns.count),
                Place(self._layer.rows, vector),
                gates=self._gates,
                target=target,
                beat=lane // config.beat_words,
                rows=units,
                lanes=tiling.lanes_of_column(column),
                outer_beats=config.vector_beats,
                lane_beats=stride * config.vector_beats,
                channel_beats=share.share * stride * config.vector_beats,
            )
