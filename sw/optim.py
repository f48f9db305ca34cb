"""An optimizer for PyTorch that updates the layers of :class:`etalstm.nn.LSTM` where they are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from etalstm.errors import DivergedError
from etalstm.golden.trainer import descend
from etalstm.nn.call import LayerStep
from etalstm.nn.engine import Engine
from etalstm.nn.lstm import living_modules
from etalstm.optimizer import UpdateRule, check_hyperparameters

MOMENTUM = "momentum_buffer"  # PyTorch's name of the velocity in an optimizer's state
BIASED = 4  # tensors of a layer with biases and without a projection


class SGD(torch.optim.SGD):
    """SGD with momentum, on the device for the layers of :class:`etalstm.nn.LSTM`, as PyTorch does it for all else.

    The host takes the same step in the machine's arithmetic, which gives the same bits. So parameters are always there
    to read, and a device does not load its weights again. A device does not take part where the gradients are not those
    of its last backward pass, as after ``clip_grad_norm_`` or with several passes added; then the host takes the step
    alone, and the device loads the weights before its next pass.

    A machine's layer has one bias, which does not decay. So a layer's ``bias_ih`` takes the sum of both, and
    ``bias_hh`` becomes zero; ``torch.optim.SGD`` would move both, and so their sum twice as far.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for every optimizer of PyTorch.
    lr, momentum, weight_decay : float

    Raises
    ------
    ValueError
        If a number is outside its range.
    """

    def __init__(self, params, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0):
        check_hyperparameters(lr, momentum, None, weight_decay)
        super().__init__(params, lr, momentum, weight_decay=weight_decay)

    def step(self, closure=None):
        """Take one step.

        Raises
        ------
        DivergedError
            If a gradient of a layer is not finite; no parameter has changed.
        DeviceError
            If a device fails; the message names it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        layers = list(self._layers())
        for layer in layers:
            layer.check()
        with torch.no_grad():
            for layer in layers:
                layer.step(self.state)
        self._step_others(layers)
        return loss

    def _step_others(self, layers: list["_Layer"]) -> None:
        done = [(tensor, tensor.grad) for layer in layers for tensor in layer.tensors]
        for tensor, _ in done:
            tensor.grad = None  # torch.optim.SGD passes over what has no gradient
        try:
            super().step()
        finally:
            for tensor, gradient in done:
                tensor.grad = gradient

    def _layers(self) -> Iterator["_Layer"]:
        """Give the layers all of whose parameters are in one group and have gradients."""
        group_of = {id(tensor): group for group in self.param_groups for tensor in group["params"]}
        seen = set()
        for module in living_modules():
            for tensors in module.layers():
                groups = [group_of.get(id(tensor)) for tensor in tensors]
                together = groups[0] is not None and all(group is groups[0] for group in groups)
                complete = len(tensors) == BIASED and all(tensor.grad is not None for tensor in tensors)
                if together and complete and tensors[0].dtype == torch.float32 and id(tensors[0]) not in seen:
                    seen.add(id(tensors[0]))
                    yield _Layer(module.engine, tensors, groups[0])


@dataclass(frozen=True)
class _Layer:
    """A layer of an :class:`etalstm.nn.LSTM` in an optimizer.

    Members
    -------
    engine : Engine
    tensors : 4 tensors
        w_ih, w_hh, b_ih, b_hh.
    group : dict
        The optimizer's.
    """

    engine: Engine
    tensors: tuple[Tensor, ...]
    group: dict

    def check(self) -> None:
        """Raise :class:`DivergedError` if a gradient is not finite."""
        for tensor in self.tensors:
            if not tensor.grad.isfinite().all():
                raise DivergedError(
                    "a gradient of an LSTM layer is not finite: training has diverged; nothing was updated"
                )

    def step(self, state: dict) -> None:
        """Take a step on the device and on the host; velocities are in the optimizer's state."""
        w_ih, w_hh, b_ih, b_hh = (tensor.detach() for tensor in self.tensors)
        before = w_ih.numpy(), w_hh.numpy(), (b_ih + b_hh).numpy()
        velocities = tuple(_velocity(state[tensor], tensor) for tensor in self.tensors[:3])
        gradients = tuple(tensor.grad.numpy() for tensor in self.tensors[:3])
        moved, speeds = self._moved(before, velocities, gradients)
        numbers = (float(self.group[name]) for name in ("lr", "momentum", "weight_decay"))
        if torch.equal(self.tensors[2].grad, self.tensors[3].grad):
            self.engine.update(LayerStep(before, gradients, moved, velocities, speeds, *numbers))
        for tensor, values, speed in zip(self.tensors[:3], moved, speeds, strict=True):
            tensor.copy_(torch.from_numpy(values))
            state[tensor][MOMENTUM] = torch.from_numpy(speed)
        b_hh.zero_()

    def _moved(self, values, velocities, gradients) -> tuple[tuple, tuple]:
        rule = UpdateRule(self.group["lr"], self.group["momentum"], self.group["weight_decay"], 1.0)
        decays = rule.weight_decay, rule.weight_decay, 0.0
        results = [descend(*of, rule, decay) for *of, decay in zip(values, velocities, gradients, decays, strict=True)]
        moved, speeds = zip(*results, strict=True)
        return moved, speeds


def _velocity(state: dict, tensor: Tensor) -> np.ndarray:
    velocity = state.get(MOMENTUM)  # PyTorch may have stored None
    return (torch.zeros_like(tensor) if velocity is None else velocity).numpy()
