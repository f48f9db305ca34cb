"""How much of δ is pruned: moves the threshold of the gates' gradients so that the share that is left is the target.

Small gradients of gates can be left out of the products without loss of quality ("Structurally sparsified backward
propagation", arXiv 1806.00512). How small is small depends on the loss, the batch, and how far training has come, so
the threshold follows the shares that iterations had: it grows while more than the target is left, and shrinks while
less is, the faster the further. Over many iterations the mean share is then close to the target. All that is done are
single multiplications and divisions, which every machine rounds alike.
"""

import numpy as np

START = 2.0**-24  # the first threshold: few gradients of a mean loss that matter are smaller
LEAST = 2.0**-100
GAIN = 0.4  # growth, over the distance as a share of target · (1 - target)
LARGEST_GROWTH = 1.0


class DeltaPruning:
    """Gives each iteration's threshold of δ.

    Parameters
    ----------
    target : float
        Share of δ that is to be left, above 0 and below 1: nonzero elements over those of all cells that are no
        padding, skipped ones included.

    Members
    -------
    threshold : float
        Of the next iteration; may be set, to what a checkpoint has.
    """

    def __init__(self, target: float):
        self.target, self.threshold = target, START

    def take(self, density: float) -> None:
        """Note what share of δ an iteration had left."""
        step = GAIN * (density - self.target) / (self.target * (1 - self.target))
        factor = 1 + min(step, LARGEST_GROWTH) if step > 0 else 1 / (1 - step)
        self.threshold = float(np.float32(max(LEAST, self.threshold * factor)))
