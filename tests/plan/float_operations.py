"""What VECTOR does with float32, on arrays."""

import numpy as np

from etalstm.formats import codec
from etalstm.golden import activation
from etalstm.golden.arithmetic import add, multiply
from etalstm_hw.contract import VectorOp


def float_operation(op, a, b, before, factor):
    """Give what an operation makes of a and b, float32; lanes that it does not write keep what was `before`.

    ADD_SCALED multiplies by `factor`.
    """
    match op:
        case VectorOp.MULTIPLY:
            return multiply(a, b)
        case VectorOp.ADD:
            return add(a, b)
        case VectorOp.SUBTRACT:
            return add(a, -b)
        case VectorOp.SIGMOID:
            return activation.sigmoid(a)
        case VectorOp.TANH:
            return activation.tanh(a)
        case VectorOp.SELECT:
            return np.where(a != 0, b, before)
        case VectorOp.SELECT_ZERO:
            return np.where(a == 0, b, before)
        case VectorOp.PACK:
            return codec.pack_bf16(*np.broadcast_arrays(a, b))
        case VectorOp.ADD_POSITIVE:
            return np.where((a != 0) & ~np.signbit(a), add(a, b), before)
        case VectorOp.ADD_SCALED:
            return add(multiply(a, factor), b)
        case VectorOp.ADD_SQUARE:
            return add(multiply(a, a), b)
