"""Times of an output layer in both layouts: a linear layer and the loss behind it, forward and backward.

Dimensions: B rows, H inputs, V tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from etalstm.nn.torch_device import CPU, check_device, device_name, waited_for
from etalstm.research.layouts.choices import Machine
from etalstm.research.layouts.layout import BATCH_MAJOR, BATCH_MINOR, check_budget, timed


def linear(x: Tensor, weight: Tensor, bias: Tensor, layout: str) -> Tensor:
    """Give a linear layer's result (B, V) for x (B, H), weights (V, H) and bias (V,); batch-minor lies as (V, B)."""
    if layout == BATCH_MAJOR:
        return torch.nn.functional.linear(x, weight, bias)
    return torch.addmm(bias[:, None], weight, x.T).T


def measure(hidden: Sequence[int], rows: Sequence[int], tokens: int, budget_s: float, device: str = CPU) -> dict:
    """Time every H with every B; the fastest calls count.

    Returns
    -------
    dict
        ``machine``: see :class:`etalstm.research.layouts.choices.Machine`. ``device``: its model if it is a GPU.
        ``shapes``: for each H and B a dict of ``hidden``, ``batch``, and the seconds ``major`` and ``minor``.
    """
    check_budget(budget_s)
    check_device(device)
    shapes = []
    for units in hidden:
        for count in rows:
            works = [_work(units, count, tokens, layout, device) for layout in (BATCH_MAJOR, BATCH_MINOR)]
            major, minor = timed(works, budget_s)
            shapes.append({"hidden": units, "batch": count, "major": major, "minor": minor})
    return {"machine": asdict(Machine.here()), "device": device_name(device), "shapes": shapes}


def _work(hidden: int, rows: int, tokens: int, layout: str, device: str) -> Callable[[], object]:
    """Make a call that goes through the layer and back."""
    torch.manual_seed(0)
    x, layer = torch.randn(rows, hidden).to(device).requires_grad_(), torch.nn.Linear(hidden, tokens).to(device)
    wanted = torch.randint(tokens, (rows,)).to(device)

    def work():
        loss = cross_entropy(linear(x, layer.weight, layer.bias, layout), wanted)
        torch.autograd.grad(loss, (x, *layer.parameters()))

    return waited_for(work, device)
