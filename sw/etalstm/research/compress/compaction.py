"""Smaller LSTMs without the units and inputs that are empty.

Dimensions: I inputs, H units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from etalstm.network.shape import GATES
from etalstm.nn import HLSTM, LSTM
from etalstm.research.compress.structure import check_lstm, layer_names, reads_inputs


@dataclass(frozen=True)
class Compact:
    """A smaller LSTM.

    Members
    -------
    module : LSTM or HLSTM      without masks
    inputs : Tensor, int64      numbers of the inputs that it still reads
    units : tuple of Tensors    numbers of the units that each layer still has
    """

    module: nn.LSTM | HLSTM
    inputs: Tensor
    units: tuple[Tensor, ...]


def compact(lstm: nn.LSTM | HLSTM, inputs: Tensor | None = None, units: Sequence[Tensor] | None = None) -> Compact:
    """Make an LSTM without the units whose weights and biases are all zero, and without inputs that nobody reads.

    A unit with such weights computes +0 at every step if its first state is 0. The machine and golden skip a factor of
    zero and add products in the order of the columns. So the units that are left have the same bits, on golden and on
    the machine. An input without weights is a sum's term ±0, which can change nothing but the sign of a sum that is
    zero.

    Parameters
    ----------
    lstm : LSTM or HLSTM
        :class:`etalstm.nn.LSTM`, :class:`etalstm.nn.HLSTM` or ``torch.nn.LSTM``, with masks or without.
    inputs : Tensor, bool, (I,), optional
        The inputs to keep. Default: those that have a weight.
    units : sequence of Tensor, bool, (H,), optional
        The units of each layer to keep. Default: those that have a weight or a bias. All layers of a module have the
        same number of units. So where layers would differ, some empty units stay.

    Raises
    ------
    ValueError
        If the LSTM has two directions or a projection, nothing would be left, a unit or an input that is not kept has a
        weight, or layers would have different numbers of units.
    """
    check_lstm(lstm)
    layers = [{name: getattr(lstm, name).detach() for name in names} for names in layer_names(lstm)]
    full = [torch.stack([_has_weight(tensor) for tensor in layer.values()]).any(0) for layer in layers]
    units = _as_many(full) if units is None else _checked(full, units)
    read = (layers[0]["weight_ih_l0"] != 0).any(0)
    inputs = read if inputs is None else inputs
    if (read & ~inputs).any():
        raise ValueError(f"input {int((read & ~inputs).nonzero()[0])} is not kept, but has weights")
    if not inputs.any():
        raise ValueError(f"an LSTM must keep at least 1 of its {lstm.input_size} inputs: all their weights are zero")
    columns_of = [inputs.nonzero()[:, 0], *units[:-1]]
    small = _like(lstm, len(columns_of[0]), len(units[0]))
    for layer, columns, rows in zip(layers, columns_of, units, strict=True):
        for name, tensor in layer.items():
            _take(getattr(small, name), tensor, rows, columns if reads_inputs(name) else rows)
    return Compact(small.train(lstm.training), columns_of[0], tuple(units))


def _has_weight(tensor: Tensor) -> Tensor:
    """Tell which units have a weight that is not zero in a tensor of all gates' rows: bool, (H,)."""
    return (tensor.reshape(GATES, tensor.shape[0] // GATES, -1) != 0).any(2).any(0)


def _as_many(full: Sequence[Tensor]) -> list[Tensor]:
    """Give the numbers of each layer's units that stay: those that are not empty, and empty ones up to the most."""
    most = max(int(kept.sum()) for kept in full)
    if not most:
        raise ValueError(f"an LSTM must keep at least 1 of its {len(full[0])} units: all their weights are zero")
    return [kept.int().argsort(descending=True, stable=True)[:most].sort().values for kept in full]


def _checked(full: Sequence[Tensor], units: Sequence[Tensor]) -> list[Tensor]:
    """Give the numbers of the units to keep, after a look at those that go."""
    for layer, (used, kept) in enumerate(zip(full, units, strict=True)):
        if (used & ~kept).any():
            raise ValueError(f"layer {layer}: unit {int((used & ~kept).nonzero()[0])} is not kept, but has weights")
    counts = [int(kept.sum()) for kept in units]
    if len(set(counts)) > 1 or not counts[0]:
        raise ValueError(f"all layers of a module must keep the same number of units, at least 1, got {counts}")
    return [kept.nonzero()[:, 0] for kept in units]


def _like(lstm: nn.LSTM | HLSTM, inputs: int, units: int) -> nn.LSTM | HLSTM:
    sizes = inputs, units, lstm.num_layers
    if isinstance(lstm, HLSTM):
        how = {name: lstm._settings.arguments[name] for name in ("engine", "storage", "theta", "slices")}
        return HLSTM(*sizes, lstm.batch_first, lstm.dropout, **how)
    kind, how = (LSTM, lstm._settings.arguments) if isinstance(lstm, LSTM) else (nn.LSTM, {})
    return kind(*sizes, lstm.bias, lstm.batch_first, lstm.dropout, **how)


def _take(into: nn.Parameter, tensor: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Take the rows of some units, and of a matrix some columns."""
    units = tensor.shape[0] // GATES
    taken = tensor[torch.cat([rows + gate * units for gate in range(GATES)])]
    with torch.no_grad():
        into.copy_(taken[:, columns] if tensor.dim() == 2 else taken)
