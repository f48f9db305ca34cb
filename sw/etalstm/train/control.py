"""Controllers of a run: a threshold that leaves a share of δ, or of x and h; and each layer's storage.

Every device decides alike: decisions follow from counts, by single multiplications and divisions, which every machine
rounds alike.
"""

import numpy as np

from etalstm.network.storage import DENSE, DENSE_TENSORS, KINDS, Usage, check_threshold
from etalstm_hw.contract import STREAM_BLOCK

DELTA_START = 2.0**-24  # of δ: few gradients of a mean loss that matter are smaller
INPUT_START = 2.0**-7  # of x and h: initial embeddings and h are below 1
LEAST, MOST = 2.0**-100, 2.0**100
GAIN = 0.4  # growth, over the distance as a share of target · (1 - target)
LARGEST_GROWTH = 1.0


def check_target(name: str, value: float) -> None:
    """Raise ``ValueError`` if a share that is to be left is not above 0 and below 1."""
    if not 0 < check_threshold(name, value) < 1:
        raise ValueError(f"{name} must be above 0 and below 1, or off, got {value}")


def check_delta_target(target: float, policy: str) -> None:
    """Raise ``ValueError`` if a share of δ cannot be left with a storage policy."""
    check_target("delta_target", target)
    if policy in (DENSE, *CHOOSING):
        raise ValueError(f"dense cells keep δ whole: with a delta_target storage cannot be {policy}")


class ShareControl:
    """Gives each iteration's threshold, moved so that the share that it leaves is the target.

    Small gradients of gates can be left out of the products without loss of quality ("Structurally sparsified backward
    propagation", arXiv 1806.00512), and so can small changes of x and h, see :mod:`etalstm.network.delta_inputs`. How
    small depends on the data, the loss, the batch, and how far training has come. So the threshold grows while more
    than the target is left, and shrinks while less is. The further the share is from the target, the faster it moves.
    Over many iterations the mean share is then close to the target.

    `target`: share that is to be left, above 0 and below 1. `start`: the first threshold, ``LEAST`` to ``MOST``.
    `threshold`: of the next iteration; may be set to that of a checkpoint.
    """

    def __init__(self, target: float, start: float):
        self.target, self.threshold = target, start

    def take(self, density: float) -> None:
        """Move the threshold after an iteration that left the share `density`."""
        step = GAIN * (density - self.target) / (self.target * (1 - self.target))
        factor = 1 + min(step, LARGEST_GROWTH) if step > 0 else 1 / (1 - step)
        self.threshold = float(np.float32(min(MOST, max(LEAST, self.threshold * factor))))


SMALLEST, FASTEST = CHOOSING = ("auto", "auto-fastest")
PROBE_EPOCHS = 4  # after so many epochs a dense layer is stored as streams again, which measures it
DELTA_LIMIT = 0.95  # nonzero share of δ above which ms1 saves nothing; some of δ is zero in dense layers too


class Chooser:
    """Chooses every layer's policy, ``dense`` or ``ms1``: the better one in the epoch before.

    The first policy is ``ms1``, which measures. ``auto`` takes the smaller: ``dense`` stores five words for each
    element of a cell, ``ms1`` six mask bits and the words of the local gradients that are not dropped. The smaller also
    moves fewer bytes, as either goes to memory once and comes back once. ``auto-fastest`` takes the one with fewer
    cycles. Both have the same element-wise work, and their bytes move in parallel with it. ``ms1`` saves the products
    of those δ that it makes zero, so it is faster even where it is the larger. Only where nearly all of δ is left are
    there no products to save, and its streams cost a hundredth of the cycles. ``ms1-bf16`` is no candidate, as it would
    always win with at most 3.2 words. Its cost is accuracy, so a user must ask for it.

    `storage`: one of ``CHOOSING``. `state`: for a checkpoint, and may be set to that of a checkpoint: the epochs for
    which each layer has been dense, and the sums of the current epoch.
    """

    def __init__(self, layers: int, storage: str = SMALLEST):
        self._fastest = storage == FASTEST
        self._begin([0] * layers)

    def _begin(self, dense_for: list[int]) -> None:
        sums = {name: [0.0] * len(dense_for) for name in ("words", "deltas")}
        self.state: dict = {"dense_for": dense_for, **sums, "iterations": 0}

    @property
    def policies(self) -> tuple[str, ...]:
        """Each layer's policy in the current epoch."""
        return tuple("dense" if epochs else "ms1" for epochs in self.state["dense_for"])

    def measure(self, usages: list[Usage]) -> None:
        """Add an iteration's usages to the sums; dense layers add nothing, as not every device knows their streams."""
        for layer, (usage, dense) in enumerate(zip(usages, self.state["dense_for"], strict=True)):
            self.state["words"][layer] += 0.0 if dense else words_per_element(usage)
            self.state["deltas"][layer] += 0.0 if dense else usage.delta_density
        self.state["iterations"] += 1

    def end_epoch(self) -> None:
        """Choose each layer's policy for the next epoch."""
        kind, limit = ("deltas", DELTA_LIMIT) if self._fastest else ("words", DENSE_TENSORS)
        chosen = []
        for total, dense in zip(self.state[kind], self.state["dense_for"], strict=True):
            stays = 0 < dense < PROBE_EPOCHS
            loses = not dense and total > limit * self.state["iterations"]
            chosen.append(dense + 1 if stays or loses else 0)
        self._begin(chosen)


def words_per_element(usage: Usage) -> float:
    """Give the words that a layer's streams had for each element of the cells that were not skipped, masks included."""
    elements = usage.elements * (usage.cells - usage.skipped) // max(usage.cells, 1)
    return sum(usage.kept) / max(elements, 1) + len(KINDS) / STREAM_BLOCK
