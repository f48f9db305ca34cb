"""Which cells matter (MS2): predicts what each cell will add to the weight gradient, and leaves out the least.

A cell is one layer's step. What a sequence adds to dW there, the norm ‖δ‖·‖xh‖, depends mostly on how far the step is
from the sequence's end: with a loss at the last step it falls off going back, with a loss at every step it grows. So
the prediction is a profile over (layer, distance from the end), measured in full iterations, and sequences of any
lengths share it.

The recurrent idea is the paper's; thresholds, profile, compensation and guard are ours to define, and are defined here.
"""

import numpy as np

EPOCHS_FULL = 3  # an extrapolation needs three losses
MEASURE_EVERY = 40  # iterations from one full, measured iteration to the next
NEW_SHARE = 0.5  # of a new measurement in the profile
LEAST_RATIO = 0.5  # of predicted to last loss: a wild extrapolation must not call nearly every cell insignificant
MOST_COMPENSATION = 2.0
BAND = 0.2  # validation loss may be above the full run's trend by this share
COMMON = 0.5  # share of sequences that must be as long for a distance to be part of the reference
UNKNOWN = np.float32(-1)


def extrapolate(losses) -> float:
    """Predict the next loss from the last three.

    ``L_n = L_(n-1) - (L_(n-2) - L_(n-1))² / (L_(n-3) - L_(n-2))``: the falls shrink by one ratio. Where they do not
    fall, or there are fewer than three, it is the last one; it is never below 0.
    """
    last = losses[-1]
    if len(losses) < 3:
        return last
    first, second = losses[-3] - losses[-2], losses[-2] - losses[-1]
    if first <= 0 or second <= 0:
        return last
    return max(last - second**2 / first, 0.0)


class Significance:
    """Decides before every iteration which cells are skipped.

    Full iterations skip nothing: all of the first ``EPOCHS_FULL`` epochs, later one in ``MEASURE_EVERY``, and the whole
    epoch after one whose validation loss left the band. Otherwise a cell is skipped if for each sequence that has a
    step there, ``predicted < τ · largest measured of its layer``; the prediction is the profile times extrapolated over
    last epoch's loss, and the largest is sought only where at least half of the sequences have a step: what a few long
    ones add would be noise. The largest itself is never below. Cells that only padding reaches are skipped, and so are
    those to which skipping leaves no gradient: no dy of their own, nothing from the step after, nothing from the layer
    above.

    The guard: after a full epoch its validation loss is the trend. An epoch with skipping whose validation loss is
    above ``1 + BAND`` times the trend halves τ and makes the next epoch full; if that one is no better, it was not the
    skipping, and τ is what it was.

    Parameters
    ----------
    layers, steps : int
    tau : float
        τ, at least 0 and below 1.
    per_step : bool
        A loss at every step, or at each sequence's last.

    Members
    -------
    tau : float
        As the guard has it now.
    arrays : dict of arrays, float32
        All state, for a checkpoint; may be set. One that began with another τ brings everything but that.
    """

    def __init__(self, layers: int, steps: int, tau: float, per_step: bool):
        self.tau = self._given = float(np.float32(tau))
        self._per_step = per_step
        self._profile = np.full((layers, steps), UNKNOWN)
        self._reach = np.zeros(steps, np.float32)  # share of sequences that have a step so far from their end
        self._losses = [np.float32(np.nan)] * 3
        self._trend, self._sum = np.float32(np.nan), np.float32(0)
        self._epochs = self._iterations = self._skipping = 0
        self._suspended = np.float32(np.nan)  # τ before the guard halved it, while a full epoch tells why

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All state, float32."""
        state = [self._given, self.tau, *self._losses, self._trend, self._sum, self._suspended]
        state += [self._epochs, self._iterations, self._skipping]
        return {"profile": self._profile, "reach": self._reach, "state": np.array(state, np.float32)}

    @arrays.setter
    def arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self._profile, self._reach = arrays["profile"].copy(), arrays["reach"].copy()
        given, tau, *losses, self._trend, self._sum, suspended = arrays["state"][:-3]
        if given == self._given:
            self.tau, self._suspended = float(tau), suspended
        self._losses = losses
        self._epochs, self._iterations, self._skipping = (int(count) for count in arrays["state"][-3:])

    def plan(self, iteration: int, lengths: np.ndarray) -> tuple[np.ndarray | None, float]:
        """Choose the cells that iteration number `iteration` skips.

        Parameters
        ----------
        iteration : int
        lengths : array, integers, (B,)

        Returns
        -------
        skipped : array, bool, (L, T), or None in a full iteration, which should be measured if :meth:`measures`
        compensation : float
            Predicted gradient of all cells over that of those kept; what the kept one is multiplied by.
        """
        if self._epochs < EPOCHS_FULL or not np.isnan(self._suspended) or self.measures(iteration):
            return None, 1.0
        self._skipping = 1
        predicted = self._predict(lengths)
        largest = np.where(self._reach >= COMMON, self._profile, 0).max(axis=1)[:, None]
        known = [loss for loss in self._losses if not np.isnan(loss)]
        ratio = max(extrapolate(known) / max(known[-1], 1e-30), LEAST_RATIO)
        bar = min(self.tau, ratio) * largest[:, :, None]  # never above the largest of this layer's predictions
        significant = (predicted * ratio >= bar) | (predicted == UNKNOWN)
        ours = np.arange(predicted.shape[1])[:, None] < lengths[None, :]
        kept = self._reached((significant & ours).any(axis=2), lengths)
        magnitudes = np.where(ours, np.maximum(predicted, 0), 0).sum(axis=2)
        compensation = magnitudes.sum() / max(magnitudes[kept].sum(), 1e-30)
        return ~kept, float(np.float32(min(compensation, MOST_COMPENSATION)))

    @staticmethod
    def measures(iteration: int) -> bool:
        """Tell whether iteration number `iteration` is a full one that measures."""
        return iteration % MEASURE_EVERY == 0

    def measure(self, contributions: np.ndarray, lengths: np.ndarray) -> None:
        """Take what a full iteration's cells added, (L, T, B), into the profile."""
        share = np.float32(NEW_SHARE) if self._reach[0] else np.float32(1)
        for distance in range(self._profile.shape[1]):
            reach = np.float32(np.mean(lengths > distance))
            self._reach[distance] = share * reach + (1 - share) * self._reach[distance]
            step = lengths - 1 - distance
            ours = np.flatnonzero(step >= 0)
            if not ours.size:
                continue
            new = contributions[:, step[ours], ours].mean(axis=1).astype(np.float32)
            old = self._profile[:, distance]
            mixed = np.float32(NEW_SHARE) * new + np.float32(1 - NEW_SHARE) * old
            self._profile[:, distance] = np.where(old == UNKNOWN, new, mixed)

    def end_iteration(self, loss: float) -> None:
        """Take an iteration's training loss into the epoch's."""
        self._sum, self._iterations = np.float32(self._sum + np.float32(loss)), self._iterations + 1

    def end_epoch(self, validation_loss: float) -> None:
        """Note an epoch's losses, and skip less if the validation loss has left the band."""
        validation_loss = np.float32(validation_loss)
        self._losses = [*self._losses[1:], np.float32(self._sum / max(self._iterations, 1))]
        above = validation_loss > self._trend * np.float32(1 + BAND)  # false while there is no trend
        if not self._skipping:
            if above and not np.isnan(self._suspended):
                self.tau = float(self._suspended)
            self._trend, self._suspended = validation_loss, np.float32(np.nan)
        elif above:
            self._suspended, self.tau = np.float32(self.tau), self.tau / 2
        else:
            self._trend = min(self._trend, validation_loss)
        self._epochs, self._sum, self._iterations, self._skipping = self._epochs + 1, np.float32(0), 0, 0

    def _predict(self, lengths: np.ndarray) -> np.ndarray:
        """Give the profile's value for every cell and sequence, (L, T, B); its first one where there is padding."""
        distance = lengths[None, :] - 1 - np.arange(self._profile.shape[1])[:, None]
        return self._profile[:, np.maximum(distance, 0)]

    def _reached(self, kept: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Drop the cells to which no gradient comes."""
        layers, steps = kept.shape
        for layer in reversed(range(layers)):
            above = kept[layer + 1] if layer + 1 < layers else self._own(steps, lengths)
            for t in reversed(range(steps)):
                kept[layer, t] &= above[t] or (t + 1 < steps and kept[layer, t + 1])
        return kept

    def _own(self, steps: int, lengths: np.ndarray) -> np.ndarray:
        """Tell which steps of the top layer have a dy."""
        return np.full(steps, True) if self._per_step else np.isin(np.arange(steps) + 1, lengths)
