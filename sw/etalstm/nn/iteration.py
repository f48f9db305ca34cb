"""One iteration of training with an optimizer of PyTorch."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from etalstm.errors import DivergedError


def iterate(
    module: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[], Tensor], rate: float, clip: float,
    seed: int, number: int,
) -> tuple[float, float]:  # fmt: skip
    """Take a step of the optimizer; dropout draws from the seed and the iteration's number, and from nothing else.

    Parameters
    ----------
    module : nn.Module
    optimizer : Optimizer
        With one group of parameters.
    loss_of : callable
        Does the forward pass, and gives the loss, a scalar.
    rate : float
        The learning rate.
    clip : float
        Largest norm of the gradient; a larger one is scaled down to it.
    seed : int
    number : int
        Of the iteration, from 0.

    Returns
    -------
    tuple of float
        The loss, and the norm of the gradient before it was clipped.

    Raises
    ------
    DivergedError
        If one of them is not finite; no parameter has changed then.
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
