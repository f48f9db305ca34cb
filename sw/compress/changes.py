"""The changes that rounds begin with."""

from collections.abc import Sequence

import torch

from etalstm.compress import steps
from etalstm.compress.checkpoint import Position
from etalstm.compress.language import MaskedLanguageModel
from etalstm.compress.learner import Learner
from etalstm.compress.search import Guides, grown_counts, next_attempt
from etalstm.compress.settings import ALL, DENSE, GROW_UNITS, GROW_WEIGHTS, PRUNE_UNITS, Settings
from etalstm.data.dataset import Batch

LEAST_RATIO = 0.02  # of weight pruning: below it a round costs more than it saves


class Changes:
    """Makes changes of a network.

    Parameters
    ----------
    settings : Settings
    learner : Learner
        With the network.
    guides : Guides
    batches : sequence of Batch
        Of the training text; the first ones give the gradients that say what grows.
    """

    def __init__(self, settings: Settings, learner: Learner, guides: Guides, batches: Sequence[Batch]):
        self._settings, self._learner, self._guides = settings, learner, guides
        self._batches = batches[: settings.gradient_batches]

    @property
    def _model(self) -> MaskedLanguageModel:
        return self._learner.model

    def make(self, phase: str, position: Position) -> dict | str:
        """Make the change of a round.

        Parameters
        ----------
        phase : str
        position : Position

        Returns
        -------
        dict or str
            What changes in the position; or, if there is nothing to do, why.
        """
        if phase in (DENSE, GROW_WEIGHTS):
            return self._fresh(phase) if position.round == 0 else "trained"
        if phase == GROW_UNITS:
            return self._grow_units() if position.round == 0 else "grown"
        if position.round == self._settings.rounds:
            return f"{position.round} rounds were made"
        return self._prune_units(position) if phase == PRUNE_UNITS else self._prune_weights(position)

    def _fresh(self, phase: str) -> dict:
        """Draw new weights; for growing them keep a share."""
        ours, settings = self._model, self._settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            full = [len(dimension.kept) for dimension in ours.dimensions]
            sizes = type(ours.sizes)(ours.sizes.words, full[0], tuple(full[1:]))
            ours.load_state_dict(MaskedLanguageModel(sizes, settings.dropout).state_dict())
        if phase == GROW_WEIGHTS:
            generator = torch.Generator().manual_seed(settings.seed)
            steps.sparse_seed([mask for mask, _ in ours.matrices()], settings.density, generator)
        return {}

    def grow_weights(self) -> int:
        """Wake masked weights of the LSTMs by their gradients; give their number."""
        self._learner.gradients(self._batches, ())
        return steps.grow_weights(self._model.matrices(), self._settings.growth)

    def _prune_units(self, position: Position) -> dict | str:
        dimensions = self._model.dimensions
        counts = [dimension.count for dimension in dimensions]
        guides = self._guides.of(len(counts) - 1) if self._settings.guided == ALL else [None] * len(counts)
        attempt = next_attempt(counts, position.ratio or self._settings.unit_ratio, position.failed, guides)
        if attempt is None:
            return "nothing smaller keeps the accuracy"
        for dimension, count in zip(dimensions, attempt.counts, strict=True):
            steps.prune(dimension, count)
        return {"ratio": attempt.ratio, "failed": None}

    def _grow_units(self) -> dict | str:
        dimensions = self._model.dimensions
        counts = [dimension.count for dimension in dimensions]
        wanted = self._wanted(counts, [len(dimension.kept) for dimension in dimensions])
        if list(wanted) == counts:
            return "every size is a hysteresis point, or has none above it"
        self._learner.gradients(self._batches, dimensions)
        for dimension, count in zip(dimensions, wanted, strict=True):
            steps.grow(dimension, count, self._settings.retrain_rate)
        return {}

    def _wanted(self, counts: list[int], sizes: list[int]) -> tuple[int, ...]:
        if self._settings.grow_to is None:
            return grown_counts(counts, sizes, self._guides.of(len(counts) - 1))
        return counts[0], *(max(count, self._settings.grow_to) for count in counts[1:])

    def _prune_weights(self, position: Position) -> dict | str:
        ratio = position.ratio or self._settings.weight_ratio
        if ratio < LEAST_RATIO:
            return "nothing smaller keeps the accuracy"
        if not steps.prune_weights(self._model.matrices(), ratio):
            return "every weight that is left is needed"
        units = self._model.dimensions[1:] if self._guides.units is None else ()  # a guided size stays at its point
        for dimension in units:
            steps.drop_empty(dimension)
        return {"ratio": ratio}
