"""Moves a threshold so that the share that it leaves is the target: of the gates' gradients δ, or of x and h.

Small gradients of gates can be left out of the products without loss of quality ("Structurally sparsified backward
propagation", arXiv 1806.00512), and so can small changes of x and h, see :mod:`etalstm.network.delta_inputs`. How small
is small depends on the data, the loss, the batch, and how far training has come. So the threshold follows the shares
that iterations had: it grows while more than the target is left, and shrinks while less is, the faster the further.
Over many iterations the mean share is then close to the target. All that is done are single multiplications and
divisions, which every machine rounds alike.
"""

import numpy as np

from etalstm.network.storage import DENSE, check_threshold
from etalstm.train.chooser import CHOOSING

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
    """Gives each iteration's threshold.

    Parameters
    ----------
    target : float
        Share that is to be left, above 0 and below 1.
    start : float
        The first threshold, ``LEAST`` to ``MOST``.

    Members
    -------
    threshold : float
        Of the next iteration; may be set, to what a checkpoint has.
    """

    def __init__(self, target: float, start: float):
        self.target, self.threshold = target, start

    def take(self, density: float) -> None:
        """Note what share an iteration had left."""
        step = GAIN * (density - self.target) / (self.target * (1 - self.target))
        factor = 1 + min(step, LARGEST_GROWTH) if step > 0 else 1 / (1 - step)
        self.threshold = float(np.float32(min(MOST, max(LEAST, self.threshold * factor))))
