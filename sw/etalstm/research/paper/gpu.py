"""A training iteration on a GPU: a roofline of three terms, fitted to public results of a V100.

A phase of an iteration takes the longer one of its multiplications and its bytes of memory, and each step of a layer
takes a fixed time beside: kernels are launched, and wait for each other. Two numbers are fitted, on half of the public
DeepBench results and on nothing else: the share of the peak that products reach, and that fixed time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.network.benchmarks import V100_OPERATIONS, Benchmark
from etalstm.network.shape import GATES, NetworkShape
from etalstm.network.storage import DENSE_TENSORS

V100_BANDWIDTH = 897e9  # bytes a second: "η-LSTM" (ISCA 2021), of its baseline
WORD = 4  # bytes
_EFFICIENCIES = np.linspace(0.3, 1, 701)  # that a fit tries
_UPDATE = 5  # words of a weight's update: gradient, weight and velocity are read, weight and velocity written


@dataclass(frozen=True)
class Work:
    """An iteration of training, and what software leaves out of it."""

    network: NetworkShape
    batch: int
    steps: int
    kept: float = 1.0  # bytes of intermediates over those of five dense float32 tensors, in cells with a backward pass
    backward: float = 1.0  # share of the cells that have a backward pass; others keep nothing
    recurrent: bool = False  # only products with h, and no update: what DeepBench measures


@dataclass(frozen=True)
class Phase:
    """Work that a GPU does at once: operations, steps of a layer, bytes of memory by kind."""

    operations: float = 0.0
    steps: float = 0.0
    weights: float = 0.0
    activations: float = 0.0
    intermediates: float = 0.0
    deltas: float = 0.0

    @property
    def moved(self) -> dict[str, float]:
        """Bytes by kind."""
        return {name: getattr(self, name) for name in ("weights", "activations", "intermediates", "deltas")}


def phases(work: Work) -> Iterator[Phase]:
    """Divide an iteration into phases: of each layer products, element-wise work, and the update.

    Element-wise work is a phase of its own: it follows the step's product. Weights are read in every step, as those of
    the networks here are larger than the caches.
    """
    units, back = work.network.hidden_size, work.backward * work.steps
    cell = WORD * work.batch * units  # bytes of one tensor of a step
    stored = DENSE_TENSORS * work.kept * cell
    for layer in range(work.network.layers):
        inputs = work.network.columns_of(layer) - units
        product, weights = 2 * GATES * units * units * work.batch, WORD * GATES * units * units
        yield Phase(product * work.steps, work.steps / 2, weights * work.steps, cell * work.steps)
        forward = 3 * cell * work.steps  # c is read, c and h are written; c is also an intermediate, but written once
        yield Phase(0, 0, 0, forward + GATES * cell * work.steps, stored * back)
        yield Phase(product * back, back / 2, weights * back, cell * back, 0, GATES * cell * back)
        yield Phase(0, 0, 0, 4 * cell * back, stored * back, GATES * cell * back)
        columns = units if work.recurrent else units + inputs
        gradient = 2 * GATES * units * columns * work.batch * back
        read = WORD * work.batch * columns * back
        yield Phase(gradient, 0, WORD * GATES * units * columns, read, 0, GATES * cell * back)
        if work.recurrent:
            continue
        of_inputs, x = WORD * GATES * units * inputs, WORD * work.batch * inputs
        product = 2 * GATES * units * inputs * work.batch
        yield Phase(product * work.steps, 0, of_inputs, (x + GATES * cell) * work.steps)
        yield Phase(product * back, 0, of_inputs, x * back, 0, GATES * cell * back)
        yield Phase(0, 0, _UPDATE * (of_inputs + WORD * GATES * units * units))


@dataclass(frozen=True)
class Roofline:
    """A GPU: the share of the peak that products reach, and the fixed time of a layer's step, forward and backward."""

    efficiency: float
    step_seconds: float

    def seconds(self, work: Work) -> float:
        """Give the time of an iteration."""
        rate = self.efficiency * V100_OPERATIONS
        return sum(
            phase.steps * self.step_seconds + max(phase.operations / rate, sum(phase.moved.values()) / V100_BANDWIDTH)
            for phase in phases(work)
        )


def moved(work: Work) -> dict[str, float]:
    """Give the bytes of an iteration by kind."""
    kinds = [phase.moved for phase in phases(work)]
    return {name: sum(found[name] for found in kinds) for name in kinds[0]}


def operations(work: Work) -> float:
    """Count the multiplications and additions of an iteration's products."""
    return sum(phase.operations for phase in phases(work))


def footprint(work: Work) -> dict[str, float]:
    """Give the bytes of memory by kind: weights, gradients, velocities; x and h of all steps; intermediates; δ.

    δ is that of one layer at a time.
    """
    network, cells = work.network, work.batch * work.steps
    parameters = sum(network.rows * network.columns_of(layer) for layer in range(network.layers))
    outputs = network.hidden_size * network.layers
    return {
        "weights": WORD * parameters,
        "optimizer": WORD * 2 * parameters,
        "activations": WORD * cells * (network.input_size + outputs),
        "intermediates": WORD * DENSE_TENSORS * cells * outputs * work.kept * work.backward,
        "deltas": WORD * GATES * cells * network.hidden_size * work.backward,
    }


@dataclass(frozen=True)
class Fitted:
    """A fit, and its errors as shares of the published times: those it was fitted to, and the others."""

    roofline: Roofline
    fitted: dict[str, float]
    others: dict[str, float]


def fit(published: Sequence[Benchmark]) -> Fitted:
    """Fit a roofline to every second one of the published times, ordered by work, from the least work on.

    The fit minimises the sum of the squares of the relative errors.
    """
    ordered = sorted(published, key=lambda one: operations(recurrent(one)))
    chosen, others = ordered[::2], ordered[1::2]
    best = min(
        (_best_with(efficiency, chosen) for efficiency in _EFFICIENCIES), key=lambda one: _squared_error(one, chosen)
    )
    return Fitted(best, *({one.name: error(best, one) for one in times} for times in (chosen, others)))


def recurrent(benchmark: Benchmark) -> Work:
    """Give the work that a published time measures."""
    return Work(benchmark.network, benchmark.batch, benchmark.steps, recurrent=True)


def error(roofline: Roofline, benchmark: Benchmark) -> float:
    """Give by which share the roofline's time is longer than the published one."""
    return 1e3 * roofline.seconds(recurrent(benchmark)) / benchmark.published_milliseconds - 1


def _best_with(efficiency: float, published: Sequence[Benchmark]) -> Roofline:
    """Give the best roofline with this efficiency; the times are linear in the time of a step."""
    free, unit = Roofline(float(efficiency), 0.0), 1e-6
    missing = np.array([-error(free, one) for one in published])
    slopes = np.array([error(Roofline(float(efficiency), unit), one) for one in published]) + missing
    return Roofline(float(efficiency), max(0.0, float(slopes @ missing / (slopes @ slopes)) * unit))


def _squared_error(roofline: Roofline, published: Sequence[Benchmark]) -> float:
    return sum(error(roofline, one) ** 2 for one in published)
