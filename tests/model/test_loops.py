"""Turns of loops that are counted without being gone through."""

import numpy as np

from etalstm.model.loops import make_stack, turn_ends


def run_turns(durations, turns, extrapolate=True):
    """End the turns of a loop one after the other; give cycles gone through, cycles left out, and a counter."""
    body = make_stack()[0]
    body["turns"] = turns
    counters, before = np.zeros(1, np.int64), np.zeros(1, np.int64)
    now = skipped = 0
    for took in durations:
        now += took
        counters[0] += took
        skipped += turn_ends(body, now + skipped, counters, before, extrapolate)
        body["turns"] -= 1
        if body["turns"] == 0:
            break
    return now, skipped, int(counters[0])


def test_steady_turns_are_counted_but_for_the_last():
    now, skipped, counted = run_turns([100] * 100, 50)
    assert now + skipped == 50 * 100
    assert now < 10 * 100, "turns were gone through that had become steady"
    assert counted == now + skipped


def test_the_first_turns_count_as_they_were():
    now, skipped, counted = run_turns([500, 130, *[100] * 100], 40)
    assert now + skipped == counted == 500 + 130 + 38 * 100


def test_turns_that_differ_are_gone_through():
    now, skipped, _ = run_turns([100 + 10 * n for n in range(20)], 20)
    assert skipped == 0
    assert now == sum(100 + 10 * n for n in range(20))


def test_no_turn_is_left_out_unless_asked_for():
    assert run_turns([100] * 50, 50, extrapolate=False)[:2] == (5000, 0)
