"""An LSTM whose gates see their inputs through hidden layers, on a device of this package."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from etalstm.device import Device
from etalstm.network.shape import check_size
from etalstm.nn.call import HLSTMCall, Packing
from etalstm.nn.engine import Engine
from etalstm.nn.functional import Settings, check_tensors
from etalstm.nn.operators import packing_of
from etalstm.nn.transforms import Once, Transformable, is_transformed

HOW = 3  # arguments of a layer that are no tensors
_TENSORS = ("weight_ih", "weight_hh", "bias_hidden", "weight_gates", "bias_gates")


class HLSTM(nn.Module):
    """H-LSTM: the input of each gate goes through a hidden layer with ReLU, see :mod:`etalstm.network.cells.hlstm`.

    For n in i, f, g, o: ``v_n = relu(W_in x + W_hn h + a_n)``, and the gate n is σ, for g tanh, of ``W_n v_n + b_n``.
    Inputs, states and results are those of ``torch.nn.LSTM``. Engines give the same bits. There are no gradients of
    gradients.

    Raises ``ValueError`` or ``TypeError`` if a size, a probability, an engine or a storage is wrong.

    Parameters
    ----------
    input_size, hidden_size, num_layers, batch_first, dropout, device, dtype
        As of ``torch.nn.LSTM``. Hidden layers have `hidden_size` units. `dropout` is that between layers.
    engine, storage, theta, slices, arithmetic, delta_bits
        As of :class:`etalstm.nn.LSTM`; the engine is a device.

    Members
    -------
    weight_ih_l[k], weight_hh_l[k], bias_hidden_l[k] : Parameter, (4H, I), (4H, H), (4H,)
        Of the hidden layers of i, f, g, o in layer k.
    weight_gates_l[k], bias_gates_l[k] : Parameter, (4H, H), (4H,)
        Of the gates i, f, g, o, each with its own hidden layer.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, batch_first: bool = False,
        dropout: float = 0.0, device=None, dtype=None, *, engine: str | Device = "golden",
        storage: str | tuple[str, ...] | None = None, theta: float | tuple[float, ...] = 0.0, slices: int = 1,
        arithmetic: str = "float32", delta_bits: int | None = None,
    ):  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size = check_size("input_size", input_size), check_size("hidden_size", hidden_size)
        self.num_layers, self.batch_first = check_size("num_layers", num_layers), batch_first
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be 0 to 1, the share of elements between layers, got {dropout!r}")
        how: dict[str, Any] = {"storage": storage, "theta": theta, "slices": slices}
        how |= {"arithmetic": arithmetic, "delta_bits": delta_bits}
        self.dropout, self._settings = dropout, Settings.of(engine, **how)
        self._settings.execution.check_layers(self.num_layers)
        for layer in range(num_layers):
            rows, columns = 4 * hidden_size, hidden_size if layer else input_size
            sizes = (rows, columns), (rows, hidden_size), (rows,), (rows, hidden_size), (rows,)
            for name, size in zip(self.parameter_names(layer), sizes, strict=True):
                self.register_parameter(name, nn.Parameter(torch.empty(size, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def engine(self) -> Engine:
        """The engine that computes the passes."""
        return self._settings.engine

    @staticmethod
    def parameter_names(layer: int) -> list[str]:
        """Give the names of a layer's parameters."""
        return [f"{name}_l{layer}" for name in _TENSORS]

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly within ±1/sqrt(H), as ``torch.nn.LSTM`` does."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """Name the sizes."""
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"

    @torch.compiler.disable
    def forward(self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None):
        """Run the layers.

        Raises ``ValueError`` if a tensor has another shape or dtype.

        Parameters
        ----------
        input : Tensor (T, B, I), with `batch_first` (B, T, I), or PackedSequence
        hx : (h0, c0), Tensors (L, B, H), optional
            Initial states; default zeros.

        Returns
        -------
        output, (h, c)
            Those of the last layer, packed as the input is; and of all layers, (L, B, H).
        """
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        if input.dim() != 3:
            raise ValueError(f"the input must be (T, B, I) or (B, T, I), or packed, got shape {tuple(input.shape)}")
        x = input.transpose(0, 1) if self.batch_first else input
        y, states = self._run(x, None, self._states(x, x.shape[1], hx))
        return y.transpose(0, 1) if self.batch_first else y, states

    def _run_packed(self, packed: PackedSequence, hx):
        batch = int(packed.batch_sizes[0])
        states = self._states(packed.data, batch, hx)
        if hx is not None and packed.sorted_indices is not None:
            states = _in_order(states, packed.sorted_indices)
        y, states = self._run(packed.data, packing_of(packed.batch_sizes.numpy().tobytes()), states)
        if packed.unsorted_indices is not None:
            states = _in_order(states, packed.unsorted_indices)
        return packed._replace(data=y), states

    def _states(self, x: Tensor, batch: int, hx) -> tuple[Tensor, Tensor]:
        """Give the initial states, checked with the input."""
        if x.shape[-1] != self.input_size:
            raise ValueError(f"the input must have {self.input_size} elements for each step, got {x.shape[-1]}")
        if not x.numel():
            raise ValueError(f"the input must have at least one step and sequence, got shape {tuple(x.shape)}")
        expected = self.num_layers, batch, self.hidden_size
        states = hx if hx is not None else (x.new_zeros(expected), x.new_zeros(expected))
        for name, state in zip(("h0", "c0"), states, strict=True):
            if tuple(state.shape) != expected:
                raise ValueError(f"{name} must have shape {expected}, got {tuple(state.shape)}")
        check_tensors(self.engine, x, states, list(self.parameters()))
        return states

    def _run(self, x: Tensor, packing: Packing | None, states) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Run all layers on steps (T, B, I), or on packed ones."""
        last = []
        for layer, (h0, c0) in enumerate(zip(*states, strict=True)):
            weights = [getattr(self, name) for name in self.parameter_names(layer)]
            x, *state = _Layer.apply(self._settings, layer, packing, x, h0, c0, *weights)
            last.append(state)
            if self.training and self.dropout and layer + 1 < self.num_layers:
                x = torch.dropout(x, self.dropout, True)
        h, c = (torch.stack(states) for states in zip(*last, strict=True))
        return x, (h, c)


def _in_order(states: tuple[Tensor, Tensor], order: Tensor) -> tuple[Tensor, Tensor]:
    """Give the states of the sequences, (L, B, H), in another order."""
    h, c = states
    return h.index_select(1, order), c.index_select(1, order)


class _Layer(Transformable):
    """One layer on an engine. It takes settings, the layer's number, a packing or None, and tensors."""

    @staticmethod
    def forward(settings: Settings, layer: int, packing: Packing | None, *tensors: Tensor):
        y, h, c = settings.engine.forward(_call(settings, layer, packing, tensors))
        return _tensor(packing.pack(y) if packing else y), _tensor(h), _tensor(c)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.how = inputs[:HOW]
        # Under a transform the pass below has claimed it, or there is one for each entry of a batch.
        ctx.claim = None if is_transformed() else inputs[0].engine.claim()
        ctx.save_for_backward(*inputs[HOW:])

    @staticmethod
    def backward(ctx, dy, dh, dc):
        ctx.how[0].engine.use(ctx.claim)
        go_back = partial(_backward, *ctx.how)
        gradients = Once.apply("HLSTM", go_back, dy, dh, dc, *ctx.saved_tensors)
        ctx.claim = None
        return *(None,) * HOW, *gradients


def _backward(settings: Settings, layer: int, packing: Packing | None, dy, dh, dc, *tensors: Tensor):
    dy = packing.pad(dy.numpy()) if packing else dy.numpy()
    make_call = partial(_call, settings, layer, packing, tensors)
    dx, *others = settings.engine.backward(make_call, dy, dh.numpy(), dc.numpy())
    return _tensor(packing.pack(dx) if packing else dx), *map(_tensor, others)


def _call(settings: Settings, layer: int, packing: Packing | None, tensors: Sequence[Tensor]) -> HLSTMCall:
    x, h0, c0, *weights = (tensor.detach().numpy() for tensor in tensors)
    execution, lengths = settings.execution.of_layers([layer]), packing.lengths if packing else None
    return HLSTMCall(packing.pad(x) if packing else x, lengths, h0, c0, execution, *weights)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
