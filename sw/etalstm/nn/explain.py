"""What is done with a model on a device, and what that saves: found by running the model once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from etalstm.network.shape import GATES
from etalstm.network.storage import Usage
from etalstm.nn.hlstm import HLSTM
from etalstm.nn.lstm import LSTM
from etalstm.nn.notes import Begun, LayoutNote, PassNote, taking
from etalstm.nn.recompute import MapsNote

_LAYERS = ("layer", "device", "T × B", "I → H", "storage", "slices", "groups", "memory", "padding", "kept", "products")
_MAPS = ("function", "calls", "maps", "bytes", "FLOPs")
_LAYOUTS = ("product in PyTorch", "sequences", "steps", "layout")
ABOUT = (
    "groups: of channels, as many as the cycle model finds fastest. memory: bytes of the machine.",
    "padding: share of the steps, which are not computed. kept: bytes kept for the backward pass, and their share of",
    "five dense tensors. products: multiplications, and their share of what a machine does that skips none.",
)
ABOUT_MAPS = "bytes: of the maps, in all calls of a row; FLOPs: of computing them once, in those of a matrix product."
ABOUT_LAYOUTS = (
    "layout: the forced one, else the one that was faster here; batch-major with unequal numbers of sequences."
)


@dataclass(frozen=True)
class Explanation:
    """What was done in one forward and backward pass of a model. As text, it is a table."""

    # each layer and direction that ran on a device, in the order of the forward pass, with the
    # module's name; empty for one that was called without a module
    layers: list[tuple[str, PassNote]]
    maps: list[MapsNote]  # each function whose maps could be computed again, in the order of the calls
    # consecutive steps of each layer of :mod:`etalstm.research.reduced`, in the order of the forward pass
    layouts: list[LayoutNote]

    def __str__(self) -> str:
        parts = []
        if self.layers:
            parts += [*_table(_LAYERS, [_layer_row(name, done) for name, done in self.layers]), *ABOUT]
        if self.maps:
            rows = groupby(self.maps, key=lambda made: (made.function, made.again, made.cost is None))
            parts += [*_table(_MAPS, [_maps_row(list(calls)) for _, calls in rows]), ABOUT_MAPS]
        if self.layouts:
            parts += [*_table(_LAYOUTS, list(map(_layout_row, self.layouts))), ABOUT_LAYOUTS]
        return "\n".join(parts or ["nothing of this model runs on a device, and no maps are computed again"])


def explain(module: nn.Module, *inputs: Tensor | tuple[int, ...], **named) -> Explanation:
    """Run a model forward and backward once, and tell what was done.

    Parameters, their gradients, buffers and PyTorch's generators are afterwards as they were. Raises ``TypeError`` if
    `module` is no module; ``ValueError`` if nothing that the model gives depends on its parameters or inputs by a
    gradient; :class:`DeviceError` if a device fails.

    Parameters
    ----------
    inputs : Tensors, anything else that the model takes, or shapes
        In the place of a tuple of integers comes a tensor of that shape, of normal random numbers, on the device of the
        model's first parameter.
    named
        Further arguments of the model, as they are.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    listener, places = _Listener(module), [parameter.device for parameter in module.parameters()]
    gpus = {place for place in places if place.type == "cuda"}
    with torch.random.fork_rng(devices=gpus), _kept_as_they_are(module), torch.enable_grad():
        given = [_given(one, places[0] if places else None) for one in inputs]
        with listener.listening():
            found = [tensor for tensor in _tensors(module(*given, **named)) if tensor.requires_grad]
            if not found:
                raise ValueError("the model gives no tensor with a gradient: there is no backward pass to explain")
            first, *others = (tensor.sum() for tensor in found)
            total = sum(others, first)
            leaves = [one for one in (*module.parameters(), *_tensors((given, named))) if one.requires_grad]
            torch.autograd.grad(total, leaves, allow_unused=True)
    return Explanation(listener.layers(), listener.maps, listener.layouts)


class _Listener:
    """Takes notes, and knows which module runs."""

    def __init__(self, module: nn.Module):
        self._modules = {name: one for name, one in module.named_modules() if isinstance(one, (LSTM, HLSTM))}
        self._name = ""
        self._forward: list[tuple[str, Begun]] = []
        self._backward: dict[Begun, PassNote] = {}
        self.maps: list[MapsNote] = []
        self.layouts: list[LayoutNote] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the notes of a forward and a backward pass."""
        hooks = []
        for name, one in self._modules.items():
            hooks.append(one.register_forward_pre_hook(lambda *_, name=name: self._enter(name)))
            hooks.append(one.register_forward_hook(lambda *_: self._enter("")))
        try:
            with taking(self._take):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def layers(self) -> list[tuple[str, PassNote]]:
        """Give the passes that went both ways, in the order of the forward pass."""
        return [(name, self._backward[begun]) for name, begun in self._forward if begun in self._backward]

    def _enter(self, name: str) -> None:
        self._name = name

    def _take(self, made: object) -> None:
        if isinstance(made, MapsNote):
            self.maps.append(made)
        elif isinstance(made, LayoutNote):
            self.layouts.append(made)
        elif isinstance(made, PassNote):
            self._backward[made.begun] = made
        elif isinstance(made, Begun):
            self._forward.append((self._name, made))


@contextmanager
def _kept_as_they_are(module: nn.Module) -> Iterator[None]:
    """Put buffers back afterwards: statistics of a batch are learned in a forward pass."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _given(one, device: torch.device | None):
    is_shape = isinstance(one, tuple) and bool(one) and all(type(size) is int for size in one)
    return torch.randn(one, device=device) if is_shape else one


def _tensors(found) -> Iterator[Tensor]:
    """Give the tensors in what a model takes or gives, however they are wrapped."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, dict):
        yield from _tensors(list(found.values()))
    elif isinstance(found, (tuple, list)):  # a packed sequence is a tuple
        for one in found:
            yield from _tensors(one)


def _layer_row(name: str, done: PassNote) -> tuple[str, ...]:
    shape, layer = done.shape, done.shape.network
    machine = ("-", "-") if done.groups is None else (str(done.groups), f"{done.memory_bytes:,}")
    return (
        name or "-", done.device, f"{done.steps} × {shape.batch}", f"{layer.input_size} → {layer.hidden_size}",
        shape.execution.storage.layer(0).policy, str(shape.execution.slices), *machine, *_saved(done.usage),
    )  # fmt: skip


def _saved(usage: Usage | None) -> tuple[str, ...]:
    if usage is None:
        return "-", "-", "-"
    padding = 1 - usage.real / max(1, usage.elements)
    kept, products = f"{4 * usage.words:,} ({usage.footprint:.0%})", f"{usage.products:,} ({usage.arithmetic:.0%})"
    return f"{padding:.1%}", kept, products


def _maps_row(calls: list[MapsNote]) -> tuple[str, ...]:
    """Make a row of consecutive calls of a function, as attention calls it for each group of sentences."""
    function, costs = calls[0].function, [made.cost for made in calls if made.cost is not None]
    numbers = ("-", "-")
    if len(costs) == len(calls):
        numbers = f"{sum(cost.kept_bytes for cost in costs):,}", f"{sum(cost.repeated_flops for cost in costs):,.0f}"
    return function, str(len(calls)), "computed again" if calls[0].again else "kept", *numbers


def _layout_row(made: LayoutNote) -> tuple[str, ...]:
    return f"{GATES * made.units} x {made.units}", str(made.batch), str(made.steps), made.layout


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
