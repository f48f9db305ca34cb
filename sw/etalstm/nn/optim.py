"""An optimizer for PyTorch that updates the layers of :class:`etalstm.nn.LSTM` on their device."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from etalstm.errors import DivergedError
from etalstm.golden.fast.compiled import descend
from etalstm.network.update_rule import UpdateRule, check_hyperparameters
from etalstm.nn.call import LayerStep
from etalstm.nn.engine import Engine
from etalstm.nn.lstm import living_modules

MOMENTUM = "momentum_buffer"  # PyTorch's name of the velocity in an optimizer's state
BIASED = 4  # tensors of a layer with biases and without a projection
REFUSED = ("dampening", "nesterov", "maximize", "differentiable")  # options of torch.optim.SGD that no device has


class SGD(torch.optim.SGD):
    """SGD with momentum: on the device for the layers of :class:`etalstm.nn.LSTM`, PyTorch's for all other parameters.

    The host takes the same step in the machine's arithmetic, which gives the same bits. So parameters can always be
    read on the host, and a device does not load its weights again. If the gradients are not those of the device's last
    backward pass, as after ``clip_grad_norm_`` or if several passes were added, the host takes the step alone, and the
    device loads the weights before its next pass.

    A machine's layer has one bias, which does not decay. So a layer's ``bias_ih`` takes the sum of both, and
    ``bias_hh`` becomes zero; ``torch.optim.SGD`` would move both, and so their sum twice as far.

    Two kinds of layers take the step of ``torch.optim.SGD`` instead: a layer whose two biases have different gradients,
    as with a penalty on one of them; and a layer that shares a parameter with another layer.

    Raises ``ValueError`` if a number is outside its range, or a group sets ``dampening``, ``nesterov``, ``maximize`` or
    ``differentiable``.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for every optimizer of PyTorch.
    """

    def __init__(self, params, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0):
        check_hyperparameters(lr, momentum, None, weight_decay)
        super().__init__(params, lr, momentum, weight_decay=weight_decay)

    def add_param_group(self, param_group: dict) -> None:
        """Add a group; ``ValueError`` names an option that is refused, or a number outside its range."""
        _check_group({**self.defaults, **param_group})
        super().add_param_group(param_group)

    def step(self, closure=None):
        """Take one step. If it raises an error, no parameter has changed.

        Raises ``ValueError`` as the constructor, for the groups' current options; :class:`DivergedError` if a gradient
        of a layer is not finite; :class:`DeviceError`, naming the device, if one fails. Devices that have taken the
        step then load the weights again.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            _check_group(group)  # a loaded state or a scheduler may have changed it
        layers = list(self._layers())
        for layer in layers:
            layer.check()
        layers = [layer for layer in layers if layer.has_one_bias]
        with torch.no_grad():
            steps = [layer.step(self.state) for layer in layers]
            for layer, step in zip(layers, steps, strict=True):
                layer.engine.update(step)
            for layer, step in zip(layers, steps, strict=True):
                layer.apply(step, self.state)
        self._step_others(layers)
        return loss

    def _step_others(self, layers: list["_Layer"]) -> None:
        done = [(tensor, tensor.grad) for layer in layers for tensor in layer.tensors]
        for tensor, _ in done:
            tensor.grad = None  # torch.optim.SGD skips tensors without a gradient
        try:
            _stock_step()(self)
        finally:
            for tensor, gradient in done:
                tensor.grad = gradient

    def _layers(self) -> Iterator["_Layer"]:
        """Give the layers whose parameters are all in one group, have gradients and belong to no other layer."""
        group_of = {id(tensor): group for group in self.param_groups for tensor in group["params"]}
        layers = [(module.engine, tensors) for module in living_modules() for tensors in module.layers()]
        distinct = {tuple(map(id, tensors)): (engine, tensors) for engine, tensors in layers}
        uses = Counter(chain.from_iterable(distinct))
        for names, (engine, tensors) in distinct.items():
            group = group_of.get(names[0])
            if group is None or any(group_of.get(name) is not group or uses[name] > 1 for name in names):
                continue
            gradients = tuple(tensor.grad for tensor in tensors if tensor.grad is not None)
            if len(tensors) == len(gradients) == BIASED and tensors[0].dtype == torch.float32:
                yield _Layer(engine, tensors, gradients, group)


def _check_group(group: dict) -> None:
    for name in REFUSED:
        if group[name]:
            raise ValueError(f"{name} must not be set: no device has it, got {group[name]!r}")
    numbers = (group[name] for name in ("lr", "momentum", "weight_decay"))
    lr, momentum, weight_decay = (value.item() if isinstance(value, Tensor) else value for value in numbers)
    check_hyperparameters(lr, momentum, None, weight_decay)


def _stock_step():
    """Give the step of ``torch.optim.SGD`` without hooks, which the step that calls it has run already."""
    step = torch.optim.SGD.step
    wrapped = getattr(step, "__wrapped__", step)
    return wrapped if getattr(step, "hooked", False) else step  # hooked: PyTorch's mark of such a wrapper


@dataclass(frozen=True)
class _Layer:
    """A layer of an :class:`etalstm.nn.LSTM` in an optimizer."""

    engine: Engine
    # tensors, gradients: w_ih, w_hh, b_ih, b_hh, and their gradients
    tensors: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    group: dict  # the optimizer's

    def check(self) -> None:
        """Raise :class:`DivergedError` if a gradient is not finite."""
        for gradient in self.gradients:
            if not gradient.isfinite().all():
                raise DivergedError(
                    "a gradient of an LSTM layer is not finite: training has diverged; nothing was updated"
                )

    @property
    def has_one_bias(self) -> bool:
        """Whether both biases have the same gradient, so that the machine's one bias can represent them."""
        return torch.equal(*self.gradients[2:])

    def step(self, state: dict) -> LayerStep:
        """Give the step for device and host; velocities are in the optimizer's state."""
        w_ih, w_hh, b_ih, b_hh = (tensor.detach() for tensor in self.tensors)
        before = w_ih.numpy(), w_hh.numpy(), (b_ih + b_hh).numpy()
        velocities = self._velocities(state)
        gradients = tuple(gradient.numpy() for gradient in self.gradients[:3])
        moved, new_velocities = self._descend(before, velocities, gradients)
        numbers = (float(self.group[name]) for name in ("lr", "momentum", "weight_decay"))
        return LayerStep(before, gradients, moved, velocities, new_velocities, *numbers)

    def apply(self, step: LayerStep, state: dict) -> None:
        """Write the results of a step to the host's tensors and to the optimizer's state."""
        for tensor, values, velocity in zip(self.tensors[:3], step.new_weights, step.new_velocities, strict=True):
            tensor.copy_(torch.from_numpy(values))
            state[tensor][MOMENTUM] = torch.from_numpy(velocity)
        b_hh = self.tensors[3]
        b_hh.zero_()
        state[b_hh].pop(MOMENTUM, None)

    def _velocities(self, state: dict) -> tuple[np.ndarray, ...]:
        """Give the velocities of w_ih, w_hh and the one bias, whose velocity is the sum of both biases'."""
        *velocities, b_ih, b_hh = (state[tensor].get(MOMENTUM) for tensor in self.tensors)
        velocities.append(b_ih if b_hh is None else b_hh if b_ih is None else b_ih + b_hh)
        pairs = zip(velocities, self.tensors, strict=False)
        return tuple((torch.zeros_like(tensor) if v is None else v).detach().numpy() for v, tensor in pairs)

    def _descend(self, values, velocities, gradients) -> tuple[tuple, tuple]:
        """Give the new weights and the new velocities."""
        rule = UpdateRule(self.group["lr"], self.group["momentum"], self.group["weight_decay"], np.float32(1))
        decays = rule.weight_decay, rule.weight_decay, 0.0
        arrays = zip(values, velocities, gradients, decays, strict=True)
        results = [descend(value, velocity, gradient, rule, decay) for value, velocity, gradient, decay in arrays]
        moved, new_velocities = zip(*results, strict=True)
        return moved, new_velocities
