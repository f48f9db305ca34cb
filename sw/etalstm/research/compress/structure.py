"""Structure: units and inputs of LSTMs, and what belongs to them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from etalstm.network.shape import GATES
from etalstm.nn import HLSTM
from etalstm.research.compress.masks import Mask, mask_of, stored

ROWS, COLUMNS = "rows", "columns"


def total(tensors: Iterable[Tensor]) -> Tensor:
    """Add tensors, at least one."""
    first, *others = tensors
    return sum(others, first)


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
    """Tell of a weight's name whether its columns are the layer's inputs; those of the other matrices are units."""
    return name.startswith("weight_ih")


def units_of(lstm: nn.LSTM | HLSTM, layer: int = 0, readers: Sequence[Side] = ()) -> Dimension:
    """Give the units of a layer: the rows of their gates, their recurrent column, and who reads them.

    A unit of an H-LSTM has one unit of each gate's hidden layer with it: a layer's hidden layers have as many units as
    the layer.

    Parameters
    ----------
    lstm : LSTM or HLSTM
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
