"""What Adam remembers of a module's parameters, by name."""

import torch
from torch import Tensor, nn

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
