"""What a layer's passes kept and computed, counted."""

import numpy as np
from numba import njit

from etalstm.golden.passes import LayerBackward, LayerPass
from etalstm.hw.contract import STREAM_BLOCK
from etalstm.storage import DENSE_TENSORS, KINDS, LayerStorage, Usage

PRODUCTS_OF_DELTA = 2  # a scalar of δ is multiplied once for dxh and once for dW with each of K columns


@njit(nogil=True, cache=True)
def _streams(elements, skipped, bf16):
    """Count nonzero elements, and words of the streams, of an array (T, N): one stream for each step not skipped."""
    kept, words = 0, 0
    for t in range(elements.shape[0]):
        if skipped[t]:
            continue
        for first in range(0, elements.shape[1], STREAM_BLOCK):
            count = 0
            for n in range(first, min(first + STREAM_BLOCK, elements.shape[1])):
                count += elements[t, n] != 0
            kept += count
            words += 1 + ((count + 1) >> 1 if bf16 else count)
    return kept, words


def layer_usage(forward: LayerPass, backward: LayerBackward, storage: LayerStorage) -> Usage:
    """Count what one layer kept and computed in an iteration.

    A stream is one kind of one cell, elements in the order of sequences, then units; beats are not filled up.
    """
    steps, batch, inputs = forward.x.shape
    units, columns = forward.h.shape[2], inputs + forward.h.shape[2]
    streams = [_streams(p.reshape(steps, -1), forward.skipped, storage.bf16) for p in forward.intermediates]
    skipped = int(forward.skipped.sum())
    words = sum(size for _, size in streams)
    if not storage.compressed:
        words = DENSE_TENSORS * (steps - skipped) * batch * units
    active = forward.active
    real, delta_kept = int(active.sum()), int(np.count_nonzero(backward.delta))
    broadcast = int(np.count_nonzero(forward.x[active]) + np.count_nonzero(forward.h[:-1][active]))
    back, dense_back = (PRODUCTS_OF_DELTA * columns * scalars for scalars in (delta_kept, 4 * units * real))
    return Usage(
        cells=steps,
        skipped=skipped,
        elements=steps * batch * units,
        real=real * units,
        stored=int(active[~forward.skipped].sum()) * units,
        kept=tuple(streams[n][0] for n in range(len(KINDS))),
        words=words,
        delta_kept=delta_kept,
        products=4 * units * broadcast + back,
        dense_products=4 * units * columns * real + dense_back,
        backward_products=back,
        dense_backward_products=dense_back,
    )
