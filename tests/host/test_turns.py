"""Works that take turns."""

from itertools import groupby

from etalstm.host.turns import CALLS, take_turns


def test_works_take_turns_forwards_and_backwards():
    order = []
    seconds = take_turns([lambda: order.append(0), lambda: order.append(1)], runs=3)
    assert [(work, len(list(calls))) for work, calls in groupby(order)] == [
        (0, CALLS),
        (1, 2 * CALLS),
        (0, 2 * CALLS),
        (1, CALLS),
    ]
    assert seconds.shape == (2, 3) and (seconds > 0).all()
