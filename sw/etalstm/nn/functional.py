"""The replacement of ``torch._VF.lstm``: a whole network of layers and directions on an engine.

Dimensions: B sequences, T steps, I inputs, H units, L layers, D directions.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from etalstm.device import Device
from etalstm.network.delta_inputs import LayerThresholds
from etalstm.network.execution import Execution
from etalstm.network.storage import DENSE, check_threshold
from etalstm.nn.engine import Engine, engine_of
from etalstm.nn.operators import run_layer

STOCK = torch._VF.lstm


class InPlaceOfStock(TorchFunctionMode):
    """While active, other functions run where ``torch._VF.lstm`` is called. The checks of ``torch.nn.LSTM`` still run.

    `padded`, `packed`: for sequences of one length, and for the data of a ``PackedSequence``. They have the arguments
    and results of ``torch._VF.lstm``.
    """

    def __init__(self, padded: Callable, packed: Callable):
        super().__init__()
        self._padded, self._packed = padded, packed

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Run the function for these arguments in place of ``torch._VF.lstm``; run all other functions as they are."""
        if function is not STOCK:
            return function(*args, **(kwargs or {}))
        return (self._packed if isinstance(args[1], Tensor) else self._padded)(*args)


TENSORS = {False: 2, True: 4}  # of a layer and direction, without and with biases; one more with a projection


@dataclass(frozen=True)
class Settings:
    """How an engine runs a network.

    Raises ``ValueError`` if `delta_threshold` is negative or not finite, or above 0 and a layer is dense, which keeps δ
    whole.
    """

    engine: Engine
    execution: Execution
    delta_threshold: float = 0.0  # of gradients of the gates' sums, in the backward pass's products
    # of each layer's execution, or one for all: made here, as compilers cannot trace it
    texts: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if check_threshold("delta_threshold", self.delta_threshold) and DENSE in self.execution.storage.policies:
            raise ValueError(
                f"storage {DENSE} keeps δ whole: delta_threshold must be 0 with it, got {self.delta_threshold}"
            )
        object.__setattr__(self, "texts", tuple(self.execution.of_layers([n]).text for n in range(self._layers)))

    @property
    def _layers(self) -> int:
        """Number of layers if choices are given by layer; 1 if all layers are alike."""
        by_layer = self.execution.storage.policy, self.execution.delta_inputs.thresholds
        return max([1, *(len(choices) for choices in by_layer if isinstance(choices, tuple))])

    @classmethod
    def of(cls, engine, delta_threshold: float = 0.0, **choices) -> "Settings":
        """Make settings of the parameters of :class:`etalstm.nn.LSTM`."""
        return cls(engine_of(engine), Execution.read(**choices), delta_threshold)

    @property
    def arguments(self) -> dict:
        """The arguments, by name, of a module with the same settings."""
        execution = self.execution
        return {
            "engine": self.engine, "storage": execution.storage.policy, "theta": execution.storage.thresholds,
            "slices": execution.slices, "input_threshold": execution.delta_inputs.thresholds,
            "refresh": execution.delta_inputs.refresh, "delta_threshold": self.delta_threshold,
            "arithmetic": execution.arithmetic.name, "delta_bits": execution.arithmetic.delta_bits or None,
        }  # fmt: skip

    def of_layer(self, number: int) -> tuple[str, str, float]:
        """Give the last arguments of the operators, from the engine on."""
        return self.engine.key, self.texts[number if len(self.texts) > 1 else 0], self.delta_threshold


class OnEngine(InPlaceOfStock):
    """While active, ``torch._VF.lstm`` runs on an engine."""

    def __init__(self, settings: Settings):
        super().__init__(partial(run_padded, settings), partial(run_packed, settings))


def run_padded(settings, x, states, parameters, has_biases, layers, dropout, train, bidirectional, batch_first):
    """Run sequences of one length; parameters and result are those of ``torch._VF.lstm``."""
    is_empty = x.shape[0 if batch_first else 1] == 0
    if is_empty or _is_projected(parameters, has_biases, layers, bidirectional):
        return STOCK(x, states, parameters, has_biases, layers, dropout, train, bidirectional, batch_first)
    x = x.transpose(0, 1) if batch_first else x
    if x.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    dropout = dropout if train else 0.0
    y, h, c = _run(settings, x, None, states, parameters, has_biases, layers, dropout, bidirectional)
    return y.transpose(0, 1) if batch_first else y, h, c


def run_packed(settings, data, batch_sizes, states, parameters, has_biases, layers, dropout, train, bidirectional):
    """Run the sequences of a ``PackedSequence``; parameters and result are those of ``torch._VF.lstm``."""
    if _is_projected(parameters, has_biases, layers, bidirectional):
        return STOCK(data, batch_sizes, states, parameters, has_biases, layers, dropout, train, bidirectional)
    dropout = dropout if train else 0.0
    return _run(settings, data, batch_sizes, states, parameters, has_biases, layers, dropout, bidirectional)


def _is_projected(parameters: Sequence[Tensor], has_biases: bool, layers: int, bidirectional: bool) -> bool:
    projected = len(parameters) != TENSORS[has_biases] * layers * (1 + bidirectional)
    if projected:
        warnings.warn("an LSTM with proj_size runs on the host: no engine has a cell with a projection", stacklevel=3)
    return projected


def _run(settings, x, batch_sizes, states, parameters, has_biases, layers, dropout, bidirectional):
    settings.execution.check_layers(layers)
    cast = torch.is_autocast_enabled("cpu")
    if cast:
        x, *states = (tensor.float() for tensor in (x, *states))
        parameters = [tensor.float() for tensor in parameters]
    check_tensors(settings.engine, x, states, parameters)
    results = _run_layers(settings, x, batch_sizes, states, parameters, has_biases, layers, dropout, bidirectional)
    return tuple(tensor.to(torch.get_autocast_dtype("cpu")) for tensor in results) if cast else results


def _run_layers(settings, x, batch_sizes, states, parameters, has_biases, layers, dropout, bidirectional):
    directions, size = 1 + bidirectional, TENSORS[has_biases]
    h0, c0 = (_each(state) for state in states)
    last = []
    for layer in range(layers):
        how, outputs = settings.of_layer(layer), []
        for direction in range(directions):
            number = layer * directions + direction
            w_ih, w_hh, *biases = parameters[number * size : (number + 1) * size]
            b_ih, b_hh = biases or [w_ih.new_zeros(w_ih.shape[0])] * 2
            first = h0[number], c0[number]
            y, *state = run_layer(x, *first, w_ih, w_hh, b_ih, b_hh, batch_sizes, bool(direction), *how)
            outputs.append(y)
            last.append(state)
        x = _joined(outputs, dim=-1)
        x = torch.dropout(x, dropout, True) if dropout and layer + 1 < layers else x
    return x, *(_joined(states, dim=0) for states in zip(*last, strict=True))


def _each(states: Tensor) -> Sequence[Tensor]:
    """Give the state of each layer and direction, (1, B, H): no operation if there is one."""
    return states.split(1) if len(states) > 1 else [states]


def _joined(tensors: list[Tensor] | tuple[Tensor, ...], dim: int) -> Tensor:
    """Concatenate tensors: no operation if there is one."""
    return torch.cat(tensors, dim) if len(tensors) > 1 else tensors[0]


def check_tensors(engine: Engine, x: Tensor, states: Sequence[Tensor], parameters: Sequence[Tensor]) -> None:
    """Raise ``RuntimeError`` if a tensor is not on the host, ``ValueError`` if its dtype is not the engine's."""
    dtype = getattr(torch, engine.dtype.name)
    if all(tensor.is_cpu and tensor.dtype is dtype for tensor in (x, *states, *parameters)):
        return
    named = {"the input": x, "h0": states[0], "c0": states[1]}
    named |= {f"weight tensor {number}": tensor for number, tensor in enumerate(parameters)}
    for name, tensor in named.items():
        if tensor.device.type not in ("cpu", "meta"):
            raise RuntimeError(
                f"engine {engine.key!r} takes tensors of the host's memory, got {name} on {tensor.device}; "
                "move the module and its input with .cpu()"
            )
        if tensor.device != x.device:
            raise RuntimeError(f"{name} is on {tensor.device}, the input on {x.device}")
        if tensor.dtype is not dtype:
            raise ValueError(
                f"engine {engine.key!r} computes {engine.dtype}, got {name} in {tensor.dtype}; "
                f"convert it, or for half precision use torch.autocast('cpu')"
            )


def accelerate(
    engine: str | Device = "golden", storage: str | tuple[str, ...] | None = None,
    theta: float | tuple[float, ...] = 0.0, slices: int = 1,
    input_threshold: float | tuple[LayerThresholds, ...] = 0.0, refresh: int | None = None,
    delta_threshold: float = 0.0, arithmetic: str = "float32", delta_bits: int | None = None,
) -> OnEngine:  # fmt: skip
    """Run every ``torch.nn.LSTM`` inside a ``with`` statement on an engine. Arguments: see :class:`etalstm.nn.LSTM`.

    A backward pass may follow outside; it goes to the engine that ran the forward pass.

    Raises ``ValueError`` or ``TypeError`` if there is no such engine or storage, or a threshold is negative or not
    finite. Inside the statement, an LSTM raises ``ValueError`` if `storage` has policies, or `input_threshold` entries,
    for another number of layers.
    """
    choices: dict[str, Any] = {"storage": storage, "theta": theta, "slices": slices}
    choices |= {"input_threshold": input_threshold, "refresh": refresh}
    choices |= {"arithmetic": arithmetic, "delta_bits": delta_bits}
    return OnEngine(Settings.of(engine, delta_threshold, **choices))
