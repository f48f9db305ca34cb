"""How memory, traffic, throughput and energy change with the units, the layers and the steps of a network.

One of the three sizes is changed at a time, around one network. No network of these sizes was trained: the densities of
the machine's skipping are assumed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from etalstm.network.benchmarks import Benchmark
from etalstm.research.paper import gpu
from etalstm.research.paper.cases import BASELINE, CUDNN, DYNAMIC, ETA, Row, board_row, gpu_row, work_of
from etalstm.research.paper.requests import Measure, Request, whole
from etalstm.research.paper.values import GIGA, Value, together

CENTRE = Benchmark("centre", 1024, 2, 35, 128)
Sweeps = dict[str, Sequence[int]]
"""Values that each of ``hidden``, ``layers`` and ``steps`` takes, ascending."""

SWEEPS: Sweeps = {"hidden": (256, 512, 1024, 2048, 4096), "layers": (1, 2, 4, 8), "steps": (18, 35, 100, 303)}
QUICK: Sweeps = {"hidden": (256, 1024), "layers": (1, 2), "steps": (18, 35)}
ON_BOARD = (DYNAMIC, ETA)


@dataclass(frozen=True)
class Point:
    """An iteration of one network on one machine.

    Members
    -------
    swept : str
        Which size is changed: a key of :data:`SWEEPS`.
    benchmark : Benchmark
    row : Row
        Of the GPU with tuned software, or of one board.
    operations : float
        Useful: multiplications and additions of the network's products. Those that a machine leaves out, because a
        factor is zero, count too.
    """

    swept: str
    benchmark: Benchmark
    row: Row
    operations: float

    @property
    def size(self) -> int:
        """The value of the size that is changed."""
        return getattr(self.benchmark, self.swept)

    @property
    def throughput(self) -> Value:
        """Useful operations a second, in GFLOP/s."""
        time = self.row.milliseconds
        return Value(self.operations / GIGA / (time.value / 1e3), "GFLOP/s", time.how)

    @property
    def efficiency(self) -> Value:
        """Useful operations a second and watt, in GFLOP/s/W: those of a joule."""
        joules, work = self.row.joules, self.operations / GIGA
        how = together(self.row.milliseconds.how, joules.how)
        low, high = joules.band
        return Value(work / joules.value, "GFLOP/s/W", how, work / high, work / low)


def networks(sweeps: Sweeps) -> Iterator[tuple[str, Benchmark]]:
    """Give every network, with the size that is changed; the one in the middle comes in each sweep that has it."""
    for swept, sizes in sweeps.items():
        for size in sizes:
            of_size: dict[str, Any] = {swept: size}
            changed = replace(CENTRE, **of_size)
            yield swept, replace(changed, name=f"H {changed.hidden}, L {changed.layers}, T {changed.steps}")


def requests_of(sweeps: Sweeps) -> Iterator[Request]:
    """Give all that the cycle model is asked."""
    for _, benchmark in networks(sweeps):
        yield from (whole(benchmark, machine, 1) for machine in ON_BOARD)


def points(sweeps: Sweeps, roofline: gpu.Roofline, measure: Measure) -> list[Point]:
    """Model every network on the GPU, as Dyn-Arch and as η-LSTM with all means."""
    found = []
    for swept, benchmark in networks(sweeps):
        work = gpu.operations(work_of(benchmark, BASELINE))
        rows = [gpu_row(benchmark, BASELINE, CUDNN, roofline)]
        rows += [board_row(benchmark, machine, 1, measure) for machine in ON_BOARD]
        found += [Point(swept, benchmark, row, work) for row in rows]
    return found
