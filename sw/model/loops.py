"""Loops of a program that have become steady: their turns are counted, not gone through."""

import numpy as np
from numba import njit

from etalstm.hw.contract import LOOP_DEPTH
from etalstm.model.state import record

STACK = record("start", "end", "turns", "done", "begun_at", "last", "before")
"""A loop that is executed: where its body begins and ends, turns to go, turns done, and what the last two took."""

_SEEN = 3  # turns that are gone through at least, so that the queues are as full as they become
_SAME = 500  # two turns are alike if they differ by less than one in so many


def make_stack() -> np.ndarray:
    """Make the stack of loops; the last entry is the depth."""
    return np.zeros(LOOP_DEPTH + 1, STACK)


@njit
def turn_ends(body, now, counters, before, extrapolate):
    """Note that a turn ends in cycle `now`, turns left out included; give how many cycles may be left out.

    `counters` are what has been counted until now, `before` until the turn's beginning. Turns that are left out are
    added to both.
    """
    took = now - body.begun_at
    body.done += 1
    skipped = 0
    if extrapolate and body.done > _SEEN and body.turns > 2 and abs(took - body.last) * _SAME <= took:
        turns = body.turns - 2
        mean = (took + body.last) / 2
        skipped = round(turns * mean)
        for place in range(len(counters)):
            counters[place] += turns * (counters[place] - before[place])
        body.turns = 2
    body.last = took
    body.begun_at = now + skipped
    before[:] = counters
    return skipped
