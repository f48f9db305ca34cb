"""Masks of weights: a masked weight is zero in the forward pass and gets no gradient."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from etalstm.nn import HLSTM

MASKED = (nn.LSTM, HLSTM, nn.Linear, nn.Embedding)


class _PassingGradients(torch.autograd.Function):
    """Masks values, but no gradients."""

    @staticmethod
    def forward(ctx, original, kept):
        return torch.where(kept, original, 0.0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Mask(nn.Module):
    """Parametrization that sets masked weights of a matrix (R, C), or of a bias (R,), to +0.

    A weight is kept if its element, its row and its column are kept. A masked weight is +0, whatever value is stored.
    So a network with masks has the bits of one without masks whose weights are +0 there. The three masks are buffers,
    hence part of the state dict. While a mask is `probing`, masked weights get their gradients all the same: see
    :func:`probing`.
    """

    elements: Tensor  # bool, (R, C) or (R,)
    rows: Tensor  # bool, (R,)
    columns: Tensor  # bool, (C,); of a bias a single one

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        self.register_buffer("elements", torch.ones(tuple(shape), dtype=torch.bool))
        self.register_buffer("rows", torch.ones(shape[0], dtype=torch.bool))
        self.register_buffer("columns", torch.ones(tuple(shape[1:]), dtype=torch.bool))
        self.probing = False

    @property
    def structure(self) -> Tensor:
        """Which weights are in kept rows and columns: bool, (R, C) or (R,)."""
        return self.rows[:, None] & self.columns if self.elements.dim() == 2 else self.rows

    @property
    def kept(self) -> Tensor:
        """Which weights are kept: bool, (R, C) or (R,)."""
        return self.elements & self.structure

    def forward(self, original: Tensor) -> Tensor:
        """Give the weights, +0 where they are masked."""
        if self.probing:
            return _PassingGradients.apply(original, self.kept)
        return torch.where(self.kept, original, 0.0)

    def right_inverse(self, weights: Tensor) -> Tensor:
        """Give the values that are stored when weights are assigned."""
        return weights

    def set(self, **masks: Tensor) -> None:
        """Replace ``elements``, ``rows`` or ``columns``; ``ValueError`` unless a mask is bool and of that shape."""
        for name, value in masks.items():
            ours = getattr(self, name)
            if value.shape != ours.shape or value.dtype != torch.bool:
                raise ValueError(
                    f"mask {name} must be bool of shape {tuple(ours.shape)}, got {value.dtype} of {tuple(value.shape)}"
                )
        for name, value in masks.items():
            getattr(self, name).copy_(value)


def put_masks(module: nn.Module) -> dict[str, Mask]:
    """Put masks on the weights and biases of a module and of the modules inside; at first they keep everything.

    Masks go on ``torch.nn.LSTM`` (so :class:`etalstm.nn.LSTM` too), :class:`etalstm.nn.HLSTM`, ``Linear`` and
    ``Embedding``; ``ValueError`` if there is none of them inside. Weights that had a mask before keep it. Gives the
    masks by the names of their weights.
    """
    for one in list(module.modules()):
        if isinstance(one, MASKED):
            for name, parameter in list(one.named_parameters(recurse=False)):
                parametrize.register_parametrization(one, name, Mask(parameter.shape))
    found = masks_of(module)
    if not found:
        raise ValueError(f"masks go on LSTM, HLSTM, Linear and Embedding; {type(module).__name__} has none of them")
    return found


def masks_of(module: nn.Module) -> dict[str, Mask]:
    """Give a module's masks by the names of their weights; {} without masks."""
    return {
        name.replace("parametrizations.", "").removesuffix(".0"): mask
        for name, mask in module.named_modules()
        if isinstance(mask, Mask)
    }


def mask_of(module: nn.Module, name: str) -> Mask:
    """Give the mask of a module's own weight."""
    return cast(Mask, _parametrized(module, name)[0])


def stored(module: nn.Module, name: str) -> nn.Parameter:
    """Give the stored values of a module's own weight, which may differ from zero where they are masked."""
    return cast(nn.Parameter, _parametrized(module, name).original)


def _parametrized(module: nn.Module, name: str) -> parametrize.ParametrizationList:
    """Give the stored values of a module's own weight, and their mask."""
    return cast(parametrize.ParametrizationList, module.get_submodule(f"parametrizations.{name}"))


@contextmanager
def probing(module: nn.Module) -> Iterator[None]:
    """Context in which masked weights get the gradients that they would have as weights of value zero."""
    masks = masks_of(module).values()
    for mask in masks:
        mask.probing = True
    try:
        yield
    finally:
        for mask in masks:
            mask.probing = False
