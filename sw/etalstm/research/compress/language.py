"""A language model: embedding, stacked LSTMs, scores of the next word.

Dimensions: B sequences, T steps, V words.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from etalstm.data.dataset import Batch
from etalstm.research.compress.network import MaskedNetwork, Network, Sizes, States


class LanguageModel(Network):
    """Predicts the next word at every step.

    Parameters
    ----------
    sizes : Sizes
        Inputs are those of an embedding, outputs words. One direction.
    dropout : float
        Share that is dropped of embeddings, between layers and before the output, in training.
    lstm : keyword arguments
        Of :class:`etalstm.nn.LSTM`.
    """

    def __init__(self, sizes: Sizes, dropout: float = 0.0, **lstm):
        super().__init__(sizes, dropout, nn.Embedding(sizes.outputs, sizes.inputs), **lstm)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, words: Tensor, states: States) -> tuple[Tensor, States]:
        """Give scores (T, B, V) for words (T, B), and the layers' last states; a state of None is zero."""
        x, last = self.run_layers(self.dropout(self.embedding(words)), states)
        return self.output(x), last

    def loss(self, batch: Batch, states: States) -> tuple[Tensor, States]:
        """Give the mean loss over a batch's real words, and the last states."""
        scores, states = self(torch.from_numpy(np.ascontiguousarray(batch.x)), states)
        real = torch.from_numpy(batch.weights > 0)
        return nn.functional.cross_entropy(scores[real], torch.from_numpy(batch.targets)[real]), states

    def score(self, batches: Sequence[Batch]) -> float:
        """Give the perplexity, exp of the mean loss over all words; exp(700) where it is above."""
        total, words, states = 0.0, 0.0, self.no_states()
        for batch in batches:
            count = float(batch.weights.sum())
            loss, states = self.loss(batch, states)
            total, words = total + count * loss.item(), words + count
        return math.exp(min(total / words, 700.0))


class MaskedLanguageModel(MaskedNetwork, LanguageModel):
    """A language model with masks; parameters as :class:`LanguageModel`."""

    PLAIN = LanguageModel
