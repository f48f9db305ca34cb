"""Named networks that the machine is measured with: ours, and those whose times on a V100 are published."""

from dataclasses import dataclass

from etalstm.network.shape import NetworkShape

V100_OPERATIONS = 15.7e12  # float32 operations a second at most: NVIDIA's data sheet of the V100 SXM2


@dataclass(frozen=True)
class Benchmark:
    """A network of `hidden` units, and as many inputs, in each layer, and the data of an iteration.

    `v100_milliseconds`, if published, is the time of forward pass, backward pass and weights' gradient of the recurrent
    products, in float32.
    """

    name: str
    hidden: int
    layers: int
    steps: int
    batch: int
    v100_milliseconds: float | None = None

    @property
    def published_milliseconds(self) -> float:
        """The published time; ``ValueError`` if there is none."""
        if self.v100_milliseconds is None:
            raise ValueError(f"no time of {self.name} is published")
        return self.v100_milliseconds

    @property
    def v100_utilization(self) -> float | None:
        """Operations of the recurrent products over those that a V100 does in the published time at its peak."""
        if self.v100_milliseconds is None:
            return None
        operations = 2 * 3 * (4 * self.hidden) * self.hidden * self.batch * self.steps
        return operations / (self.v100_milliseconds * 1e-3 * V100_OPERATIONS)

    @property
    def network(self) -> NetworkShape:
        """The network; as many inputs as units."""
        return NetworkShape(self.hidden, self.hidden, self.layers)


def _deepbench(hidden: int, batch: int, steps: int, milliseconds: float) -> Benchmark:
    return Benchmark(f"deepbench-{hidden}-{batch}", hidden, 1, steps, batch, milliseconds)


# The first six are our choice of shapes for the data sets of "η-LSTM" (ISCA 2021). The others are the LSTMs of Baidu's
# DeepBench, with its published results on a V100 (cuDNN 7.6).
_ALL = (
    Benchmark("trec10", 3072, 2, 18, 128),
    Benchmark("ptb", 1536, 2, 35, 128),
    Benchmark("imdb", 2048, 3, 100, 128),
    Benchmark("waymo", 1024, 3, 128, 128),
    Benchmark("wmt", 1024, 4, 151, 128),
    Benchmark("babi", 1024, 5, 303, 128),
    _deepbench(512, 64, 25, 3.03),
    _deepbench(1024, 64, 25, 5.41),
    _deepbench(1024, 128, 25, 8.37),
    _deepbench(1536, 32, 50, 12.81),
    _deepbench(2048, 128, 25, 25.59),
    _deepbench(4096, 128, 25, 89.63),
)

BENCHMARKS = {benchmark.name: benchmark for benchmark in _ALL}
EVERY = "all"
STORAGE = "ms1-bf16"  # a benchmark's default


def named(names: str) -> list[Benchmark]:
    """Look up benchmarks by their names, with commas between, or ``all``; ``ValueError`` lists the known names."""
    if names == EVERY:
        return list(_ALL)
    for name in names.split(","):
        if name not in BENCHMARKS:
            raise ValueError(f"unknown benchmark {name!r}, expected one of: {', '.join([*BENCHMARKS, EVERY])}")
    return [BENCHMARKS[name] for name in names.split(",")]
