"""The learning rate over a run.

Every number here comes from float64 additions, multiplications and divisions, which all machines round alike: powers
and cosines of a system's library would not do.
"""

import math
from typing import cast

from etalstm.train.checkpoint import Watched
from etalstm.train.settings import COSINE, PLATEAU, Settings

COSINE_TERMS = 12  # of the series; the next one is below 1e-16 for angles up to π/2


def power(base: float, exponent: int) -> float:
    """Give ``base ** exponent`` for an exponent of at least 0, by squaring."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base, exponent = base * base, exponent >> 1
    return result


def cosine(angle: float) -> float:
    """Give the cosine of an angle from 0 to π by its series, to 1e-15."""
    if angle > math.pi / 2:
        return -cosine(math.pi - angle)
    term = total = 1.0
    for n in range(1, COSINE_TERMS):
        term *= -angle * angle / ((2 * n - 1) * (2 * n))
        total += term
    return total


def learning_rate(settings: Settings) -> float:
    """Give the learning rate of settings, which fill in the optimizer's where none is given."""
    return cast(float, settings.learning_rate)


def watch(watched: Watched, loss: float) -> Watched:
    """Note an epoch's loss."""
    if watched.best is None or loss < watched.best:
        return Watched(best=loss)
    return Watched(best=watched.best, epochs=watched.epochs + 1)


class Schedule:
    """Gives each iteration's learning rate.

    The settings' learning rate is multiplied by a factor of

    ``step``
        `decay` for each `step_epochs` epochs that are over.
    ``cosine``
        1 at the first iteration, falling along a half cosine to `floor` at the last one of the run.
    ``plateau``
        `decay` each time the validation loss has not fallen for more than `patience` epochs.

    In the first `warmup` iterations it is multiplied by 1/`warmup`, 2/`warmup`, and so on, besides.

    Parameters
    ----------
    iterations : int
        Of the whole run.

    Members
    -------
    plateau : Watched
    falls : int
        How often the rate was lowered on a plateau; both may be set, to what a checkpoint has.
    """

    def __init__(self, settings: Settings, iterations: int):
        self._settings, self._iterations = settings, iterations
        self.plateau, self.falls = Watched(), 0

    def rate(self, iteration: int, epoch: int) -> float:
        """Give the learning rate of an iteration in an epoch, both counted from 0."""
        settings = self._settings
        warm = min(1.0, (iteration + 1) / settings.warmup) if settings.warmup else 1.0
        return learning_rate(settings) * self._factor(iteration, epoch) * warm

    def _factor(self, iteration: int, epoch: int) -> float:
        settings = self._settings
        if settings.schedule == PLATEAU:
            return power(settings.decay, self.falls)
        if settings.schedule == COSINE:
            done = min(iteration / max(self._iterations - 1, 1), 1.0)
            return settings.floor + (1 - settings.floor) * (1 + cosine(math.pi * done)) / 2
        return power(settings.decay, epoch // settings.step_epochs)

    def end_epoch(self, loss: float) -> None:
        """Note an epoch's validation loss."""
        if self._settings.schedule != PLATEAU:
            return
        self.plateau = watch(self.plateau, loss)
        if self.plateau.epochs > self._settings.patience:
            self.plateau, self.falls = Watched(best=self.plateau.best), self.falls + 1
