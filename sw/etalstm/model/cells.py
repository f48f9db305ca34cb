"""Which cells a modelled iteration skips (MS2): as in training with a loss at the last step, those of early steps."""

from collections.abc import Sequence

import numpy as np

EVERY = (1.0,)  # a share of the cells that are kept, for all layers


def read_kept(text: str) -> tuple[float, ...]:
    """Read the share of the cells that are kept: one number, or one for each layer, with commas between.

    Raises
    ------
    ValueError
        If it is neither. :func:`early_cells` looks at the values.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        expected = "a share, or one for each layer, with commas between"
        raise ValueError(f"kept_cells must be {expected}, got {text!r}") from error


def early_cells(layers: int, steps: int, kept: Sequence[float] = EVERY) -> np.ndarray:
    """Choose the cells that are skipped so that each layer keeps a share of its steps, the last ones.

    Parameters
    ----------
    layers, steps : int
    kept : sequence of float
        Shares above 0 and at most 1: one for all layers, or one for each. A layer keeps the nearest number of steps,
        and at least one.

    Returns
    -------
    array, bool, (L, T)

    Raises
    ------
    ValueError
        If a share is out of its range, or there are as many as neither 1 nor the layers.
    """
    if len(kept) not in (1, layers):
        raise ValueError(f"kept_cells must be one share, or one for each of {layers} layers, got {len(kept)}")
    for share in kept:
        if not 0 < share <= 1:
            raise ValueError(f"kept_cells must be above 0 and at most 1, got {share:g}")
    counts = np.maximum(np.rint(np.multiply(kept, steps)).astype(int), 1)
    first = steps - np.broadcast_to(counts, layers)
    return np.arange(steps) < first[:, None]
