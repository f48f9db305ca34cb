"""Partial forward propagation: maps inside a function are not kept for the backward pass, but computed again there.

Attention has small inputs, a small result and large maps between them. Keeping its inputs costs little; the maps are
computed again in the backward pass. Source: EcoRNN (Zheng et al. 2018).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from etalstm.nn.notes import note

AUTO, ON, OFF = "auto", "on", "off"
MODES = (AUTO, ON, OFF)

# The rule: maps are computed again if that takes at most WORTH times as long as their bytes take to memory and back.
WORTH = 4.0  # chosen: memory limits the batch


@dataclass(frozen=True)
class Rule:
    """Numbers of a device for the rule."""

    least_bytes: int  # fewer bytes are kept
    # operations of a matrix product in the time of a byte's way to memory and back, as ``eta-lstm research attention``
    # measures it
    flops_per_byte: float


HOST_RULE = Rule(1 << 20, 2.0)  # fewer bytes fit a cache, and are no problem for the memory
GPU_RULE = Rule(1 << 27, 27.0)  # fewer bytes are computed faster than the host can start the kernels


@dataclass(frozen=True)
class Cost:
    """The cost of a function's maps, for the rule that decides whether they are kept."""

    kept_bytes: int  # bytes that the graph would keep between the passes, without the function's inputs and result
    # operations of the function's forward pass, which would be done twice, in operations of a matrix product: slower
    # operations count for more
    repeated_flops: float

    def pays(self, device: torch.device) -> bool:
        """Tell whether recomputing pays on a device: the bytes are many, and each takes few operations."""
        rule = rule_of(device)
        return (
            self.kept_bytes >= rule.least_bytes and self.repeated_flops <= WORTH * rule.flops_per_byte * self.kept_bytes
        )


@dataclass(frozen=True)
class MapsNote:
    """A call of a function whose maps need not be kept."""

    function: str  # its name
    again: bool  # the maps are computed again in the backward pass, and not kept
    cost: Cost | None


def rule_of(device: torch.device) -> Rule:
    """Give the rule for tensors on a device of PyTorch."""
    return GPU_RULE if device.type == "cuda" else HOST_RULE


def decided(mode: str, cost: Cost | None, device: torch.device) -> str:
    """Give ``on`` or ``off``: the mode, or if it is ``auto`` the rule's decision; without a cost, ``off``."""
    if check_mode(mode) != AUTO:
        return mode
    return ON if cost is not None and cost.pays(device) else OFF


def check_mode(mode: str) -> str:
    """Give a mode, or raise ``ValueError`` if there is no such mode."""
    if mode not in MODES:
        raise ValueError(f"recompute must be one of {', '.join(MODES)}, got {mode!r}")
    return mode


def recompute(function: Callable[..., Tensor], *inputs: Tensor, mode: str = AUTO, cost: Cost | None = None) -> Tensor:
    """Call a function of tensors; in the backward pass it is called again, if that is cheaper than keeping its maps.

    Results have the same bits as if the maps were kept. So have gradients, with one exception: if the function uses an
    input more than once and others use it too, PyTorch adds the terms of its gradient in another order. A function that
    draws random numbers draws the same ones the second time.

    The function gives one tensor. It takes every tensor that needs a gradient as an argument, and changes nothing but
    its result. With the mode ``on`` it is always called again, with ``off`` the maps are kept. With ``auto`` it is
    called again if ``cost.pays`` on the device of the first input; without a cost, the maps are kept.

    Raises ``ValueError`` if there is no such mode; ``TypeError`` if an input is no tensor; ``RuntimeError`` in the
    backward pass, if the function read a tensor that needs a gradient and was no argument; ``NotImplementedError`` in
    the backward pass, if it is to be differentiated itself.
    """
    for number, given in enumerate(inputs, 1):
        if not isinstance(given, Tensor):
            raise TypeError(f"recompute: inputs must be tensors, got {type(given).__name__} as number {number}")
    again = decided(mode, cost, inputs[0].device if inputs else torch.device("cpu")) == ON
    note(lambda: MapsNote(getattr(function, "__name__", type(function).__name__), again, cost))
    if not again or not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in inputs):
        return function(*inputs)
    return _Recomputed.apply(function, *inputs)


class _Recomputed(torch.autograd.Function):
    """Keeps the inputs of a function, and runs it again before its backward pass."""

    @staticmethod
    def forward(ctx, function, *inputs):
        ctx.function, ctx.surroundings = function, _Surroundings.now(inputs)
        ctx.save_for_backward(*inputs)
        result = function(*inputs)
        ctx.surroundings.forget_unused()
        return result

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():  # with create_graph=True
            raise NotImplementedError("recompute: gradients of gradients need the maps; use the mode 'off'")
        inputs = [tensor.detach() for tensor in ctx.saved_tensors]
        wanted = [tensor for tensor, needed in zip(inputs, ctx.needs_input_grad[1:], strict=True) if needed]
        for tensor in wanted:
            tensor.requires_grad_()
        with torch.enable_grad(), ctx.surroundings.restored():
            result = ctx.function(*inputs)
        if not result.requires_grad:
            return None, *(None for _ in inputs)
        _check_leaves(result, wanted)
        found = iter(torch.autograd.grad(result, wanted, gradient, allow_unused=True))
        return None, *(next(found) if needed else None for needed in ctx.needs_input_grad[1:])


class _Surroundings:
    """States besides its inputs that a function's result depends on: random generators, and autocast."""

    def __init__(self, generators: dict[torch.device | None, Tensor], autocast: dict[str, tuple[bool, torch.dtype]]):
        self._generators, self._autocast = generators, autocast

    @classmethod
    def now(cls, inputs: Sequence[Tensor]) -> "_Surroundings":
        """Read the current states, of the host and of the inputs' devices."""
        devices = {tensor.device for tensor in inputs if tensor.is_cuda}
        kinds = {"cpu", *(tensor.device.type for tensor in inputs)}
        autocast = {kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds}
        return cls({device: _state(device) for device in (None, *devices)}, autocast)

    def forget_unused(self) -> None:
        """Drop the states of generators that have drawn nothing since :meth:`now`."""
        moved = [device for device, state in self._generators.items() if not torch.equal(state, _state(device))]
        self._generators = {device: self._generators[device] for device in moved}

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Context in which the states are those of :meth:`now`; at its end they are what they were before."""
        before = {device: _state(device) for device in self._generators}
        with ExitStack() as stack:
            for kind, (enabled, dtype) in self._autocast.items():
                stack.enter_context(torch.autocast(kind, dtype, enabled))
            try:
                _restore(self._generators)
                yield
            finally:
                _restore(before)


def _state(device: torch.device | None) -> Tensor:
    return torch.get_rng_state() if device is None else torch.cuda.get_rng_state(device)


def _restore(states: dict[torch.device | None, Tensor]) -> None:
    for device, state in states.items():
        if device is None:
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def _check_leaves(result: Tensor, inputs: Sequence[Tensor]) -> None:
    """Raise ``RuntimeError`` if a result depends on a tensor that needs a gradient and is none of the inputs."""
    known = {id(tensor) for tensor in inputs}
    nodes, seen = [result.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            raise RuntimeError(
                f"recompute: the function read a tensor of shape {tuple(leaf.shape)} that needs a gradient and is none "
                "of its arguments; pass the tensor as an argument"
            )
        nodes += [following for following, _ in node.next_functions]
