"""The machine's multiplication and addition, bit for bit, on the host.

Binary32, round to nearest even, no subnormals, one NaN: what `Multiplier` and `Adder` in :mod:`etalstm_hw.fp` compute.
Three facts make NumPy's operators the reference. Results are rounded on IEEE's subnormal grid before they are flushed,
as NumPy leaves them; a sum below the smallest normal number is exact; and operands are flushed before, not after.
"""

from pathlib import Path

import numpy as np
from numba import njit, vectorize

from etalstm.formats import codec
from etalstm.host.machine_code import keep_code
from etalstm_hw import contract
from etalstm_hw.contract import activation_tables as tables


def drop_stale() -> None:
    """Remove cached loops that are older than a source they may contain: the multiplier, say, or the codec."""
    keep_code(Path(__file__).parent.rglob("*.py"), (codec, *contract.PARTS, tables))


SMALLEST = np.float32(2.0**-126)
"""The smallest normal number; what is smaller is a zero of its sign."""
NAN = np.float32(np.nan)
"""The one NaN, 0x7fc00000."""
ZERO = np.float32(0)

drop_stale()  # before the first compiled loop is read from the cache


@njit
def finish(z):
    """Read an operand, or finish a result, the way the machine does, in compiled code.

    A subnormal becomes a zero of its sign, any NaN becomes ``NAN``. Exactness: bit-identical to the hardware.
    """
    if z != z:
        return NAN
    return np.copysign(ZERO, z) if abs(z) < SMALLEST else z


@vectorize(["float32(float32)"], cache=True)
def _each_finished(z):
    return finish(z)


def flush(x):
    """Do :func:`finish` element by element; gives an array of float32."""
    with np.errstate(invalid="ignore"):  # a signalling NaN would warn
        return _each_finished(np.asarray(x, np.float32))


def multiply(a, b):
    """Multiply float32 arrays element by element; their shapes broadcast.

    Exactness: bit-identical to `Multiplier`, subnormal and NaN operands included.
    """
    with np.errstate(all="ignore"):
        return flush(flush(a) * flush(b))


def add(a, b):
    """Add float32 arrays element by element; their shapes broadcast.

    Exactness: bit-identical to `Adder`, subnormal and NaN operands included.
    """
    with np.errstate(all="ignore"):
        return flush(flush(a) + flush(b))


@njit
def times(a, b):
    """Multiply two float32 in compiled code.

    Exactness: bit-identical to :func:`multiply` for operands without subnormals. Compile callers without ``fastmath``,
    which would fuse and reorder.
    """
    return finish(np.float32(a * b))


@njit
def plus(a, b):
    """Add two float32 in compiled code.

    Exactness: bit-identical to :func:`add` for operands without subnormals. Compile callers without ``fastmath``.
    """
    return finish(np.float32(a + b))
