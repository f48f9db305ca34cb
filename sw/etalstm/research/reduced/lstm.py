"""``torch.nn.LSTM`` with the two memory savings.

Dimensions: B sequences, T steps, L layers.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from etalstm.network.shape import GATES
from etalstm.network.storage import Storage
from etalstm.nn.functional import STOCK, InPlaceOfStock
from etalstm.nn.notes import LayoutNote, note
from etalstm.nn.torch_device import waited_for
from etalstm.research.layouts import Shape, chosen_layout, forced
from etalstm.research.reduced.arrangement import Matrix, Plan
from etalstm.research.reduced.layer import run_layer, run_steps

STEPS = 2  # of the layer that is timed: the second one reads what the first one has written


def layout_of(w_hh: Tensor, batch: int) -> str:
    """Give the layout in which steps of `batch` sequences are faster, forward and backward, on the device of `w_hh`
    (4H, H).
    """
    rows, columns = w_hh.shape
    shape = Shape(rows, columns, batch, w_hh.dtype, w_hh.device)
    return chosen_layout(shape, partial(steps_of, shape))


def steps_of(shape: Shape, layout: str | None = None) -> Callable[[], object]:
    """Make a call that goes through ``STEPS`` steps of a layer, forward and backward; without a layout, the layer
    chooses.

    The layer has one input, and its weights have no gradients. So the call times the recurrent products, the
    element-wise functions between them, and the copies that a layout needs. `shape` is the recurrent product's: 4H, H,
    B.
    """
    units = shape.inputs

    def filled(value: float, *size: int) -> Tensor:
        return torch.full(size, value, dtype=shape.dtype, device=shape.device)

    w_ih, w_hh = filled(0, GATES * units, 1), Matrix(filled(1 / units, GATES * units, units))
    x, state = filled(0, STEPS * shape.batch, 1), filled(1, shape.batch, units)

    def work() -> None:
        plan = Plan((shape.batch,) * STEPS, (False,) * STEPS, partial(layout_of, w_hh.given))
        run_steps(x, (state, state), w_ih, w_hh, plan)

    if layout is None:
        return waited_for(work, shape.device)

    def in_layout() -> None:
        with forced(layout):
            work()

    return waited_for(in_layout, shape.device)


REFUSED = {"bidirectional": False, "proj_size": 0}  # with the only value that is taken
DTYPES = (torch.float32, torch.float64)


class LSTM(torch.nn.LSTM):
    """``torch.nn.LSTM`` that stores few intermediates, and skips cells in its backward pass.

    Parameters, their names and initialisation, the state dict, and the checks of the input are those of
    ``torch.nn.LSTM``. The module runs on any device that PyTorch has. There are no gradients of gradients.

    Arguments are those of ``torch.nn.LSTM``, except ``bidirectional`` and ``proj_size``. `storage` says how
    intermediates are stored, for all layers or each: see :mod:`etalstm.network.storage`. Default: ``ms1`` with a
    `theta` above 0, else ``dense``. Local gradients below `theta`, one number or six, are dropped. For `skip` see the
    member of that name. With `measure` set the next passes measure every cell, for
    :meth:`etalstm.train.significance.Significance.measure`.

    Raises ``ValueError`` or ``TypeError`` as ``torch.nn.LSTM``; if it is to be bidirectional or to have a projection;
    if there is no such storage.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        storage: str | tuple[str, ...] | None = None, theta: float | tuple[float, ...] = 0.0,
        skip: np.ndarray | None = None,
    ):  # fmt: skip
        """Make the module; its arguments are explained with the class."""
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )
        for name, only in REFUSED.items():
            if getattr(self, name) != only:
                raise ValueError(f"{name} of a reduced LSTM must be {only}, got {getattr(self, name)}")
        self._storage, self._theta = Storage.of(storage, theta), theta
        self._storage.check_layers(self.num_layers)
        self.skip = skip
        self.measure = False
        self._norms: list[tuple[Plan, Tensor]] = []

    @property
    def skip(self) -> np.ndarray | None:
        """Cells that keep nothing and have no backward pass: bool, (L, T), or None to skip none.

        It may be set before each forward pass, to what :meth:`etalstm.train.significance.Significance.plan` gives. No
        gradient passes a skipped cell: those that reach it are dropped, also those of the h and c that the network
        gives, and its input's is zero. That holds for shorter sequences of a packed batch too, which ended before.
        """
        return self._skip

    @skip.setter
    def skip(self, cells: np.ndarray | None) -> None:
        try:
            cells = None if cells is None else np.array(cells)
        except ValueError:  # rows of unequal lengths
            cells = np.array(cells, object)
        if cells is not None and (cells.dtype != bool or cells.ndim != 2 or len(cells) != self.num_layers):
            raise ValueError(
                f"skip must be None or bool, one row of steps for each of {self.num_layers} layers, "
                f"got {cells.dtype} of shape {cells.shape}"
            )
        self._skip = cells

    def contributions(self) -> np.ndarray:
        """Give what each cell of the last measured pass added to the norm of its layer's weight gradient.

        It is float64, (L, T, B): ‖δ‖·‖xh‖ of each sequence, in the order of a packed batch; 0 at padding, at skipped
        cells, and where no gradient has come. ``RuntimeError`` if no forward pass was measured.
        """
        if not self._norms:
            raise RuntimeError("no forward pass was measured: set measure to True before it")
        plan, norms = self._norms[0][0], [norms.double().cpu() for _, norms in self._norms]
        found = np.zeros((self.num_layers, len(plan.sizes), plan.sizes[0]))
        for layer, rows in enumerate(norms):
            for step, size in enumerate(plan.sizes):
                found[layer, step, :size] = rows[plan.rows(step)]
        return found

    def forward(self, input, hx=None):
        """Run the network as ``torch.nn.LSTM`` does, but store less."""
        with InPlaceOfStock(self._padded, self._packed):
            return super().forward(input, hx)

    def extra_repr(self) -> str:
        """Describe the module's arguments."""
        return f"{super().extra_repr()}, storage={self._storage.policy!r}, theta={self._theta}"

    def _padded(self, x, states, parameters, has_biases, layers, dropout, train, bidirectional, batch_first):
        if x.shape[0 if batch_first else 1] == 0:
            return STOCK(x, states, parameters, has_biases, layers, dropout, train, bidirectional, batch_first)
        x = x.transpose(0, 1) if batch_first else x
        if x.shape[0] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        sizes = (x.shape[1],) * x.shape[0]
        y, h, c = self._run(x.flatten(0, 1), sizes, states, parameters, dropout if train else 0.0)
        y = y.unflatten(0, (len(sizes), -1))
        return y.transpose(0, 1) if batch_first else y, h, c

    def _packed(self, data, batch_sizes, states, parameters, has_biases, layers, dropout, train, bidirectional):
        return self._run(data, tuple(batch_sizes.tolist()), states, parameters, dropout if train else 0.0)

    def _run(self, x, sizes, states, parameters, dropout) -> tuple[Tensor, Tensor, Tensor]:
        """Run all layers in float32 where autocast is on, and cast the results as it says."""
        device = x.device.type
        if not torch.is_autocast_enabled(device):
            _check_dtype(x.dtype)
            return self._layers(x, sizes, states, parameters, dropout)
        with torch.autocast(device, enabled=False):
            states, parameters = ([tensor.float() for tensor in tensors] for tensors in (states, parameters))
            y, h, c = self._layers(x.float(), sizes, states, parameters, dropout)
        dtype = torch.get_autocast_dtype(device)
        return y.to(dtype), h.to(dtype), c.to(dtype)

    def _layers(self, x, sizes, states, parameters, dropout) -> tuple[Tensor, Tensor, Tensor]:
        """Run all layers; x is (R, I), see :mod:`etalstm.research.reduced.arrangement`."""
        per_layer = len(parameters) // self.num_layers
        last, self._norms = [], []
        for layer in range(self.num_layers):
            w_ih, w_hh, *biases = parameters[layer * per_layer : (layer + 1) * per_layer]
            bias = biases[0] + biases[1] if biases else None
            plan, norms = Plan(sizes, self._skipped(layer, len(sizes)), partial(layout_of, w_hh)), None
            _note_layouts(plan, self.hidden_size)
            if self.measure:
                norms = x.new_zeros(len(x))
                self._norms.append((plan, norms))
            given = tuple(state[layer] for state in states)
            x, *state = run_layer(x, given, (w_ih, w_hh, bias), plan, self._storage.layer(layer), norms)
            last.append(state)
            x = torch.dropout(x, dropout, True) if dropout and layer + 1 < self.num_layers else x
        return x, *map(torch.stack, zip(*last, strict=True))

    def _skipped(self, layer: int, steps: int) -> tuple[bool, ...]:
        if self._skip is None:
            return (False,) * steps
        if self._skip.shape[1] != steps:
            raise ValueError(f"skip must have as many steps as the input, {steps}, got {self._skip.shape[1]}")
        return tuple(self._skip[layer].tolist())


def _note_layouts(plan: Plan, units: int) -> None:
    """Note the layouts of a layer's steps."""
    alike = groupby(plan.blocks, lambda block: (plan.sizes[block.steps.start], block.layout))
    for (batch, layout), blocks in alike:
        note(partial(LayoutNote, units, batch, sum(len(block.steps) for block in blocks), layout))


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        raise ValueError(
            f"a reduced LSTM computes float32 or float64, got {dtype}; for half precision use torch.autocast"
        )
