"""``torch.nn.LSTM`` on a device of this package."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from etalstm.device import Device
from etalstm.network.delta_inputs import LayerThresholds
from etalstm.nn.engine import Engine
from etalstm.nn.functional import OnEngine, Settings, run_padded
from etalstm.nn.transforms import is_watched

_MODULES: weakref.WeakSet["LSTM"] = weakref.WeakSet()


def living_modules() -> list["LSTM"]:
    """Give the modules of this process; an optimizer finds in them which parameters make up a layer."""
    return list(_MODULES)


class LSTM(torch.nn.LSTM):
    """``torch.nn.LSTM`` whose forward and backward pass an engine computes.

    Arguments, parameters, their names and initialisation, and the state dict are those of ``torch.nn.LSTM``. So are the
    checks of the input: its ``forward`` runs, and only the function that it calls at the end is replaced. Raises
    ``ValueError`` or ``TypeError`` as ``torch.nn.LSTM``, and if there is no such engine or storage, or a threshold is
    negative or not finite. Dense storage keeps δ whole: it has no `delta_threshold`.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        As of ``torch.nn.LSTM``.
    engine : str or Device
        A device's name (``golden``, ``sim``, ``xdma:0``) or an open device. A named device is opened when the module is
        first called. ``float64`` is ordinary mathematics without a device, for gradient checks.
    storage : str or tuple of str, optional
        How intermediates are stored, for all layers or each: see :class:`etalstm.network.storage.Storage`. Default:
        ``ms1`` with a `theta` above 0, else ``dense``.
    theta : float or tuple of six
        Threshold below which local gradients are dropped. Above 0 there are no gradients of gradients.
    slices : int
        Slices of the batch, whose gradients are added as a tree: see :mod:`etalstm.network.slices`. A batch of fewer
        sequences has as many slices as sequences.
    input_threshold : float, or tuple with an entry for each layer
        Θ of delta inputs: the forward pass broadcasts an element of x or h only if it has changed by Θ or more since it
        was last sent. An entry is a number or a pair, of x and of h. Both directions of a layer have the same. See
        :mod:`etalstm.network.delta_inputs`.
    refresh : int, optional
        Everything is sent at steps 0, R, 2R and so on; 0: at step 0 only. Default: 0 with an `input_threshold`, else 1,
        which sends everything at each step.
    delta_threshold : float
        Gradients of the gates' sums that are smaller than this count as zero in the backward pass's products. The
        attribute of that name may be set between iterations, see :class:`etalstm.train.control.ShareControl`.
        With it, and with delta inputs, there are no gradients of gradients.
    arithmetic : str
        How products are computed: ``float32``, ``int16`` or ``int8``, see :mod:`etalstm.network.arithmetic`. With
        integers every backward pass finds its exponents by itself, which takes two or three passes, and there are no
        gradients of gradients. On golden, ``int8`` also on a machine for integers.
    delta_bits : int, optional
        Bits of the gates' gradients with integers, 8 to 15. Default: 12 with ``int8``, 15 with ``int16``.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *, engine: str | Device = "golden",
        storage: str | tuple[str, ...] | None = None, theta: float | tuple[float, ...] = 0.0, slices: int = 1,
        input_threshold: float | tuple[LayerThresholds, ...] = 0.0, refresh: int | None = None,
        delta_threshold: float = 0.0, arithmetic: str = "float32", delta_bits: int | None = None,
    ):  # fmt: skip
        """Make the module; its arguments are explained with the class."""
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )
        how: dict[str, Any] = {"storage": storage, "theta": theta, "slices": slices}
        how |= {"input_threshold": input_threshold, "refresh": refresh}
        how |= {"arithmetic": arithmetic, "delta_bits": delta_bits}
        self._settings = Settings.of(engine, delta_threshold, **how)
        self._settings.execution.check_layers(self.num_layers)
        _MODULES.add(self)

    @property
    def engine(self) -> Engine:
        """The engine that computes the passes."""
        return self._settings.engine

    @property
    def delta_threshold(self) -> float:
        """Threshold of δ; a backward pass uses the one that was set at its forward pass."""
        return self._settings.delta_threshold

    @delta_threshold.setter
    def delta_threshold(self, value: float) -> None:
        self._settings = replace(self._settings, delta_threshold=value)

    def forward(self, input, hx=None):
        """Run forward as ``torch.nn.LSTM`` does, on the engine."""
        if hx is None and self._has_nothing_to_refuse(input):
            return self._run_from_zeros(input)
        with OnEngine(self._settings):
            return super().forward(input, hx)

    def _has_nothing_to_refuse(self, input) -> bool:
        """Tell whether the checks of ``torch.nn.LSTM``, 3 % of a pass, would pass and nothing watches them."""
        weight = self._flat_weights[0]
        return (
            type(input) is Tensor
            and weight is not None
            and input.dim() == 3
            and input.shape[2] == self.input_size
            and input.dtype is weight.dtype
            and not is_watched()
            and not self.proj_size
        )

    def _run_from_zeros(self, x: Tensor):
        self._update_flat_weights()
        shape = self.num_layers * (1 + self.bidirectional), x.shape[0 if self.batch_first else 1], self.hidden_size
        states = (torch.zeros(shape, dtype=x.dtype, device=x.device),) * 2
        y, *last = run_padded(
            self._settings, x, states, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
        return y, tuple(last)

    def layers(self) -> Iterator[tuple[Tensor, ...]]:
        """Give w_ih, w_hh and the biases of each layer and direction, in order."""
        for names in self._all_weights:
            yield tuple(getattr(self, name) for name in names)

    def __setstate__(self, state):
        super().__setstate__(state)
        _MODULES.add(self)

    def to_stock(self) -> torch.nn.LSTM:
        """Give a plain ``torch.nn.LSTM`` with copies of the parameters; it has no delta inputs."""
        first = next(self.parameters())
        stock = torch.nn.LSTM(
            self.input_size, self.hidden_size, self.num_layers, self.bias, self.batch_first, self.dropout,
            self.bidirectional, self.proj_size, device=first.device, dtype=first.dtype,
        )  # fmt: skip
        stock.load_state_dict(self.state_dict())
        return stock.train(self.training)
