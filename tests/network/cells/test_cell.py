"""A declaration that does not hold together is refused; the LSTM's counts follow from its declaration."""

from dataclasses import replace

import pytest

from etalstm.network.cells.cell import Cell, Product, arrays
from etalstm.network.cells.lstm import LSTM
from etalstm.network.cells.operation import equations

STAGE = LSTM.stages[0]
GATES = STAGE.gates
COLUMNS = ("c_before", "c", "tanh_c=P_s", "h", "product")


def test_the_counts_of_the_lstm_are_the_designs():
    assert LSTM.kinds == ("i", "f", "g", "o", "s", "r")
    assert LSTM.dense_tensors == 5
    assert STAGE.vectors == 14


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"products": (Product(GATES, ("x", "v")),)}, "must broadcast each of"),
        ({"products": (Product(GATES, ("x",)),)}, "must broadcast each of"),
        ({"forward": STAGE.forward[:-1]}, "nothing computes h"),
        ({"local": STAGE.local[:-1]}, "nothing computes P_s"),
        ({"backward": STAGE.backward[:-1]}, "nothing computes dc_before"),
        ({"backward": STAGE.backward[1:]}, "dc is not there when dc is computed"),
        ({"rebuild": ()}, "tanh_c is not there when P_o is computed"),
        ({"local": STAGE.local + equations("P_x = i * x")}, "x is not there when P_x is computed"),
        ({"forward_arrays": arrays("i f", "g o", *COLUMNS)}, "i f g o must be an array of its own"),
        ({"forward_arrays": arrays("i f g o", "h c", *COLUMNS[::2])}, "h must be an array of its own"),
        ({"local_arrays": ()}, "P_i has no vector"),
        ({"forward_arrays": arrays("i f g o", "c_before=c", "tanh_c=P_s", "h", "product")}, "c_before is not there"),
        ({"backward_arrays": arrays("i f g o", "c=c_before", "dy", "dh", "dc_next")}, "no vector of its own"),
    ],
)  # fmt: skip
def test_refuses_a_declaration_that_does_not_hold_together(changes, message):
    with pytest.raises(ValueError, match=message):
        Cell("changed", (replace(STAGE, **changes),), state="c")
