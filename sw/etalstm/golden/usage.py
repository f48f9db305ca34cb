"""What a layer's passes kept and computed, counted."""

from collections.abc import Iterator

import numpy as np
from numba import njit

from etalstm.golden.fast.declared import DeclaredBackward
from etalstm.golden.passes import LayerBackward, LayerPass
from etalstm.network.shape import GATES
from etalstm.network.storage import DENSE_TENSORS, LayerStorage, ProductCounts, Usage
from etalstm_hw.contract import STREAM_BLOCK


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


def _products(forward: LayerPass, backward: LayerBackward | DeclaredBackward) -> Iterator[ProductCounts]:
    """Count what each product of a layer's cell has computed."""
    if isinstance(backward, LayerBackward):
        operands = [forward.delta_inputs.broadcast(sent) for sent in (forward.x_sent, forward.h_sent)]
        yield ProductCounts.of(GATES, operands, forward.active, int(np.count_nonzero(backward.sent)))
        return
    for product in backward.products:
        kept = int(np.count_nonzero(product.delta))
        yield ProductCounts.of(product.gates, product.operands, forward.active, kept)


def layer_usage(forward: LayerPass, backward: LayerBackward | DeclaredBackward, storage: LayerStorage) -> Usage:
    """Count what one layer kept and computed in an iteration.

    A stream is one kind of one cell, elements in the order of sequences, then units; beats are not filled up.
    """
    steps, batch, units = forward.h[1:].shape
    streams = [_streams(p.reshape(steps, -1), forward.skipped, storage.bf16) for p in forward.intermediates]
    words = sum(size for _, size in streams)
    if not storage.compressed:
        words = DENSE_TENSORS * int((~forward.skipped).sum()) * batch * units
    return Usage.counted(
        units=units,
        products=_products(forward, backward),
        active=forward.active,
        skipped=forward.skipped,
        kept=tuple(kept for kept, _ in streams),
        words=words,
    )
