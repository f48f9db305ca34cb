"""How a model runs on a device, and what that saves: found by running the model once."""

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
from etalstm.nn.notes import ForwardNote, LayoutNote, PassNote, taking
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
    """How one forward and backward pass of a model ran. As text, it is a table."""

    # each layer and direction that ran on a device, in the order of the forward pass, with the
    # module's name, or an empty name if it was called without a module
    layers: list[tuple[str, PassNote]]
    maps: list[MapsNote]  # each function whose maps could be computed again, in the order of the calls
    # consecutive steps of each layer of :mod:`etalstm.research.reduced`, in the order of the forward pass
    layouts: list[LayoutNote]

    def __str__(self) -> str:
        lines = []
        if self.layers:
            lines += [*_table(_LAYERS, [_layer_row(name, note) for name, note in self.layers]), *ABOUT]
        if self.maps:
            rows = groupby(self.maps, key=lambda note: (note.function, note.again, note.cost is None))
            lines += [*_table(_MAPS, [_maps_row(list(calls)) for _, calls in rows]), ABOUT_MAPS]
        if self.layouts:
            lines += [*_table(_LAYOUTS, list(map(_layout_row, self.layouts))), ABOUT_LAYOUTS]
        return "\n".join(lines or ["nothing of this model runs on a device, and no maps are computed again"])


def explain(module: nn.Module, *inputs: Tensor | tuple[int, ...], **named) -> Explanation:
    """Run a model forward and backward once, and give how each layer ran.

    Parameters, their gradients, buffers and PyTorch's generators do not change. Raises ``TypeError`` if `module` is no
    module; ``ValueError`` if no output of the model has a gradient; :class:`DeviceError` if a device fails.

    Parameters
    ----------
    inputs : Tensors, anything else that the model takes, or shapes
        A tuple of integers is replaced by a tensor of that shape, of normal random numbers, on the device of the
        model's first parameter.
    named
        Further arguments of the model, as they are.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    listener, devices = _Listener(module), [parameter.device for parameter in module.parameters()]
    gpus = {device for device in devices if device.type == "cuda"}
    with torch.random.fork_rng(devices=gpus), _restored_buffers(module), torch.enable_grad():
        given = [_input(value, devices[0] if devices else None) for value in inputs]
        with listener.listening():
            found = [tensor for tensor in _tensors(module(*given, **named)) if tensor.requires_grad]
            if not found:
                raise ValueError("the model gives no tensor with a gradient: there is no backward pass to explain")
            first, *others = (tensor.sum() for tensor in found)
            total = sum(others, first)
            leaves = [leaf for leaf in (*module.parameters(), *_tensors((given, named))) if leaf.requires_grad]
            torch.autograd.grad(total, leaves, allow_unused=True)
    return Explanation(listener.layers(), listener.maps, listener.layouts)


class _Listener:
    """Collects notes, and the name of the module that each note is of."""

    def __init__(self, module: nn.Module):
        self._modules = {name: inner for name, inner in module.named_modules() if isinstance(inner, (LSTM, HLSTM))}
        self._name = ""
        self._forward: list[tuple[str, ForwardNote]] = []
        self._backward: dict[ForwardNote, PassNote] = {}
        self.maps: list[MapsNote] = []
        self.layouts: list[LayoutNote] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Collect the notes of a forward and a backward pass."""
        hooks = []
        for name, module in self._modules.items():
            hooks.append(module.register_forward_pre_hook(lambda *_, name=name: self._enter(name)))
            hooks.append(module.register_forward_hook(lambda *_: self._enter("")))
        try:
            with taking(self._add):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def layers(self) -> list[tuple[str, PassNote]]:
        """Give the notes of passes that ran forward and backward, in the order of the forward pass."""
        return [(name, self._backward[forward]) for name, forward in self._forward if forward in self._backward]

    def _enter(self, name: str) -> None:
        self._name = name

    def _add(self, note: object) -> None:
        if isinstance(note, MapsNote):
            self.maps.append(note)
        elif isinstance(note, LayoutNote):
            self.layouts.append(note)
        elif isinstance(note, PassNote):
            self._backward[note.forward] = note
        elif isinstance(note, ForwardNote):
            self._forward.append((self._name, note))


@contextmanager
def _restored_buffers(module: nn.Module) -> Iterator[None]:
    """Context that restores buffers at its end: a forward pass changes statistics of batches."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _input(value, device: torch.device | None):
    is_shape = isinstance(value, tuple) and bool(value) and all(type(size) is int for size in value)
    return torch.randn(value, device=device) if is_shape else value


def _tensors(value) -> Iterator[Tensor]:
    """Give the tensors in an input or output of a model, also those in dicts, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (tuple, list)):  # a packed sequence is a tuple
        for inner in value:
            yield from _tensors(inner)


def _layer_row(name: str, note: PassNote) -> tuple[str, ...]:
    shape, layer = note.shape, note.shape.network
    machine = ("-", "-") if note.groups is None else (str(note.groups), f"{note.memory_bytes:,}")
    return (
        name or "-", note.device, f"{note.steps} × {shape.batch}", f"{layer.input_size} → {layer.hidden_size}",
        shape.execution.storage.layer(0).policy, str(shape.execution.slices), *machine, *_saved(note.usage),
    )  # fmt: skip


def _saved(usage: Usage | None) -> tuple[str, ...]:
    if usage is None:
        return "-", "-", "-"
    padding = 1 - usage.real / max(1, usage.elements)
    kept, products = f"{4 * usage.words:,} ({usage.footprint:.0%})", f"{usage.products:,} ({usage.multiplications:.0%})"
    return f"{padding:.1%}", kept, products


def _maps_row(calls: list[MapsNote]) -> tuple[str, ...]:
    """Make a row of consecutive calls of a function, as attention calls it for several sets of sentences."""
    function, costs = calls[0].function, [note.cost for note in calls if note.cost is not None]
    numbers = ("-", "-")
    if len(costs) == len(calls):
        numbers = f"{sum(cost.kept_bytes for cost in costs):,}", f"{sum(cost.repeated_flops for cost in costs):,.0f}"
    return function, str(len(calls)), "computed again" if calls[0].again else "kept", *numbers


def _layout_row(note: LayoutNote) -> tuple[str, ...]:
    return f"{GATES * note.units} x {note.units}", str(note.batch), str(note.steps), note.layout


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
