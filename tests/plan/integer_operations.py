"""What VECTOR does with integers, on arrays."""

import numpy as np

from etalstm.network.arithmetic import SMALLEST, exponent_of, scaled
from etalstm_hw.contract import VectorOp
from etalstm_hw.contract.integers import largest_mantissa


def integer_operation(op, a, b, bits, places=0):
    """Give what an operation on integers makes, uint32; a and b are float32, of partial sums a is int64.

    `places` are those of the byte that is taken, by element.
    """
    words = a.astype(np.int32).view(np.uint32) if a.dtype == np.int64 else a.view(np.uint32)
    other = b.view(np.uint32)
    exponent = (other.astype(np.int64) + 512) % 1024 - 512
    match op:
        case VectorOp.CONVERT:
            sums = a if a.dtype == np.int64 else words.view(np.int32).astype(np.int64)
            return scaled(sums, exponent).view(np.uint32)
        case VectorOp.CONVERT_BYTE:
            return scaled((words >> places).astype(np.int8), exponent).view(np.uint32)
        case VectorOp.QUANTISE:
            limit = largest_mantissa(bits)
            rounded = np.rint(np.ldexp(words.view(np.float32).astype(np.float64), exponent))
            return np.clip(rounded, -limit, limit).astype(np.int32).view(np.uint32)
        case VectorOp.SCALE:
            values = np.ldexp(words.view(np.float32).astype(np.float64), exponent).astype(np.float32)
            return np.where(np.abs(values) < SMALLEST, np.float32(0), values).view(np.uint32)
        case VectorOp.EXPONENT:
            return exponent_of(np.abs(words.view(np.float32))).astype(np.int32).view(np.uint32)
        case VectorOp.LARGEST:
            return np.maximum(words & 0x7FFFFFFF, other & 0x7FFFFFFF)
        case VectorOp.ADD_INTEGERS:
            return words + other
        case VectorOp.SUBTRACT_INTEGERS:
            return words - other
