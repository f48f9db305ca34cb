"""Shared by trainers of PyTorch modules: an iteration; module and Adam as arrays by name, and back."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from etalstm.errors import CheckpointError, DivergedError

MOMENTS = ("exp_avg", "exp_avg_sq")
MODULE, ADAM = "model.", "adam."  # beginnings of the arrays' names


def state_of(module: nn.Module, optimizer: torch.optim.Adam, steps: int) -> dict[str, np.ndarray]:
    """Give parameters and buffers as ``model.NAME``, and after a step of Adam its moments as ``adam.MOMENT.NAME``."""
    tensors = {MODULE + name: tensor for name, tensor in module.state_dict().items()}
    if steps:
        tensors |= {ADAM + name: tensor for name, tensor in _moments_of(module, optimizer).items()}
    return {name: tensor.detach().contiguous().numpy() for name, tensor in tensors.items()}


def load_module(path: Path, arrays: Mapping[str, np.ndarray], module: nn.Module, beginning: str = MODULE) -> None:
    """Load parameters and buffers from arrays as :func:`state_of` gives them; there may be others.

    `path` is the checkpoint's, for the message. Raises :class:`CheckpointError` if an array is missing, or has another
    shape; nothing has changed then.
    """
    _load(path, arrays, beginning, module.state_dict())


def load_adam(
    path: Path, arrays: Mapping[str, np.ndarray], module: nn.Module, optimizer: torch.optim.Adam, steps: int
) -> None:
    """Load Adam's moments after so many steps, if there was a step; the rest is as in :func:`load_module`."""
    if not steps:
        return
    for parameter in module.parameters():
        moments = {name: torch.zeros_like(parameter) for name in MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(float(steps)), **moments}
    _load(path, arrays, ADAM, _moments_of(module, optimizer))


def _moments_of(module: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in module.named_parameters()
        for moment in MOMENTS
    }


def _load(path: Path, arrays: Mapping[str, np.ndarray], beginning: str, into: Mapping[str, Tensor]) -> None:
    """Copy arrays into tensors, in place."""
    for name, tensor in into.items():
        array = arrays.get(beginning + name)
        if array is None or array.shape != tuple(tensor.shape):
            found = None if array is None else array.shape
            raise CheckpointError(
                f"{path}: tensor {beginning + name} has shape {found}, expected {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        for name, tensor in into.items():
            tensor.copy_(torch.from_numpy(arrays[beginning + name]))


def iterate(
    module: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[], Tensor], rate: float, clip: float,
    seed: int, number: int,
) -> tuple[float, float]:  # fmt: skip
    """Take a step of the optimizer, which has one group of parameters; give the loss and the norm of the gradient.

    `loss_of` does the forward pass and gives the loss, a scalar. `rate` is the learning rate. A gradient of a norm
    above `clip` is scaled down to it, and the norm is that before. Dropout draws from the seed and the iteration's
    number, from 0, and from nothing else. Raises :class:`DivergedError` if loss or norm are not finite; no parameter
    has changed then.
    """
    optimizer.param_groups[0]["lr"] = rate
    module.train()
    optimizer.zero_grad()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
        loss = loss_of()
        loss.backward()
    norm = nn.utils.clip_grad_norm_(module.parameters(), clip)
    if not (torch.isfinite(loss) and torch.isfinite(norm)):
        raise DivergedError(f"iteration {number + 1}: loss {loss.item()}, norm of the gradient {norm.item()}")
    optimizer.step()
    return loss.item(), norm.item()
