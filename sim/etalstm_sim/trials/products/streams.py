"""Products beside streams through the codec: how fast it is, and how much it holds them up."""

from statistics import NormalDist

import numpy as np


def threshold_for(density: float) -> float:
    """Give the θ with which a share of `density` of normally distributed numbers have a magnitude of at least θ."""
    if density == 0:
        return float(np.finfo(np.float32).max)
    return max(NormalDist().inv_cdf(1 - density / 2), 0.0)


def rates(alone: dict, products: dict, beside: dict, elements: int, channels: int) -> dict:
    """Compare the counters of three programs: of streams `alone`, of `products`, and of both `beside` each other.

    `elements`: how many a channel compresses, and decompresses. Gives a dict: ``elements_per_cycle`` of the compressor;
    the decompressor takes as many. ``mac_cycles``: of a channel from each MAC instruction's start to its last MAC,
    without streams. ``beside_mac_cycles``: the same with streams. ``stalled``: by which share the latter are more.
    """
    without, with_streams = (counters["mac_phase"] / channels for counters in (products, beside))
    return {
        "elements_per_cycle": elements / alone["cycles"],
        "mac_cycles": without,
        "beside_mac_cycles": with_streams,
        "stalled": with_streams / without - 1,
    }
