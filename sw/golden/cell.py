"""One LSTM cell, element by element, in the machine's float32: what the element-wise engine computes.

All arrays are float32 of shape (B, H); gates are in the order i, f, g, o. Every product and sum is rounded once.
"""

import numpy as np

from etalstm.codec import round_bf16
from etalstm.golden.activation import sigmoid, tanh
from etalstm.golden.arithmetic import add, multiply
from etalstm.storage import LayerStorage

ONE = np.float32(1)
INTERMEDIATES = ("P_i", "P_f", "P_g", "P_o", "P_s", "P_r")


def cell_forward(z, c_prev):
    """Activate the gates and move the cell one step on.

    Parameters
    ----------
    z : 4 arrays, float32, (B, H)      sums of the gates i, f, g, o
    c_prev : array, float32, (B, H)    cell state entering the cell

    Returns
    -------
    gates : 4 arrays, float32, (B, H)  activated i, f, g, o
    c, tanh_c, h : arrays, float32, (B, H)

    Exactness: ``c = (f*c') + (i*g)``, ``h = o*tanh(c)``; bit-identical to the element-wise engine.
    """
    i, f, g, o = sigmoid(z[0]), sigmoid(z[1]), tanh(z[2]), sigmoid(z[3])
    c = add(multiply(f, c_prev), multiply(i, g))
    tanh_c = tanh(c)
    return (i, f, g, o), c, tanh_c, multiply(o, tanh_c)


def complement(x):
    """Give 1 - x as the machine does: one addition of the negated operand."""
    return add(ONE, -x)


def local_gradients(gates, c_prev, tanh_c):
    """Multiply out everything a cell's backward pass needs from its forward pass.

    Parameters
    ----------
    gates : 4 arrays, float32, (B, H)      activated i, f, g, o
    c_prev, tanh_c : arrays, float32, (B, H)

    Returns
    -------
    6 arrays, float32, (B, H)              P_i, P_f, P_g, P_o, P_s, P_r

    Exactness: each product rounded once, left to right; bit-identical to the element-wise engine.
    Source: η-LSTM, cell-level reduction (MS1); derived by differentiating :func:`cell_forward`.
    """
    i, f, g, o = gates
    return (
        multiply(multiply(g, i), complement(i)),
        multiply(multiply(c_prev, f), complement(f)),
        multiply(i, complement(multiply(g, g))),
        multiply(multiply(tanh_c, o), complement(o)),
        multiply(o, complement(multiply(tanh_c, tanh_c))),
        f,
    )


def stored(intermediates, storage: LayerStorage):
    """Give the local gradients as the backward pass finds them: through a stream and back, or untouched if dense.

    Parameters
    ----------
    intermediates : 6 arrays, float32
    storage : LayerStorage

    Returns
    -------
    6 arrays, float32     with compressed storage zeros, -0 too, and what is below its kind's threshold are +0; with
                          bf16 the rest is rounded

    Exactness: what :func:`etalstm.codec.decode` makes of :func:`etalstm.codec.encode`.
    """
    if not storage.compressed:
        return tuple(intermediates)
    kept = [pruned(p, threshold) for p, threshold in zip(intermediates, storage.thresholds, strict=True)]
    return tuple(map(round_bf16, kept) if storage.bf16 else kept)


def pruned(x, threshold):
    """Give an array with +0 for its zeros and for what is below the threshold; NaNs stay."""
    return np.where((x != 0) & ~(np.abs(x) < np.float32(threshold)), x, np.float32(0))


def cell_backward(intermediates, dh, dc_next):
    """Turn the gradients of a cell's results into those of its gate sums and of the state entering it.

    Parameters
    ----------
    intermediates : 6 arrays, float32, (B, H)    from :func:`local_gradients`
    dh : array, float32, (B, H)                  dy + dh_rec
    dc_next : array, float32, (B, H)

    Returns
    -------
    delta : 4 arrays, float32, (B, H)            gradients of the gate sums i, f, g, o
    dc_prev : array, float32, (B, H)

    Exactness: ``dc = dc_next + (dh*P_s)``, one product for each result; bit-identical to the element-wise engine.
    """
    p_i, p_f, p_g, p_o, p_s, p_r = intermediates
    dc = add(dc_next, multiply(dh, p_s))
    return (multiply(dc, p_i), multiply(dc, p_f), multiply(dc, p_g), multiply(dh, p_o)), multiply(dc, p_r)
