"""Works that are timed against each other."""

import time
from collections.abc import Callable, Sequence

import numpy as np

CALLS = 4
"""Of a work in its turn. The first is not counted: threads of OpenMP, as PyTorch's, spin for some milliseconds when
their work is done, and keep a processor from whoever comes next."""


def take_turns(works: Sequence[Callable[[], object]], runs: int, calls: int = CALLS) -> np.ndarray:
    """Give the seconds that a call of each work takes in each turn, (works, runs).

    They are the mean over all `calls` of a turn but the first. The works take turns, so that whatever else the machine
    does falls on all of them. Every other turn goes through them backwards.
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
