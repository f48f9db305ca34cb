"""Loops of a program that have become steady: their turns are counted, not gone through."""

import numpy as np
from numba import njit

from etalstm.hw.contract import LOOP_DEPTH
from etalstm.model.state import record

STACK = record("start", "end", "turns", "done", "begun_at", "last", "total")
"""A loop that is executed: where its body begins and ends, turns to go, turns done, and what they took.

``last`` is what the last turn took, ``total`` what all but the first took.
"""

_SAME = 500  # two turns are alike if they differ by less than one in so many
_SETTLED = 1000  # turns of random length: their mean has settled if the last one changed it by less than one in so many
_SEVERAL = 6  # of which there are so many at least


def make_stack() -> np.ndarray:
    """Make the stack of loops; the last entry is the depth."""
    return np.zeros(LOOP_DEPTH + 1, STACK)


@njit
def _expected(body, took):
    """Give what the following turns take, if that is known after one that took so long; else 0."""
    if body.done > 2 and abs(took - body.last) * _SAME <= took:
        return (took + body.last) / 2
    seen = body.done - 1
    if seen < _SEVERAL:
        return 0.0
    mean = body.total / seen
    return mean if abs(took - mean) * _SETTLED <= mean * (seen - 1) else 0.0


@njit
def turn_ends(body, now, counters, before, extrapolate):
    """Note that a turn ends in cycle `now`, turns left out included; give how many cycles may be left out.

    `counters` are what has been counted until now, `before` until the turn's beginning. Turns that are left out are
    added to both.
    """
    took = now - body.begun_at
    body.done += 1
    if body.done > 1:
        body.total += took
    mean, skipped = _expected(body, took), 0
    if extrapolate and body.turns > 2 and mean > 0:
        turns = body.turns - 2
        skipped = round(turns * mean)
        for place in range(len(counters)):
            counters[place] += turns * (counters[place] - before[place])
        body.turns = 2
    body.last = took
    body.begun_at = now + skipped
    before[:] = counters
    return skipped
