"""Layers spread over several machines: the layers and the part of the batch of each, and the order of its passes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from etalstm.network.slices import part_counts

FORWARD, BACKWARD = "forward", "backward"
PER_STAGE = 4
"""Micro-batches for each stage, if the slices allow it: stages then wait for a fifth of the time at most."""


@dataclass(frozen=True)
class Grid:
    """Parallel pipelines. Each has all layers, a rank for each stage, and its own sequences of the batch.

    These are divided into micro-batches, which go through the stages one after the other. All micro-batches have the
    same number of slices, a node of the tree of slices. `stages` has the layers of each stage, in order;
    `micro_batches` counts those of each pipeline.
    """

    stages: tuple[range, ...]
    pipelines: int
    micro_batches: int

    @property
    def depth(self) -> int:
        """Stages of a pipeline."""
        return len(self.stages)

    @property
    def ranks(self) -> int:
        """Ranks of all pipelines."""
        return self.pipelines * self.depth

    @property
    def parts(self) -> int:
        """Micro-batches of all pipelines: those of the first pipeline come first."""
        return self.pipelines * self.micro_batches

    def role(self, rank: int) -> "Role":
        """Give the role of a rank."""
        return Role(self, rank)


@dataclass(frozen=True)
class Role:
    """A rank's pipeline, stage, layers and micro-batches, and the order of its passes."""

    grid: Grid
    rank: int

    @property
    def pipeline(self) -> int:
        """Number of the pipeline, from 0."""
        return self.rank // self.grid.depth

    @property
    def stage(self) -> int:
        """Number of the stage, from 0."""
        return self.rank % self.grid.depth

    @property
    def layers(self) -> range:
        """Layers of the stage."""
        return self.grid.stages[self.stage]

    @property
    def parts(self) -> range:
        """Numbers of the pipeline's micro-batches."""
        count = self.grid.micro_batches
        return range(self.pipeline * count, (self.pipeline + 1) * count)

    @property
    def first(self) -> bool:
        """Whether the stage has the first layer."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether the stage has the top layer."""
        return self.stage == self.grid.depth - 1

    @property
    def below(self) -> int:
        """Rank of the stage before."""
        return self.rank - 1

    @property
    def above(self) -> int:
        """Rank of the next stage."""
        return self.rank + 1

    @property
    def most_kept(self) -> int:
        """Micro-batches whose intermediates the stage stores at once, at most."""
        return min(self.grid.depth - self.stage, self.grid.micro_batches)

    def order(self) -> Iterator[tuple[str, int]]:
        """Give the passes of a training iteration in their order: FORWARD or BACKWARD, and the micro-batch.

        One forward, one backward: a stage runs the oldest backward pass as soon as it may. So the stages store few
        micro-batches, and all passes use the weights of the iteration's beginning. Source: PipeDream-Flush of Narayanan
        et al., arXiv 2006.09503.
        """
        ahead = self.most_kept - 1
        for number in range(self.grid.micro_batches + ahead):
            if number < self.grid.micro_batches:
                yield FORWARD, number
            if number >= ahead:
                yield BACKWARD, number - ahead


def spread(costs: Sequence[float], stages: int) -> tuple[range, ...]:
    """Divide layers into stages of consecutive layers, so that the cost of the most expensive stage is least.

    `costs` has one for each layer; `stages` is at most the number of layers.
    """

    @cache
    def cheapest(first: int, count: int) -> tuple[float, tuple[range, ...]]:
        """Divide the layers from `first` on."""
        if count == 1:
            return sum(costs[first:]), (range(first, len(costs)),)
        found = []
        for end in range(first + 1, len(costs) - count + 2):
            worst, rest = cheapest(end, count - 1)
            found.append((max(sum(costs[first:end]), worst), (range(first, end), *rest)))
        return min(found, key=lambda division: division[0])

    return cheapest(0, stages)[1]


def grid_of(ranks: int, depth: int, slices: int, costs: Sequence[float]) -> Grid:
    """Arrange ranks, a multiple of `depth`, as pipelines of `depth` stages; `costs` has one for each layer.

    Raises ``ValueError`` if there are more stages than layers, or the slices cannot be divided among the pipelines.
    """
    if depth > len(costs):
        raise ValueError(
            f"a pipeline has a layer for each stage at least: pipeline must be at most {len(costs)}, got {depth}"
        )
    pipelines = ranks // depth
    if pipelines not in part_counts(slices):
        counts = ", ".join(map(str, part_counts(slices)))
        raise ValueError(
            f"{slices} slices can be divided among {counts} pipelines, so that each has a whole subtree; "
            f"{ranks} ranks are {pipelines} pipelines of {depth} stages"
        )
    return Grid(spread(costs, depth), pipelines, micro_batches_of(slices // pipelines, depth))


def micro_batches_of(slices: int, depth: int) -> int:
    """Count a pipeline's micro-batches: the fewest with ``PER_STAGE`` for each stage, or one for each slice."""
    counts = part_counts(slices)
    return next((count for count in counts if count >= PER_STAGE * depth), counts[-1])


def best_micro_batches(depth: int, most: int) -> int:
    """Count the micro-batches that leave little waiting: a power of two, so that slices can be divided into as many.

    `depth` counts the stages of the pipeline, `most` its sequences, above 0.
    """
    return min(1 << (PER_STAGE * depth - 1).bit_length(), 1 << (most.bit_length() - 1))
