"""A module's parameters, and what Adam remembers of them, by name."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from etalstm.errors import CheckpointError

MOMENTS = ("exp_avg", "exp_avg_sq")


def moments_of(module: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Give the moments by ``moment.parameter``; after the first step, or :func:`fresh_moments`."""
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in module.named_parameters()
        for moment in MOMENTS
    }


def fresh_moments(module: nn.Module, optimizer: torch.optim.Adam, steps: int) -> dict[str, Tensor]:
    """Give an optimizer moments of zero, as after so many steps, and return them to be filled."""
    for parameter in module.parameters():
        moments = {name: torch.zeros_like(parameter) for name in MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(float(steps)), **moments}
    return moments_of(module, optimizer)


def load_tensors(path: Path, tensors: Mapping[str, np.ndarray], beginning: str, into: Mapping[str, Tensor]) -> None:
    """Copy a checkpoint's arrays into tensors, in place.

    Parameters
    ----------
    path : Path
        Of the checkpoint, for the message.
    tensors : mapping from name to array
    beginning : str
        Of the arrays' names; what follows is the name in `into`.
    into : mapping from name to Tensor

    Raises
    ------
    CheckpointError
        If an array is missing, or has another shape; no tensor has changed then.
    """
    for name, tensor in into.items():
        array = tensors.get(beginning + name)
        if array is None or array.shape != tuple(tensor.shape):
            found = None if array is None else array.shape
            raise CheckpointError(
                f"{path}: tensor {beginning + name} has shape {found}, expected {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        for name, tensor in into.items():
            tensor.copy_(torch.from_numpy(tensors[beginning + name]))
