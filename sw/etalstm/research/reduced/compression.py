"""Compressed local gradients as tensors: a bit for each element, and the elements that are kept.

The format is not that of :mod:`etalstm.formats.codec`, whose masks and words alternate. Here all bits are in one tensor
and all words in another, so that any device works on whole tensors. On the host
loops are compiled without branches: with random data every other branch would be mispredicted.

Dimensions: N cells of one sequence each, H units, K kinds of local gradients.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import pad

from etalstm.host.machine_code import keep_code

BITS = 8  # elements of a byte

keep_code([Path(__file__)])


def select(elements: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Select the elements (N, K, H), contiguous, that are not below their kind's threshold (K,).

    Gives bits, uint8, (N, K, ceil(H / 8)), and words, as :class:`Compressed` has them.
    """
    bits = np.empty((*elements.shape[:2], -(-elements.shape[2] // BITS)), np.uint8)
    words = np.empty(elements.size + 1, elements.dtype)
    count = _select(elements.reshape(-1, elements.shape[2]), thresholds, bits.reshape(-1, bits.shape[2]), words)
    words[count] = 0
    return bits, words[: count + 1]


def scatter(bits: np.ndarray, words: np.ndarray, units: int) -> np.ndarray:
    """Undo :func:`select`: give (N, K, H) with H `units`, of zeros where elements were dropped."""
    elements = np.empty((*bits.shape[:2], units), words.dtype)
    unsigned = f"u{words.itemsize}"
    _scatter(bits.reshape(-1, bits.shape[2]), words.view(unsigned), elements.view(unsigned).reshape(-1, units))
    return elements


@njit(nogil=True, cache=True)
def _select(elements, thresholds, bits, words):
    """Fill `bits` and `words`; give the number of words."""
    position, last = 0, bits.shape[1] - 1
    for vector in range(len(elements)):
        row, limit = elements[vector], thresholds[vector % len(thresholds)]
        for m in range(last):
            bits[vector, m], position = _select_byte(row, m * BITS, BITS, limit, words, position)
        bits[vector, last], position = _select_byte(row, last * BITS, len(row) - last * BITS, limit, words, position)
    return position


@njit
def _select_byte(row, first, count, threshold, words, position):
    """Select `count` elements; give their bits and the next position. What follows a dropped element overwrites it."""
    byte = 0
    for n in range(count):
        kept = 1 - int(abs(row[first + n]) < threshold)
        words[position] = row[first + n]
        position += kept
        byte |= kept << n
    return byte, position


@njit(nogil=True, cache=True)
def _scatter(bits, words, elements):
    """Fill `elements`."""
    position, last = 0, bits.shape[1] - 1
    for vector in range(len(elements)):
        row = elements[vector]
        for m in range(last):
            position = _scatter_byte(bits[vector, m], row, m * BITS, BITS, words, position)
        position = _scatter_byte(bits[vector, last], row, last * BITS, len(row) - last * BITS, words, position)


@njit
def _scatter_byte(byte, row, first, count, words, position):
    """Scatter `count` elements; give the next position. A mask of all bits or none makes a dropped element zero."""
    byte, number = np.uint32(byte), words.dtype.type
    for n in range(count):
        kept = number(byte >> np.uint32(n)) & number(1)
        row[first + n] = words[position] & (number(0) - kept)
        position += np.int64(kept)
    return position


@dataclass(frozen=True)
class Compressed:
    """The elements of (N, K, H)."""

    bits: Tensor  # uint8, (N, K, ceil(H / 8)): bit n of byte m is 1 if element 8 m + n is kept
    # (kept elements + 1,): the kept elements in order, and a last word without meaning, which code without branches
    # may read
    words: Tensor


def compress(elements: Tensor, thresholds: Tensor, word: torch.dtype) -> Compressed:
    """Drop zeros, subnormals, and what is below its kind's threshold, of elements (N, K, H), contiguous. NaNs are kept.

    Thresholds, (K,), are of the same dtype, each at least the smallest normal number. Kept elements are rounded to the
    dtype `word`, to nearest even.
    """
    if elements.is_cpu:
        bits, words = select(elements.numpy(), thresholds.numpy())
        return Compressed(torch.from_numpy(bits), torch.from_numpy(words).to(word, copy=True))
    return compress_in_torch(elements, thresholds, word)


def expand(stored: Compressed, units: int, dtype: torch.dtype) -> Tensor:
    """Undo :func:`compress`: give (N, K, H) in `dtype`, with H `units` and zeros where elements were dropped."""
    words = stored.words.to(dtype)
    if words.is_cpu:
        return torch.from_numpy(scatter(stored.bits.numpy(), words.numpy(), units))
    return expand_in_torch(stored.bits, words, units)


def compress_in_torch(elements: Tensor, thresholds: Tensor, word: torch.dtype) -> Compressed:
    """Do what :func:`compress` does in PyTorch's operations."""
    kept = (elements.abs() < thresholds[:, None]).logical_not_()
    words = torch.masked_select(elements, kept).to(word)
    return Compressed(_pack(pad(kept, (0, -kept.shape[-1] % BITS))), pad(words, (0, 1)))


def expand_in_torch(bits: Tensor, words: Tensor, units: int) -> Tensor:
    """Do what :func:`expand` does in PyTorch's operations."""
    kept = unpack(bits)[..., :units]
    return words.new_zeros(kept.shape).masked_scatter_(kept, words)


def _pack(flags: Tensor) -> Tensor:
    """Give bytes, uint8, of bools, a multiple of eight."""
    weights = torch.bitwise_left_shift(1, torch.arange(BITS, dtype=torch.uint8, device=flags.device))
    return (flags.unflatten(-1, (-1, BITS)) * weights).sum(-1, dtype=torch.uint8)


def unpack(bits: Tensor) -> Tensor:
    """Give the bools of bytes: (..., M) uint8 becomes (..., 8 M)."""
    weights = torch.bitwise_left_shift(1, torch.arange(BITS, dtype=torch.uint8, device=bits.device))
    return (bits[..., None] & weights).bool().flatten(-2)


def kept_tensors(forward: Callable[[], object]) -> list[Tensor]:
    """Run a forward pass, and give every tensor that its graph saves for the backward pass."""
    kept = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return kept


def storage_bytes(tensors: Iterable[Tensor], others: Iterable[Tensor] = ()) -> int:
    """Add up the bytes of the tensors' storages, each storage once, without those of `others`."""
    storages = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    elsewhere = {tensor.untyped_storage().data_ptr() for tensor in others}
    return sum(size for address, size in storages.items() if address not in elsewhere)


def kept_elements(tensors: Iterable[Tensor]) -> int:
    """Count the local gradients that compressed layers keep, given what :func:`kept_tensors` gives."""
    return sum(int(unpack(tensor).sum()) for tensor in tensors if tensor.dtype is torch.uint8)
