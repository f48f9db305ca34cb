"""Structure: units and inputs of LSTMs, what belongs to them, and smaller LSTMs without them.

Dimensions: I inputs, H units, L layers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from etalstm.compress.masks import Mask, mask_of, stored
from etalstm.network import GATES
from etalstm.nn import LSTM

ROWS, COLUMNS = "rows", "columns"


@dataclass(frozen=True)
class Side:
    """The rows, or the columns, of one weight that belong to a dimension.

    Members
    -------
    module : Module       with masks
    weight : str          name of the weight in the module
    axis : str            ``rows`` or ``columns``
    gates : int           rows of each element: 4 in an LSTM, gate by gate, else 1
    """

    module: nn.Module
    weight: str
    axis: str
    gates: int = 1

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
    """Elements that are there or not: the units of a layer, or the inputs of a network.

    Members
    -------
    name : str
    makers : tuple of Side       the weights that compute the elements; masked, they make an element +0
    readers : tuple of Side      the weights that elements are multiplied with
    """

    name: str
    makers: tuple[Side, ...]
    readers: tuple[Side, ...]

    @property
    def kept(self) -> Tensor:
        """Which elements are kept: bool, (n,)."""
        return self.makers[0].kept

    @property
    def count(self) -> int:
        """How many elements are kept."""
        return int(self.kept.sum())

    def keep(self, kept: Tensor) -> None:
        """Keep some elements, remove the others.

        Raises
        ------
        ValueError
            If `kept` is not bool of shape (n,), or keeps none.
        """
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
        return sum(side.sums(getattr(side.module, side.weight).detach()) for side in sides)

    @contextmanager
    def readers_open(self) -> Iterator[None]:
        """Context in which removed elements are read with the weights that are stored for them.

        A removed element is +0, so nothing computes anything else. But the weights that make it get gradients.
        """
        before = [side.kept.clone() for side in self.readers]
        for side in self.readers:
            side.keep(torch.ones_like(side.kept))
        try:
            yield
        finally:
            for side, kept in zip(self.readers, before, strict=True):
                side.keep(kept)


def units_of(lstm: nn.LSTM, layer: int = 0, readers: Sequence[Side] = ()) -> Dimension:
    """Give the units of a layer: the rows of their gates, their recurrent column, and who reads them.

    Parameters
    ----------
    lstm : LSTM
        With masks, of one direction, without a projection.
    layer : int
    readers : sequence of Side
        Who reads the units, besides the layer itself and the next one of the same module.

    Raises
    ------
    ValueError
        If there is no such layer, or the LSTM has two directions or a projection.
    """
    check_lstm(lstm)
    if not 0 <= layer < lstm.num_layers:
        raise ValueError(f"layer must be 0 to {lstm.num_layers - 1}, got {layer}")
    names = lstm._all_weights[layer]
    makers = tuple(Side(lstm, name, ROWS, GATES) for name in names)
    inner = [Side(lstm, names[1], COLUMNS)]
    if layer + 1 < lstm.num_layers:
        inner.append(Side(lstm, lstm._all_weights[layer + 1][0], COLUMNS))
    return Dimension(f"units of layer {layer}", makers, (*inner, *readers))


def check_lstm(lstm: nn.LSTM) -> None:
    """Raise ``ValueError`` for an LSTM with two directions or a projection."""
    if lstm.bidirectional or lstm.proj_size:
        raise ValueError(
            f"an LSTM that shrinks must have one direction and no projection, got bidirectional={lstm.bidirectional} "
            f"and proj_size={lstm.proj_size}"
        )


@dataclass(frozen=True)
class Compact:
    """A smaller LSTM.

    Members
    -------
    module : LSTM               without masks
    inputs : Tensor, int64      numbers of the inputs that it still reads
    units : tuple of Tensors    numbers of the units that each layer still has
    """

    module: nn.LSTM
    inputs: Tensor
    units: tuple[Tensor, ...]


def compact(lstm: nn.LSTM, inputs: Tensor | None = None, units: Sequence[Tensor] | None = None) -> Compact:
    """Make an LSTM without the units whose weights and biases are all zero, and without inputs that nobody reads.

    A unit with such weights computes +0 at every step if its first state is 0. The machine and golden skip a factor of
    zero and add products in the order of the columns. So the units that are left have the same bits, on golden and on
    the machine. An input without weights is a sum's term ±0, which can change nothing but the sign of a sum that is
    zero.

    Parameters
    ----------
    lstm : LSTM
        :class:`etalstm.nn.LSTM` or ``torch.nn.LSTM``, with masks or without.
    inputs : Tensor, bool, (I,), optional
        The inputs to keep. Default: those that have a weight.
    units : sequence of Tensor, bool, (H,), optional
        The units of each layer to keep. Default: those that have a weight or a bias; where layers differ in their
        number, some empty units stay, because every layer of a module has as many.

    Raises
    ------
    ValueError
        If the LSTM has two directions or a projection, nothing would be left, a unit that is not kept has a weight, or
        layers would have different numbers of units.
    """
    check_lstm(lstm)
    layers = [[getattr(lstm, name).detach() for name in names] for names in lstm._all_weights]
    full = [torch.stack([_has_weight(tensor) for tensor in layer]).any(0) for layer in layers]
    units = _as_many(full) if units is None else _checked(full, units)
    inputs = (layers[0][0] != 0).any(0) if inputs is None else inputs
    if not inputs.any():
        raise ValueError(f"an LSTM must keep at least 1 of its {lstm.input_size} inputs: all their weights are zero")
    read = [inputs.nonzero()[:, 0], *units[:-1]]
    small = _like(lstm, len(read[0]), len(units[0]))
    for names, layer, columns, rows in zip(lstm._all_weights, layers, read, units, strict=True):
        for name, tensor, axis in zip(names, layer, (columns, rows, None, None), strict=False):
            _take(getattr(small, name), tensor, rows, axis)
    return Compact(small.train(lstm.training), read[0], tuple(units))


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
        raise ValueError(f"every layer of a module must keep as many units, at least 1, got {counts}")
    return [kept.nonzero()[:, 0] for kept in units]


def _like(lstm: nn.LSTM, inputs: int, units: int) -> nn.LSTM:
    sizes = inputs, units, lstm.num_layers, lstm.bias, lstm.batch_first, lstm.dropout
    if isinstance(lstm, LSTM):
        kept = lstm._settings
        return LSTM(
            *sizes, engine=kept.engine, storage=kept.storage.policy, theta=kept.storage.thresholds, slices=kept.slices
        )
    return nn.LSTM(*sizes)


def _take(into: nn.Parameter, tensor: Tensor, rows: Tensor, columns: Tensor | None) -> None:
    units = tensor.shape[0] // GATES
    taken = tensor[torch.cat([rows + gate * units for gate in range(GATES)])]
    with torch.no_grad():
        into.copy_(taken if columns is None else taken[:, columns])
