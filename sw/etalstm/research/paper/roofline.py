"""A training iteration on an integer machine on the board: a roofline, before a gate of it is drawn.

The machine has so many multiplications a cycle, so many float32 lanes for element-wise work, a memory, and room on the
chip for so many weights. Each phase of an iteration takes the longest of its multiplications, its element-wise
operations and its bytes. A load of weights serves all sequences of a batch: weights that fit on the chip are loaded
once a pass, others in every step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from etalstm.network.arithmetic import INT8
from etalstm.network.benchmarks import BENCHMARKS, Benchmark
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import GATES
from etalstm.network.storage import DENSE_TENSORS
from etalstm.research.paper import gpu
from etalstm.research.paper.densities import Shares, densities_of, stream_share

SUMS_OF_OPERANDS = 2  # additions of each gate's z: of the sums of x and of h
UPDATE_WORDS = 5  # of a weight's update: gradient, weight and velocity are read, weight and velocity written
MULTIPLICATIONS, ELEMENTS, BYTES = BOUNDS = ("products", "element-wise", "memory")
DENSE = Shares(1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True)
class IntegerMachine:
    """Multiplications and element-wise operations a cycle; cycles and bytes a second; weights on the chip."""

    multiplications: int
    lanes: int
    clock_hz: float
    bandwidth: float
    resident: int

    def phases(self, benchmark: Benchmark, shares: Shares) -> Iterator[dict[str, float]]:
        """Give the seconds that each phase of an iteration needs of each of :data:`BOUNDS`."""
        units, stage = benchmark.hidden, LSTM.stages[0]
        cells, weights = benchmark.batch * benchmark.steps, GATES * units * 2 * units  # as many inputs as units
        back = shares.backward * cells
        bytes_of_weight = INT8.bits / 8
        loads = 1 if benchmark.layers * weights <= self.resident else benchmark.steps
        loaded = weights * bytes_of_weight * loads
        stored = 4 * DENSE_TENSORS * stream_share(shares.local) * units * back
        forward = len(stage.forward) + len(stage.local) + GATES * SUMS_OF_OPERANDS
        products = weights * cells
        for _ in range(benchmark.layers):
            yield self._seconds(products * shares.inputs, forward * units * cells, loaded + stored + 2 * units * cells)
            gradients = loaded + stored + 2 * GATES * units * back
            yield self._seconds(products * shares.delta, (len(stage.backward) + 1) * units * back, gradients)
            operands = 2 * units * cells + 2 * GATES * units * back
            yield self._seconds(products * shares.delta, 0.0, operands)
            yield self._seconds(0.0, 0.0, weights * (4 * UPDATE_WORDS + bytes_of_weight))

    def _seconds(self, products: float, elements: float, moved: float) -> dict[str, float]:
        return {
            MULTIPLICATIONS: products / self.multiplications / self.clock_hz,
            ELEMENTS: elements / self.lanes / self.clock_hz,
            BYTES: moved / self.bandwidth,
        }


@dataclass(frozen=True)
class Estimate:
    """An iteration: its seconds, the share of them that each of :data:`BOUNDS` is the longest, a V100's seconds.

    The V100 is that of the published comparison, with tuned software.
    """

    seconds: float
    bound: dict[str, float]
    v100_seconds: float


def estimate(machine: IntegerMachine, benchmark: Benchmark, shares: Shares) -> Estimate:
    """Estimate an iteration of a benchmark at some shares of work that is left."""
    longest = dict.fromkeys(BOUNDS, 0.0)
    for phase in machine.phases(benchmark, shares):
        bound = max(phase, key=lambda name: phase[name])
        longest[bound] += phase[bound]
    seconds = sum(longest.values())
    return Estimate(seconds, {name: part / seconds for name, part in longest.items()}, v100_seconds(benchmark))


def v100_seconds(benchmark: Benchmark) -> float:
    """Give the time of an iteration on the V100 of the published comparison, with tuned software."""
    fitted = gpu.fit([one for one in BENCHMARKS.values() if one.v100_milliseconds is not None]).roofline
    return fitted.seconds(gpu.Work(benchmark.network, benchmark.batch, benchmark.steps))


HEADINGS = ("shape", "x, h", "δ", "a lane", "ms", "of a V100", *BOUNDS)


def table(machines: dict[int, IntegerMachine], benchmarks: Sequence[Benchmark], dense: bool = False) -> list[list[str]]:
    """Give rows of texts, as :data:`HEADINGS`: of each benchmark on each machine, and the means of all.

    `machines` are named by their multiplications a lane.
    """
    rows, ratios = [], []
    for size, machine in machines.items():
        for benchmark in benchmarks:
            shares = DENSE if dense else densities_of(benchmark.name).eta
            found = estimate(machine, benchmark, shares)
            ratios.append(found.v100_seconds / found.seconds)
            left = [f"{shares.inputs:.2f}", f"{shares.delta:.2f}", str(size)]
            bounds = [f"{found.bound[name]:.0%}" for name in BOUNDS]
            rows.append([benchmark.name, *left, f"{1e3 * found.seconds:.0f}", f"{ratios[-1]:.2f}", *bounds])
        mean = sum(ratios[-len(benchmarks) :]) / len(benchmarks)
        rows.append(["mean", "", "", str(size), "", f"{mean:.2f}", *[""] * len(BOUNDS)])
    return rows
