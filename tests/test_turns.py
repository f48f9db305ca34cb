"""Works that take turns."""

from etalstm.turns import take_turns


def test_works_take_turns_forwards_and_backwards():
    order = []
    seconds = take_turns([lambda: order.append(0), lambda: order.append(1)], runs=2)
    assert order == [1, 0, 0, 1, 1, 0]
    assert seconds.shape == (2, 2) and (seconds > 0).all()
