"""Times works against each other on a computer that does other things, too."""

import time
from collections.abc import Callable, Sequence

import numpy as np

CALLS = 4
"""Calls of a work in its turn. The first is not counted: OpenMP's threads, as PyTorch has them, spin for some
milliseconds after their work, and take a processor from the next work."""


def take_turns(works: Sequence[Callable[[], object]], runs: int, calls: int = CALLS) -> np.ndarray:
    """Give the seconds of a call of each work in each turn, (works, runs): the mean of its `calls` except the first.

    The works take turns, so that other load on the computer slows all of them. Every other turn runs them backwards.
    """
    seconds = np.empty((len(works), runs))
    for turn in range(runs):
        for number in list(range(len(works)))[:: -1 if turn % 2 else 1]:
            works[number]()
            started = time.perf_counter()
            for _ in range(calls - 1):
                works[number]()
            seconds[number, turn] = (time.perf_counter() - started) / (calls - 1)
    return seconds
