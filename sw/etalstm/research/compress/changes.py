"""The changes that rounds begin with, and how far they go.

The ratio of pruning is halved where accuracy is lost, and sizes stop at hysteresis points.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from etalstm.research.compress import steps
from etalstm.research.compress.checkpoint import CompressPosition
from etalstm.research.compress.learner import Learner
from etalstm.research.compress.network import INPUTS, MaskedNetwork, Sizes
from etalstm.research.compress.structure import Dimension
from etalstm.research.compress_settings import ALL, DENSE, GROW_UNITS, GROW_WEIGHTS, PRUNE_UNITS, CompressSettings
from etalstm.research.profile import Profile


@dataclass(frozen=True)
class Guides:
    """Which sizes of the units of a layer, and of the first layer's inputs, pay; without a profile every size does."""

    units: Profile | None = None
    inputs: Profile | None = None

    def of(self, dimensions: Sequence[Dimension]) -> list[Profile | None]:
        """Give the guide of each dimension of a network."""
        return [self.inputs if dimension.name == INPUTS else self.units for dimension in dimensions]

    @property
    def digest(self) -> str:
        """A digest of both profiles. A run that goes on must have the same one."""
        texts = ["" if profile is None else profile.model_dump_json() for profile in (self.units, self.inputs)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@dataclass(frozen=True)
class Attempt:
    """An attempt at pruning: elements of each dimension afterwards, and the share that is removed."""

    counts: tuple[int, ...]
    ratio: float


def next_attempt(
    counts: Sequence[int], ratio: float, failed: Sequence[int] | None, guides: Sequence[Profile | None]
) -> Attempt | None:
    """Choose the next attempt; None if there is nothing left to try.

    `counts` are the elements of each dimension now. `ratio` is the share to remove; at least one element goes. `failed`
    has the counts of the last attempt, if accuracy was lost with them. The ratio is halved until the counts differ from
    those; if some dimensions have guides, until theirs differ. A dimension with a guide stops at the profile's points
    only.
    """
    compared = [number for number, guide in enumerate(guides) if guide is not None] or range(len(counts))
    while True:
        wanted = tuple(_pruned_count(count, ratio, guide) for count, guide in zip(counts, guides, strict=True))
        if wanted == tuple(counts):
            return None
        if failed is None or any(wanted[number] != failed[number] for number in compared):
            return Attempt(wanted, ratio)
        if ratio * max(counts) < 1:
            return None
        ratio /= 2


def _pruned_count(count: int, ratio: float, guide: Profile | None) -> int:
    wanted = count - max(1, int(ratio * count))
    if guide is not None:
        wanted = guide.point_at_most(wanted) or 0
    return wanted if wanted >= 1 else count


def grown_counts(counts: Sequence[int], sizes: Sequence[int], guides: Sequence[Profile | None]) -> tuple[int, ...]:
    """Give the next hysteresis point for each dimension, or its count if that is one.

    A dimension without a guide does not grow, nor does one whose next point is above `sizes`, the most elements of
    each.
    """
    found = []
    for count, size, guide in zip(counts, sizes, guides, strict=True):
        point = None if guide is None else guide.point_at_least(count)
        found.append(count if point is None or point > size else point)
    return tuple(found)


LEAST_RATIO = 0.02  # of weight pruning: below it a round costs more than it saves

Cycles = Callable[[Sizes], int | None]
"""Gives the cycles of an iteration of a model's LSTMs, by the model's sizes; None if the machine cannot hold it."""


@dataclass(frozen=True)
class Target:
    """Guides of a run, and the cycles that measure it; `digest` is that of the configuration whose cycles count."""

    guides: Guides
    cycles: Cycles
    digest: int


class Changes:
    """Makes changes of the learner's network.

    Batches are those of an epoch of training; the first ones give the gradients that say what grows.
    """

    def __init__(self, settings: CompressSettings, learner: Learner, target: Target, batches: Sequence[Any]):
        self._settings, self._learner, self._guides = settings, learner, target.guides
        self._cycles = target.cycles
        self._batches = batches[: settings.gradient_batches]

    @property
    def _model(self) -> MaskedNetwork:
        return self._learner.model

    def make(self, phase: str, position: CompressPosition) -> dict | str:
        """Make the change of a round; give what changes in the position or, if there is nothing to do, why."""
        if phase in (DENSE, GROW_WEIGHTS):
            return self._draw_weights(phase) if position.round == 0 else "trained"
        if phase == GROW_UNITS:
            return self._grow_units() if position.round == 0 else "grown"
        if position.round >= self._settings.rounds:
            return f"{position.round} rounds were made"
        return self._prune_units(position) if phase == PRUNE_UNITS else self._prune_weights(position)

    def _draw_weights(self, phase: str) -> dict:
        """Draw new weights; for growing them keep a share."""
        ours, settings = self._model, self._settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            ours.draw()
        if phase == GROW_WEIGHTS:
            generator = torch.Generator().manual_seed(settings.seed)
            steps.sparse_seed([mask for mask, _ in ours.matrices()], settings.density, generator)
        return {}

    def grow_weights(self) -> int:
        """Wake masked weights of the LSTMs by their gradients; give the number of woken weights."""
        self._learner.gradients(self._batches, ())
        return steps.grow_weights(self._model.matrices(), self._settings.growth)

    def _prune_units(self, position: CompressPosition) -> dict | str:
        dimensions = self._model.dimensions
        counts = [dimension.count for dimension in dimensions]
        guides = self._guides.of(dimensions) if self._settings.guided == ALL else [None] * len(counts)
        attempt = next_attempt(counts, position.ratio or self._settings.unit_ratio, position.failed, guides)
        if attempt is None:
            return "nothing smaller keeps the accuracy"
        for dimension, count in zip(dimensions, attempt.counts, strict=True):
            steps.prune(dimension, count)
        return {"ratio": attempt.ratio, "failed": None}

    def _grow_units(self) -> dict | str:
        dimensions = self._model.dimensions
        wanted = self._counts_after_growth(dimensions)
        if wanted == [dimension.count for dimension in dimensions]:
            return "no layer has a larger size to grow to"
        if self._cycles(self._model.sizes_of(wanted)) is None:
            return f"the larger network does not fit preset {self._settings.preset}"
        self._learner.gradients(self._batches, dimensions)
        for dimension, count in zip(dimensions, wanted, strict=True):
            steps.grow(dimension, count, self._settings.retrain_rate)
        return {}

    def _counts_after_growth(self, dimensions: Sequence[Dimension]) -> list[int]:
        """Give the elements of each dimension after growth."""
        counts = [dimension.count for dimension in dimensions]
        if self._settings.grow_to is None:
            sizes = [len(dimension.kept) for dimension in dimensions]
            return list(grown_counts(counts, sizes, self._guides.of(dimensions)))
        pairs = zip(counts, dimensions, strict=True)
        return [count if each.name == INPUTS else max(count, self._settings.grow_to) for count, each in pairs]

    def _prune_weights(self, position: CompressPosition) -> dict | str:
        ratio = position.ratio or self._settings.weight_ratio
        if ratio < LEAST_RATIO:
            return "nothing smaller keeps the accuracy"
        if not steps.prune_weights(self._model.matrices(), ratio):
            return "every weight that is left is needed"
        for dimension in self._model.dimensions:
            if dimension.name != INPUTS and self._guides.units is None:  # a guided size stays at its point
                steps.drop_empty(dimension)
        return {"ratio": ratio}
