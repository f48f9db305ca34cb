"""Programs of the optimiser: SGD with momentum, weight decay and clipping, and the refresh of the passes' copies."""

from collections.abc import Iterable
from functools import partial

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.operands import Operand, Parameter, Place, Scratch
from etalstm.plan.memory.tiling import UPDATE_ARRAYS, UPDATE_SETS
from etalstm.plan.passes.refresh import Free, Refresh
from etalstm.plan.program.emit import Emitter
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import Traffic, VectorOp

SCALE = Parameter(contract.PARAMETER_SCALE)
WEIGHT_DECAY = Parameter(contract.PARAMETER_WEIGHT_DECAY)
ZERO = Parameter(contract.PARAMETER_ZERO)
MOMENTUM = Parameter(contract.PARAMETER_MOMENTUM)
LEARNING_RATE = Parameter(contract.PARAMETER_LEARNING_RATE)


class Steps:
    """Emits updates of some vectors at a time. Two sets of buffers alternate where the scratch memory holds them.

    Parameters
    ----------
    config : Config
    emitter : Emitter
    most : int
        Vectors at a time.
    """

    def __init__(self, config: Config, emitter: Emitter, most: int):
        self._emitter, self.most, self._turn = emitter, most, 0
        sets = UPDATE_SETS if UPDATE_SETS * UPDATE_ARRAYS * most <= config.scratch_depth else 1
        scratch = Scratch(config)
        names = ("weights", "gradients", "velocities", "products")
        self._sets = [tuple(scratch.take(name, most) for name in names) for _ in range(sets)]

    def step(
        self, places: Iterable[Place], count: int, decay: Parameter, updated: Place | None = None, group_stride: int = 0
    ) -> tuple[Operand, Free]:
        """Update `count` vectors; the weights stay in the scratch memory. Gives their place, and vectors that are free.

        Parameters
        ----------
        places : weights, gradient and velocity
        count : int
        decay : Parameter
        updated : Place, optional
            Where the weights go; by default they replace the old ones.
        group_stride : int
            See :meth:`etalstm.plan.program.emit.Emitter.load`; of the old weights.
        """
        emitter, (weights, gradient, velocity) = self._emitter, places
        w, g, v, product = self._sets[self._turn % len(self._sets)]
        self._turn += 1
        emitter.load(w, weights, Traffic.WEIGHTS, 1, count, group_stride=group_stride)
        emitter.load(g, gradient, Traffic.WEIGHTS, 1, count)
        emitter.load(v, velocity, Traffic.WEIGHTS, 1, count)
        run = partial(emitter.vector, inner=count)
        run(VectorOp.MULTIPLY, g, SCALE, g)
        run(VectorOp.MULTIPLY, product, decay, w)
        run(VectorOp.ADD, g, g, product)
        run(VectorOp.MULTIPLY, v, MOMENTUM, v)
        run(VectorOp.ADD, v, v, g)
        run(VectorOp.MULTIPLY, product, LEARNING_RATE, v)
        run(VectorOp.SUBTRACT, w, w, product)
        emitter.store(w, updated or weights, Traffic.WEIGHTS, 1, count)
        emitter.store(v, velocity, Traffic.WEIGHTS, 1, count)
        return w, (g, product)

    def biases(self, layer: LayerArrays) -> None:
        """Update a layer's bias."""
        total = layer.tiling.gates * layer.tiling.units.tiles
        for first in range(0, total, self.most):
            arrays = layer.bias, layer.bias_gradient, layer.bias_velocity
            places = [Place(array, first, (first,)) for array in arrays]
            self.step(places, min(self.most, total - first), ZERO)


class UpdateLayer:
    """Emits one layer's update by channels that are one group.

    As many units at a time as the smallest square has: their gates' rows of one column group are loaded with gradient
    and velocity, updated, stored, and written into the copies, see :class:`Refresh`. Larger squares would make longer
    bursts. But nothing overlaps with the reads of the first step and with the writes of the last one, so steps are
    short.
    """

    def __init__(self, config: Config, emitter: Emitter, layer: LayerArrays):
        self._layer = layer
        self._pieces = [(columns, Refresh(config, emitter, layer, columns)) for columns in layer.shards.columns]
        self._steps = Steps(config, emitter, max(refresh.most_vectors for _, refresh in self._pieces))

    def emit(self) -> None:
        """Append the layer's instructions."""
        layer = self._layer
        for columns, refresh in self._pieces:
            for units in refresh.squares():
                vector = columns.first_in_shard + units.rows.start * columns.count
                arrays = layer.weights, layer.gradient, layer.velocity
                places = [Place(array, vector, (vector,)) for array in arrays]
                weights, free = self._steps.step(places, len(units.rows) * columns.count, WEIGHT_DECAY)
                refresh.write(weights, units, free)
        self._steps.biases(layer)
