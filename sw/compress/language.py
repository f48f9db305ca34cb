"""A language model: embedding, stacked LSTMs, a linear output; its masks, and what of it may shrink.

Dimensions: B sequences, T steps, E sizes of an embedding, H_l units of layer l, V words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from etalstm.compress.compaction import compact
from etalstm.compress.masks import Mask, mask_of, put_masks, stored
from etalstm.compress.structure import COLUMNS, Dimension, Side, units_of
from etalstm.network import check_size
from etalstm.nn import LSTM

State = tuple[Tensor, Tensor]
States = list[State]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model.

    Members
    -------
    words : int                V
    embedding : int            E
    units : tuple of int       H_l of each layer
    """

    words: int
    embedding: int
    units: tuple[int, ...]

    def __post_init__(self):
        check_size("words", self.words)
        check_size("embedding", self.embedding)
        if not self.units:
            raise ValueError("units must name at least one layer, got none")
        for layer, units in enumerate(self.units):
            check_size(f"units of layer {layer}", units)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Inputs of each layer."""
        return self.embedding, *self.units[:-1]


class LanguageModel(nn.Module):
    """Predicts the next word at every step. Each layer is an :class:`etalstm.nn.LSTM` of its own, so layers may differ.

    Parameters
    ----------
    sizes : Sizes
    dropout : float
        Share that is dropped of embeddings, between layers and before the output, in training.
    lstm : keyword arguments
        Of :class:`etalstm.nn.LSTM`: ``engine``, ``storage``, ``theta``, ``slices``.
    """

    def __init__(self, sizes: Sizes, dropout: float = 0.0, **lstm):
        super().__init__()
        self.embedding = nn.Embedding(sizes.words, sizes.embedding)
        pairs = zip(sizes.inputs, sizes.units, strict=True)
        self.layers = nn.ModuleList(LSTM(inputs, units, **lstm) for inputs, units in pairs)
        self.output = nn.Linear(sizes.units[-1], sizes.words)
        self.dropout = nn.Dropout(dropout)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, words: Tensor, states: Sequence[State | None]) -> tuple[Tensor, States]:
        """Give scores (T, B, V) for words (T, B), and the layers' last states; a state of None is zero."""
        x, last = self.dropout(self.embedding(words)), []
        for layer, state in zip(self.layers, states, strict=True):
            x, after = layer(x, state)
            x = self.dropout(x)
            last.append(after)
        return self.output(x), last

    def lstm_parameters(self) -> int:
        """Count the weights and biases of the LSTMs that are not zero."""
        return sum(count_nonzero(layer) for layer in self.layers)

    def parameters_kept(self) -> int:
        """Count the weights and biases of the whole model that are not zero."""
        return sum(count_nonzero(module) for module in (self.embedding, *self.layers, self.output))


class MaskedLanguageModel(LanguageModel):
    """A language model with masks on all its weights, whose inputs and units can be removed and grown again.

    Parameters as :class:`LanguageModel`.

    Members
    -------
    dimensions : tuple of Dimension
        The inputs of the first layer, then the units of each layer.
    """

    def __init__(self, sizes: Sizes, dropout: float = 0.0, **lstm):
        super().__init__(sizes, dropout, **lstm)
        put_masks(self)
        readers = [(Side(layer, "weight_ih_l0", COLUMNS),) for layer in self.layers]
        readers.append((Side(self.output, "weight", COLUMNS),))
        inputs = Dimension("inputs", (Side(self.embedding, "weight", COLUMNS),), readers[0])
        units = [units_of(layer, 0, after) for layer, after in zip(self.layers, readers[1:], strict=True)]
        named = [Dimension(f"units_{number}", one.makers, one.readers) for number, one in enumerate(units)]
        self.dimensions = (inputs, *named)

    @property
    def sizes(self) -> Sizes:
        """The sizes of what is kept."""
        inputs, *units = (dimension.count for dimension in self.dimensions)
        return Sizes(self.embedding.num_embeddings, inputs, tuple(units))

    def matrices(self) -> list[tuple[Mask, nn.Parameter]]:
        """Give the LSTMs' matrices: masks, and stored weights."""
        names = "weight_ih_l0", "weight_hh_l0"
        return [(mask_of(layer, name), stored(layer, name)) for layer in self.layers for name in names]

    def compact(self) -> LanguageModel:
        """Give a model without masks and without what is removed.

        The LSTMs' outputs have the same bits on golden and on the machine: see
        :func:`etalstm.compress.compaction.compact`. The output layer is a product on the host: its sums may round
        differently.
        """
        small = LanguageModel(self.sizes, self.dropout.p, engine=self.layers[0].engine)
        kept = [dimension.kept for dimension in self.dimensions]
        parts = zip(self.layers, kept[:-1], kept[1:], strict=True)
        small.layers = nn.ModuleList(compact(layer, inputs, [units]).module for layer, inputs, units in parts)
        with torch.no_grad():
            small.embedding.weight.copy_(self.embedding.weight[:, kept[0]])
            small.output.weight.copy_(self.output.weight[:, kept[-1]])
            small.output.bias.copy_(self.output.bias)
        return small.train(self.training)


def count_nonzero(module: nn.Module) -> int:
    """Count a module's own weights and biases that are not zero, under their masks."""
    names = {name.split(".")[1] if "parametrizations" in name else name for name, _ in module.named_parameters()}
    return sum(int(getattr(module, name).count_nonzero()) for name in names)
