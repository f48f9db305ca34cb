"""Stacked LSTMs or H-LSTMs with a linear output; their masks, and the dimensions in which they may shrink.

Dimensions: B sequences, T steps, I inputs of the first layer, H_l units of layer l, C outputs, D directions.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from etalstm.network.cells import cell_named
from etalstm.network.cells.hlstm import HLSTM as HLSTM_CELL
from etalstm.network.cells.lstm import LSTM as LSTM_CELL
from etalstm.network.shape import check_size
from etalstm.nn import HLSTM, LSTM
from etalstm.research.compress.masks import Mask, mask_of, put_masks, stored
from etalstm.research.compress.structure import COLUMNS, Dimension, Side, compact, layer_names, units_of

INPUTS = "inputs"
Run = TypeVar("Run", Tensor, PackedSequence)
State = tuple[Tensor, Tensor]
States = list[State | None]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network."""

    outputs: int  # C: words, or characters and the blank
    inputs: int  # I: sizes of an embedding, or features of a step
    units: tuple[int, ...]  # H_l of each layer, in each direction
    directions: int = 1  # D, 1 or 2
    cell: str = LSTM_CELL.name  # ``lstm`` or ``hlstm``, which has one direction

    def __post_init__(self):
        check_size("outputs", self.outputs)
        check_size(INPUTS, self.inputs)
        if not self.units:
            raise ValueError("units must name at least one layer, got none")
        for layer, units in enumerate(self.units):
            check_size(f"units of layer {layer}", units)
        if self.directions not in (1, 2):
            raise ValueError(f"directions must be 1 or 2, got {self.directions}")
        if cell_named(self.cell) is not LSTM_CELL and self.directions != 1:
            raise ValueError(f"cell {self.cell} has one direction, got {self.directions}")

    @property
    def layer_inputs(self) -> tuple[int, ...]:
        """Inputs of each layer."""
        return self.inputs, *(self.directions * units for units in self.units[:-1])


class Network(nn.Module, ABC):
    """Stacked layers with a linear output. Each is a module of its own, so layers may differ.

    `dropout` is the share that is dropped between layers and before the output, in training. An embedding makes inputs
    of tokens. Other arguments are those of :class:`etalstm.nn.LSTM` or :class:`etalstm.nn.HLSTM`: ``engine``,
    ``storage``, ``theta``, ``slices``.
    """

    def __init__(self, sizes: Sizes, dropout: float = 0.0, embedding: nn.Embedding | None = None, **lstm):
        super().__init__()
        self.embedding = embedding
        pairs = zip(sizes.layer_inputs, sizes.units, strict=True)
        kind = HLSTM if sizes.cell == HLSTM_CELL.name else partial(LSTM, bidirectional=sizes.directions == 2)
        self.layers = nn.ModuleList(kind(inputs, units, **lstm) for inputs, units in pairs)
        self.output = nn.Linear(sizes.directions * sizes.units[-1], sizes.outputs)
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def loss(self, batch: Any, states: States) -> tuple[Tensor, States]:
        """Give the mean loss of a batch, a scalar, and the states of the layers for the batch that follows it."""

    @abstractmethod
    def score(self, batches: Sequence[Any]) -> float:
        """Give the network's score over all batches of a split; a lower score is better."""

    @property
    def recurrent(self) -> list[LSTM | HLSTM]:
        """The layers."""
        return [layer for layer in self.layers if isinstance(layer, (LSTM, HLSTM))]

    def run_layers(self, x: Run, states: States) -> tuple[Run, States]:
        """Give the last layer's outputs for inputs (T, B, I), and the layers' last states; a state of None is zero."""
        last = []
        for layer, state in zip(self.layers, states, strict=True):
            x, after = layer(x, state)
            x = x._replace(data=self.dropout(x.data)) if isinstance(x, PackedSequence) else self.dropout(x)
            last.append(after)
        return x, last

    def no_states(self) -> States:
        """Give the states at the beginning of a sequence."""
        return [None] * len(self.layers)

    def lstm_parameters(self) -> int:
        """Count the weights and biases of the LSTMs that are not zero."""
        return sum(count_nonzero(layer) for layer in self.layers)

    def parameters_kept(self) -> int:
        """Count the weights and biases of the whole network that are not zero."""
        others = [self.output] if self.embedding is None else [self.embedding, self.output]
        return self.lstm_parameters() + sum(count_nonzero(module) for module in others)


class MaskedNetwork(Network):
    """A network with masks on all its weights, whose units can be removed and, of LSTMs, grown again.

    The inputs can be removed, too, if an embedding makes them. Derive from this and from the network. Parameters are
    those of the network.

    `PLAIN`: the same network without masks. `full_sizes`: those with which it was made. `dimensions`: the inputs of the
    first layer if there is an embedding, then the units of each layer. None of them with two directions.
    """

    PLAIN: ClassVar[type[Network]]

    def __init__(self, sizes: Sizes, dropout: float = 0.0, **lstm):
        super().__init__(sizes, dropout, **lstm)
        put_masks(self)
        self.full_sizes = sizes
        self.dimensions = self._dimensions() if sizes.directions == 1 else ()

    def _dimensions(self) -> tuple[Dimension, ...]:
        readers = [(Side(layer, "weight_ih_l0", COLUMNS),) for layer in self.layers]
        readers.append((Side(self.output, "weight", COLUMNS),))
        units = [units_of(layer, 0, after) for layer, after in zip(self.recurrent, readers[1:], strict=True)]
        named = [Dimension(f"units_{number}", each.makers, each.readers) for number, each in enumerate(units)]
        if self.embedding is not None:
            named.insert(0, Dimension(INPUTS, (Side(self.embedding, "weight", COLUMNS),), readers[0]))
        return tuple(named)

    @property
    def sizes(self) -> Sizes:
        """The sizes of what is kept."""
        return self.sizes_of([dimension.count for dimension in self.dimensions])

    def sizes_of(self, counts: Sequence[int]) -> Sizes:
        """Give the sizes with so many elements of each dimension."""
        full, left = self.full_sizes, dict(zip((each.name for each in self.dimensions), counts, strict=True))
        units = tuple(left.get(f"units_{number}", size) for number, size in enumerate(full.units))
        return replace(full, inputs=left.get(INPUTS, full.inputs), units=units)

    def matrices(self) -> list[tuple[Mask, nn.Parameter]]:
        """Give the LSTMs' matrices: masks, and stored weights."""
        named = [(layer, name) for layer in self.recurrent for names in layer_names(layer) for name in names]
        pairs = [(mask_of(layer, name), stored(layer, name)) for layer, name in named]
        return [(mask, weights) for mask, weights in pairs if weights.dim() == 2]

    def draw(self) -> None:
        """Draw all weights anew, and keep all of them."""
        self.load_state_dict(type(self)(self.full_sizes, self.dropout.p).state_dict())

    def compact(self) -> Network:
        """Give a network without masks and without what is removed. One of two directions keeps its sizes.

        The LSTMs' outputs have the same bits on golden and on the machine: see
        :func:`etalstm.research.compress.structure.compact`. The output layer is a product on the host: its sums may
        round differently.
        """
        small = self.PLAIN(self.sizes, self.dropout.p, engine=self.recurrent[0].engine)
        if not self.dimensions:
            small.load_state_dict({name: self._masked(name) for name in small.state_dict()})
            return small.train(self.training)
        counted = {dimension.name: dimension.kept for dimension in self.dimensions}
        inputs = counted.pop(INPUTS, torch.ones(self.full_sizes.inputs, dtype=torch.bool))
        kept = [inputs, *counted.values()]
        layers = zip(self.recurrent, kept[:-1], kept[1:], strict=True)
        small.layers = nn.ModuleList(compact(layer, read, [units]).module for layer, read, units in layers)
        with torch.no_grad():
            if self.embedding is not None and small.embedding is not None:
                small.embedding.weight.copy_(self.embedding.weight[:, inputs])
            small.output.weight.copy_(self.output.weight[:, kept[-1]])
            small.output.bias.copy_(self.output.bias)
        return small.train(self.training)

    def _masked(self, name: str) -> Tensor:
        """Give a parameter by its name in a network without masks."""
        module, _, own = name.rpartition(".")
        return getattr(self.get_submodule(module), own).detach()


def count_nonzero(module: nn.Module) -> int:
    """Count a module's own weights and biases that are not zero, under their masks."""
    names = {name.split(".")[1] if "parametrizations" in name else name for name, _ in module.named_parameters()}
    return sum(int(getattr(module, name).count_nonzero()) for name in names)
