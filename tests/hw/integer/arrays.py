"""Arrays of integers as a sender takes them."""

import numpy as np

from etalstm.network.arithmetic import split


def extent_of(elements, wide, repeats):
    """Give what a sender is told of elements (sequences, blocks, 4, lanes)."""
    sequences, blocks, _, _ = elements.shape
    return {"blocks": blocks, "sequences": sequences, "wide": wide, "repeats": repeats}


def beats_of(elements, wide, words):
    """Give their beats of so many words, each of four bytes: [block][plane][sequence][beat]."""
    planes = np.stack(split(elements) if wide else [elements])
    for beat in planes.transpose(2, 0, 1, 4, 3).reshape(-1, words, 4):
        yield [[int(byte) & 0xFF for byte in word] for word in beat]
