"""Structure: units and inputs of LSTMs with their weights, and smaller LSTMs without empty units and inputs.

Dimensions: I inputs, H units.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from etalstm.network.shape import GATES
from etalstm.nn import HLSTM, LSTM
from etalstm.research.compress.masks import Mask, mask_of, stored

ROWS, COLUMNS = "rows", "columns"


def total(tensors: Iterable[Tensor]) -> Tensor:
    """Add tensors, at least one."""
    first, *others = tensors
    return sum(others, first)


@dataclass(frozen=True)
class Side:
    """The rows, or the columns, of one weight that belong to a dimension."""

    module: nn.Module  # with masks
    weight: str  # name of the weight in the module
    axis: str  # ``rows`` or ``columns``
    gates: int = 1  # rows of each element: 4 in an LSTM, gate by gate, else 1

    @property
    def mask(self) -> Mask:
        """The weight's mask."""
        return mask_of(self.module, self.weight)

    @property
    def stored(self) -> Tensor:
        """The weight's stored values, (R, C) or (R,)."""
        return stored(self.module, self.weight)

    @property
    def kept(self) -> Tensor:
        """Which elements of the dimension are kept: bool, (n,)."""
        return getattr(self.mask, self.axis).reshape(self.gates, -1)[0]

    def keep(self, kept: Tensor) -> None:
        """Keep elements of the dimension: bool, (n,)."""
        self.mask.set(**{self.axis: kept.repeat(self.gates)})

    def whole(self, elements: Tensor) -> Tensor:
        """Give which weights belong to some elements of the dimension: bool, (R, C) or (R,)."""
        across = elements.repeat(self.gates)
        across = across[:, None] if self.axis == ROWS and self.stored.dim() == 2 else across
        return across.expand(self.stored.shape)

    def sums(self, values: Tensor) -> Tensor:
        """Add the magnitudes of values, shaped as the weight, for each element of the dimension: (n,)."""
        by_line = values.abs() if values.dim() == 1 else values.abs().sum(1 if self.axis == ROWS else 0)
        return by_line.reshape(self.gates, -1).sum(0)


@dataclass(frozen=True)
class Dimension:
    """Elements that are there or not: the units of a layer, or the inputs of a network."""

    name: str
    makers: tuple[Side, ...]  # the weights that compute the elements; masked, they make an element +0
    readers: tuple[Side, ...]  # the weights that elements are multiplied with

    @property
    def kept(self) -> Tensor:
        """Which elements are kept: bool, (n,)."""
        return self.makers[0].kept

    @property
    def count(self) -> int:
        """How many elements are kept."""
        return int(self.kept.sum())

    def keep(self, kept: Tensor) -> None:
        """Keep some elements, remove the others; ``ValueError`` if `kept` is not bool of shape (n,), or keeps none."""
        if kept.shape != self.kept.shape or kept.dtype != torch.bool:
            raise ValueError(
                f"{self.name}: what is kept must be bool of shape {tuple(self.kept.shape)}, "
                f"got {kept.dtype} of {tuple(kept.shape)}"
            )
        if not kept.any():
            raise ValueError(f"{self.name}: at least 1 of {len(kept)} must be kept, got 0")
        for side in (*self.makers, *self.readers):
            side.keep(kept)

    def magnitudes(self) -> Tensor:
        """Add the magnitudes of all kept weights of each element: (n,)."""
        sides = (*self.makers, *self.readers)
        return total(side.sums(getattr(side.module, side.weight).detach()) for side in sides)

    @contextmanager
    def readers_open(self) -> Iterator[None]:
        """Context in which removed elements are read with the weights that are stored for them.

        A removed element is +0, so no result changes. But the weights that make it get gradients.
        """
        before = [side.kept.clone() for side in self.readers]
        for side in self.readers:
            side.keep(torch.ones_like(side.kept))
        try:
            yield
        finally:
            for side, kept in zip(self.readers, before, strict=True):
                side.keep(kept)


def layer_names(lstm: nn.LSTM | HLSTM) -> list[list[str]]:
    """Give the names of each layer's weights and biases; a layer of two directions counts as two."""
    if isinstance(lstm, HLSTM):
        return [lstm.parameter_names(layer) for layer in range(lstm.num_layers)]
    return lstm._all_weights


def reads_inputs(name: str) -> bool:
    """Tell whether the columns of a weight, by its name, are the layer's inputs; else they are units."""
    return name.startswith("weight_ih")


def units_of(lstm: nn.LSTM | HLSTM, layer: int = 0, readers: Sequence[Side] = ()) -> Dimension:
    """Give the units of a layer: the rows of their gates, their recurrent columns, and the weights that read them.

    The LSTM has masks. A unit of an H-LSTM has one unit of each gate's hidden layer with it: a layer's hidden layers
    have as many units as the layer. `readers` read the units, besides the layer itself and the next one of the same
    module. ``ValueError`` if there is no such layer, or the LSTM has two directions or a projection.
    """
    check_lstm(lstm)
    if not 0 <= layer < lstm.num_layers:
        raise ValueError(f"layer must be 0 to {lstm.num_layers - 1}, got {layer}")
    names = layer_names(lstm)[layer]
    makers = tuple(Side(lstm, name, ROWS, GATES) for name in names)
    matrices = [name for name in names if stored(lstm, name).dim() == 2]
    inner = [Side(lstm, name, COLUMNS) for name in matrices if not reads_inputs(name)]
    if layer + 1 < lstm.num_layers:
        inner.append(Side(lstm, layer_names(lstm)[layer + 1][0], COLUMNS))
    return Dimension(f"units of layer {layer}", makers, (*inner, *readers))


def check_lstm(lstm: nn.LSTM | HLSTM) -> None:
    """Raise ``ValueError`` for an LSTM with two directions or a projection."""
    if isinstance(lstm, nn.LSTM) and (lstm.bidirectional or lstm.proj_size):
        raise ValueError(
            f"an LSTM that shrinks must have one direction and no projection, got bidirectional={lstm.bidirectional} "
            f"and proj_size={lstm.proj_size}"
        )


@dataclass(frozen=True)
class Compact:
    """A smaller LSTM without masks, and the numbers of the inputs that it still reads and of each layer's units that
    are left.
    """

    module: nn.LSTM | HLSTM
    inputs: Tensor
    units: tuple[Tensor, ...]


def compact(lstm: nn.LSTM | HLSTM, inputs: Tensor | None = None, units: Sequence[Tensor] | None = None) -> Compact:
    """Make an LSTM without the units whose weights and biases are all zero, and without inputs that have no weights.

    A unit with such weights computes +0 at every step if its first state is 0. The machine and golden skip a factor of
    zero and add products in the order of the columns. So the units that are left have the same bits, on golden and on
    the machine. An input without weights adds ±0 to a sum, which can change only the sign of a zero sum.

    The LSTM is ours, ``torch.nn.LSTM``, or an H-LSTM, with masks or without. `inputs`, bool, (I,), are those to keep;
    by default those that have a weight. `units`, bool, (H,) each, are those of each layer to keep; by default those
    that have a weight or a bias. All layers of a module have the same number of units. So where layers would differ,
    some empty units stay.

    Raises ``ValueError`` if the LSTM has two directions or a projection, nothing would be left, a unit or an input that
    is not kept has a weight, or layers would have different numbers of units.
    """
    check_lstm(lstm)
    layers = [{name: getattr(lstm, name).detach() for name in names} for names in layer_names(lstm)]
    used = [torch.stack([_has_weight(tensor) for tensor in layer.values()]).any(0) for layer in layers]
    units = _equally_many(used) if units is None else _checked(used, units)
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
            _copy_units(getattr(small, name), tensor, rows, columns if reads_inputs(name) else rows)
    return Compact(small.train(lstm.training), columns_of[0], tuple(units))


def _has_weight(tensor: Tensor) -> Tensor:
    """Tell which units have a weight that is not zero in a tensor of all gates' rows: bool, (H,)."""
    return (tensor.reshape(GATES, tensor.shape[0] // GATES, -1) != 0).any(2).any(0)


def _equally_many(used: Sequence[Tensor]) -> list[Tensor]:
    """Give the numbers of the units of each layer that stay: the used ones, and empty ones so that all have as many."""
    most = max(int(kept.sum()) for kept in used)
    if not most:
        raise ValueError(f"an LSTM must keep at least 1 of its {len(used[0])} units: all their weights are zero")
    return [kept.int().argsort(descending=True, stable=True)[:most].sort().values for kept in used]


def _checked(used: Sequence[Tensor], units: Sequence[Tensor]) -> list[Tensor]:
    """Give the numbers of the units to keep; ``ValueError`` if a unit that goes is used."""
    for layer, dropped in enumerate(own & ~kept for own, kept in zip(used, units, strict=True)):
        if dropped.any():
            raise ValueError(f"layer {layer}: unit {int(dropped.nonzero()[0])} is not kept, but has weights")
    counts = [int(kept.sum()) for kept in units]
    if len(set(counts)) > 1 or not counts[0]:
        raise ValueError(f"all layers of a module must keep the same number of units, at least 1, got {counts}")
    return [kept.nonzero()[:, 0] for kept in units]


def _like(lstm: nn.LSTM | HLSTM, inputs: int, units: int) -> nn.LSTM | HLSTM:
    sizes = inputs, units, lstm.num_layers
    if isinstance(lstm, HLSTM):
        arguments = {name: lstm._settings.arguments[name] for name in ("engine", "storage", "theta", "slices")}
        return HLSTM(*sizes, lstm.batch_first, lstm.dropout, **arguments)
    kind, arguments = (LSTM, lstm._settings.arguments) if isinstance(lstm, LSTM) else (nn.LSTM, {})
    return kind(*sizes, lstm.bias, lstm.batch_first, lstm.dropout, **arguments)


def _copy_units(into: nn.Parameter, tensor: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Copy the rows of some units, and of a matrix only some columns, into a parameter."""
    units = tensor.shape[0] // GATES
    taken = tensor[torch.cat([rows + gate * units for gate in range(GATES)])]
    with torch.no_grad():
        into.copy_(taken[:, columns] if tensor.dim() == 2 else taken)
