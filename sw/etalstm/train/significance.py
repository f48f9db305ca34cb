"""Which cells matter (MS2): predicts what each cell will add to the weight gradient, and skips those that add least.

A cell is one layer's step. What a sequence adds to dW there, the norm ‖δ‖·‖xh‖, depends mostly on how far the step is
from the sequence's end: with a loss at the last step it falls off going back, with a loss at every step it grows. So
the prediction is a profile over (layer, distance from the end), measured in full iterations, and sequences of any
lengths share it. A gradient scales with the loss. So the profile is what a cell adds for a loss of 1, and measurements
of different epochs can be averaged.

A skipped cell passes no gradient on. So every cell between a kept cell and the loss is kept too, however little it adds
itself: the distances that a layer keeps have no gap.

The recurrent idea is the paper's; thresholds, profile, compensation and guard are ours to define, and are defined here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

EPOCHS_FULL = 3  # an extrapolation needs three losses
MEASURE_EVERY = 100  # iterations from one full, measured iteration to the next, while others skip
MEASURE_FULL = 10  # the same while all are full: once most sequences are learnt, a few decide a measurement
NEW_SHARE = 0.2  # of a new measurement in the profile
MOST_COMPENSATION = 2.0
BAND = 0.2  # the validation loss may rise by so much of what has been learnt: untrained loss less trend
FALL = 0.5  # an epoch whose training loss made so much of the extrapolated fall, and validates worse, has overfitted
COMMON = 0.5  # share of sequences that must have a distance for it to be a candidate for the largest
LEAST_LOSS = 1e-6  # smallest divisor
UNKNOWN = np.float32(-1)


def extrapolate(losses: Sequence[np.float32]) -> np.float32:
    """Predict the next loss from the last three.

    ``L_n = L_(n-1) - (L_(n-2) - L_(n-1))² / (L_(n-3) - L_(n-2))``: each fall is the same ratio of the one before. If
    the losses do not fall, or there are fewer than three, the prediction is the last loss; it is never below 0.
    """
    last = losses[-1]
    if len(losses) < 3:
        return last
    first, second = losses[-3] - losses[-2], losses[-2] - losses[-1]
    if first <= 0 or second <= 0:
        return last
    return max(last - second**2 / first, np.float32(0))


COMPENSATION, LOSS, GUARD = PARTS = ("compensation", "loss", "guard")


@dataclass(frozen=True)
class Skipping:
    """How the skipped cells are chosen, and how the gradient makes up for them."""

    tau: float = 0.0  # τ, at least 0 and below 1
    # Plain truncation instead of τ: every layer keeps the last so many steps of each sequence. A guard could change
    # nothing.
    last_steps: int | None = None
    full_epochs: int = EPOCHS_FULL  # epochs at the beginning in which no cell is skipped
    # Parts that are left out. ``compensation``: the gradient of the cells that are kept is not scaled up. ``loss``:
    # measurements are averaged as they are, not divided by the loss of their iteration. ``guard``: nothing watches the
    # validation loss.
    without: Collection[str] = ()

    @property
    def compensates(self) -> bool:
        """Whether the gradient of the cells that are kept is scaled up."""
        return COMPENSATION not in self.without

    @property
    def truncates(self) -> bool:
        """Whether the last steps of each sequence are kept, without any measurement."""
        return self.last_steps is not None

    @property
    def guards(self) -> bool:
        """Whether the guard watches the validation loss."""
        return GUARD not in self.without and not self.truncates


def read_parts(text: str) -> tuple[str, ...]:
    """Read the names of parts of MS2, with commas between; none in an empty text.

    Raises ``ValueError`` if there is no such part.
    """
    names = tuple(text.split(",")) if text else ()
    for name in names:
        if name not in PARTS:
            raise ValueError(f"ms2_without must be of {', '.join(PARTS)}, with commas between, got {name!r}")
    return names


class Significance:
    """Decides before every iteration which cells are skipped.

    Full iterations skip nothing: all of the first epochs, later one in ``MEASURE_EVERY``, and the whole epoch after one
    that the guard stopped. In a full epoch one iteration in ``MEASURE_FULL`` is measured. Otherwise a layer keeps the
    distances around the one that adds most, up to the first on either side that adds less than τ times as much. With a
    loss at the last step it also keeps all between the largest and the end. A cell is skipped if no sequence has a kept
    distance there; so are cells of padding only. The largest is sought among distances that at least half of the
    sequences have: what a few long ones add would be noise. The loss, and its extrapolation, scale all cells alike and
    do not change the choice. Cells that no gradient reaches any more are skipped too: they have no dy of their own,
    and nothing comes from the step after or the layer above.

    The guard: after a full epoch the trend is its validation loss. What has been learnt is the untrained loss less the
    trend. An epoch with skipping is bad if its validation loss is above the trend by more than the share ``BAND`` of
    what has been learnt, and its training loss has fallen by less than ``FALL`` of what the last three let expect. Then
    τ is halved, and the next epoch is full. If the full epoch is no better, skipping was not the cause, and τ gets its
    old value back. If the training loss falls as expected, the network overfits, which no full epoch would mend.

    `per_step`: a loss at every step, or at each sequence's last. `untrained`: loss of a network that has learnt
    nothing, see :func:`etalstm.train.loss.untrained_loss`. `tau`: as the guard has set it.
    """

    def __init__(self, layers: int, steps: int, skipping: Skipping, per_step: bool, untrained: float):
        self.tau = self._given = float(np.float32(skipping.tau))
        self._rule, self._per_step, self._untrained = skipping, per_step, np.float32(untrained)
        self._profile = np.full((layers, steps), UNKNOWN)
        self._reach = np.zeros(steps, np.float32)  # share of sequences that have a step so far from their end
        self._losses = [np.float32(np.nan)] * 3
        self._trend, self._sum = np.float32(np.nan), np.float32(0)
        self._epochs = self._iterations = self._skipping = 0
        self._suspended = np.float32(np.nan)  # τ before the guard halved it, while a full epoch tells why

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All state, float32, for a checkpoint; may be set. The state of a run with another τ sets all but τ."""
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

    def plan(self, iteration: int, lengths: np.ndarray, steps: int) -> tuple[np.ndarray | None, float]:
        """Choose the cells that iteration number `iteration` skips, of a batch of `lengths`, integers (B,).

        The `steps` T of the batch are at most those of the profile. Gives the skipped cells, bool, (L, T), or None in a
        full iteration, which should be measured if :meth:`measures`; and the compensation, by which the gradient of the
        kept cells is multiplied. The compensation is the predicted norm of the gradient of all cells over that of the
        kept ones, or 1 without. Contributions of different cells are taken to be orthogonal, so their squares add.
        """
        if self._full or self.measures(iteration):
            return None, 1.0
        self._skipping = 1
        distance = lengths[None, :] - 1 - np.arange(steps)[:, None]
        ours, distance = distance >= 0, np.maximum(distance, 0)
        kept = self._reached(np.any(self._kept_distances()[:, distance] & ours, axis=2), lengths)
        if not self._rule.compensates:
            return ~kept, 1.0
        predicted = np.where(ours, np.maximum(self._profile, 0)[:, distance], 0)
        squares = np.square(predicted, dtype=np.float64).sum(axis=2)
        compensation = np.sqrt(squares.sum() / max(squares[kept].sum(), LEAST_LOSS**2))
        return ~kept, float(np.float32(np.clip(compensation, 1.0, MOST_COMPENSATION)))

    @property
    def _full(self) -> bool:
        """Whether this epoch skips nothing."""
        return self._epochs < self._rule.full_epochs or not np.isnan(self._suspended)

    def measures(self, iteration: int) -> bool:
        """Tell whether iteration number `iteration` is a full one that measures; none is if no rule needs it."""
        if self._rule.truncates and not self._rule.compensates:
            return False
        return iteration % (MEASURE_FULL if self._full else MEASURE_EVERY) == 0

    def measure(self, contributions: np.ndarray, lengths: np.ndarray, loss: float) -> None:
        """Average what a full iteration's cells added at its loss, (L, T, B), into the profile."""
        if LOSS not in self._rule.without:
            contributions = contributions / max(loss, LEAST_LOSS)
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
        """Add an iteration's training loss to the epoch's sum."""
        self._sum, self._iterations = np.float32(self._sum + np.float32(loss)), self._iterations + 1

    def end_epoch(self, validation_loss: float) -> None:
        """Note an epoch's losses, and skip less if the validation loss has left the band."""
        loss, validated = self._sum / np.float32(max(self._iterations, 1)), np.float32(validation_loss)
        learnt = max(self._untrained - self._trend, np.float32(0))
        above = validated > self._trend + np.float32(BAND) * learnt  # false while there is no trend
        falls = self._falls_to(loss)
        self._losses = [*self._losses[1:], loss]
        if not self._skipping:
            if above and not np.isnan(self._suspended):
                self.tau = float(self._suspended)
            self._trend, self._suspended = validated, np.float32(np.nan)
        elif above and not falls and self._rule.guards:
            self._suspended, self.tau = np.float32(self.tau), self.tau / 2
        else:
            self._trend = min(self._trend, validated)
        self._epochs, self._sum, self._iterations, self._skipping = self._epochs + 1, np.float32(0), 0, 0

    def _falls_to(self, loss: np.float32) -> bool:
        """Tell whether a training loss has fallen, since the epoch before, by ``FALL`` of the expected fall."""
        known = [loss for loss in self._losses if not np.isnan(loss)]
        return bool(known and loss < known[-1] - FALL * (known[-1] - extrapolate(known)))

    def _kept_distances(self) -> np.ndarray:
        """Tell which distances from a sequence's end each layer keeps, (L, T); unmeasured ones end no range."""
        distances = np.arange(self._profile.shape[1])
        if self._rule.last_steps is not None:
            return np.broadcast_to(distances < self._rule.last_steps, self._profile.shape)
        largest = np.where(self._reach >= COMMON, self._profile, UNKNOWN).argmax(axis=1)[:, None]
        threshold = np.float32(self.tau) * np.take_along_axis(self._profile, largest, axis=1)
        small = (self._profile < threshold) & (self._profile != UNKNOWN)
        last = np.where(small & (distances > largest), distances, distances.size).min(axis=1)
        first = np.where(small & (distances < largest), distances + 1, 0).max(axis=1)
        return (distances >= (first[:, None] if self._per_step else 0)) & (distances < last[:, None])

    def _reached(self, kept: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Remove from the kept cells those that no gradient reaches; gives the same array."""
        layers, steps = kept.shape
        for layer in reversed(range(layers)):
            above = kept[layer + 1] if layer + 1 < layers else self._has_dy(steps, lengths)
            for t in reversed(range(steps)):
                kept[layer, t] &= above[t] or (t + 1 < steps and kept[layer, t + 1])
        return kept

    def _has_dy(self, steps: int, lengths: np.ndarray) -> np.ndarray:
        """Tell which steps of the top layer have a dy."""
        return np.full(steps, True) if self._per_step else np.isin(np.arange(steps) + 1, lengths)
