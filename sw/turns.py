"""Works that are timed against each other."""

import time
from collections.abc import Callable, Sequence

import numpy as np

PAUSE = 0.02
"""Seconds before each work: threads of OpenMP, as PyTorch's, go on spinning for some milliseconds when theirs is done,
and keep a processor from whoever comes next."""


def take_turns(works: Sequence[Callable[[], object]], runs: int) -> np.ndarray:
    """Give the seconds of each work in each turn, (works, runs), after one turn that warms up.

    The works take turns, so that whatever else the machine does falls on all of them. Every other turn goes through
    them backwards.
    """
    seconds = np.empty((len(works), runs + 1))
    for turn in range(runs + 1):
        for number in list(range(len(works)))[:: 1 if turn % 2 else -1]:
            time.sleep(PAUSE)
            started = time.perf_counter()
            works[number]()
            seconds[number, turn] = time.perf_counter() - started
    return seconds[:, 1:]
