"""Equations are read as they stand, or refused."""

import pytest

from etalstm.network.cells.operation import Operation, equations, reads, split_after
from etalstm_hw.contract import VectorOp


def test_reads_an_equation_of_each_kind():
    text = """
        d = a * b
        s = 1 - d
        s = s + c_before
        t = tanh(s)
        p = sigmoid(t)
        v = relu(p)
        w = d where v
    """
    assert equations(text) == (
        Operation(VectorOp.MULTIPLY, "d", ("a", "b")),
        Operation(VectorOp.SUBTRACT, "s", ("1", "d")),
        Operation(VectorOp.ADD, "s", ("s", "c_before")),
        Operation(VectorOp.TANH, "t", ("s",)),
        Operation(VectorOp.SIGMOID, "p", ("t",)),
        Operation(VectorOp.ADD_POSITIVE, "v", ("p", "-0")),
        Operation(VectorOp.SELECT, "w", ("v", "d")),
    )


@pytest.mark.parametrize("line", ["d = a / b", "d = a", "d = a * b + c", "d = sqrt(a)", "1 = a * b", "d = 2 * b"])
def test_refuses_what_is_no_equation_and_shows_it(line):
    with pytest.raises(ValueError, match="expected an equation") as error:
        equations(line)
    assert repr(line) in str(error.value)


def test_tells_what_operations_take_from_elsewhere():
    assert reads(equations("d = a * b\n d = d + c\n e = 1 - d")) == {"a", "b", "c"}


def test_splits_after_the_last_operation_that_writes_a_name():
    before, after = split_after(equations("c = a * b\n c = c + b\n e = tanh(c)"), {"c"})
    assert [operation.d for operation in before] == ["c", "c"]
    assert [operation.d for operation in after] == ["e"]
