"""Compressed local gradients as tensors: a bit for each element, and the elements that are kept.

The format is not that of :mod:`etalstm.formats.codec`, whose masks and words alternate. Here all bits are in one tensor
and all words in another, so that any device works on whole tensors.

Dimensions: N cells of one sequence each, H units, K kinds of local gradients.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import pad

from etalstm.research.reduced import compiled
from etalstm.research.reduced.compiled import BITS


@dataclass(frozen=True)
class Compressed:
    """The elements of (N, K, H).

    Members
    -------
    bits : uint8, (N, K, ceil(H / 8))
        Bit n of byte m is 1 if element 8 m + n is kept.
    words : (kept elements + 1,)
        The kept elements in order, and a last word that means nothing: code without branches may read it.
    """

    bits: Tensor
    words: Tensor


def compress(elements: Tensor, thresholds: Tensor, word: torch.dtype) -> Compressed:
    """Drop zeros, subnormals, and what is below its kind's threshold. NaNs are kept.

    Parameters
    ----------
    elements : (N, K, H), contiguous
    thresholds : (K,), of the same dtype, each at least the smallest normal number
    word : dtype
        Kept elements are rounded to it, to nearest even.
    """
    if elements.is_cpu:
        bits, words = compiled.select(elements.numpy(), thresholds.numpy())
        return Compressed(torch.from_numpy(bits), torch.from_numpy(words).to(word, copy=True))
    return compress_in_torch(elements, thresholds, word)


def expand(stored: Compressed, units: int, dtype: torch.dtype) -> Tensor:
    """Undo :func:`compress`: give (N, K, H) in `dtype`, with H `units` and zeros where elements were dropped."""
    words = stored.words.to(dtype)
    if words.is_cpu:
        return torch.from_numpy(compiled.place(stored.bits.numpy(), words.numpy(), units))
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


def held_bytes(tensors: Iterable[Tensor], others: Iterable[Tensor] = ()) -> int:
    """Add up the memory that tensors hold, each piece once, without the pieces that `others` hold."""
    pieces = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    elsewhere = {tensor.untyped_storage().data_ptr() for tensor in others}
    return sum(size for address, size in pieces.items() if address not in elsewhere)


def kept_elements(tensors: Iterable[Tensor]) -> int:
    """Count the local gradients that compressed layers keep, given what :func:`kept_tensors` gives."""
    return sum(int(unpack(tensor).sum()) for tensor in tensors if tensor.dtype is torch.uint8)
