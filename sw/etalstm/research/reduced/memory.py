"""What a forward pass keeps for the backward pass."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from etalstm.research.reduced.compression import unpack


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
