"""Trains and scores a language model: iterations, perplexity, gradients that say what grows."""

import math
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import torch
from torch import Tensor, nn

from etalstm.compress.language import MaskedLanguageModel, States
from etalstm.compress.masks import probing
from etalstm.compress.structure import Dimension
from etalstm.data.dataset import Batch
from etalstm.nn.iteration import iterate


class Learner:
    """A model, its optimizer, and the states of the streams.

    Parameters
    ----------
    model : MaskedLanguageModel
    clip : float
        Largest norm of the gradient.
    seed : int
        Dropout draws from it and from the number of the iteration.

    Members
    -------
    states : list
        Of each layer, as the last iteration left them; None at the beginning of the streams.
    """

    def __init__(self, model: MaskedLanguageModel, clip: float, seed: int):
        self.model, self._clip, self._seed = model, clip, seed
        self.restart()

    def restart(self) -> None:
        """Forget what the optimizer remembers, and begin the streams."""
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.rewind()

    def rewind(self) -> None:
        """Begin the streams."""
        self.states: States = [None] * len(self.model.layers)

    def iterate(self, batch: Batch, number: int, rate: float) -> tuple[float, float]:
        """Take a step of Adam; give the loss, and the norm of the gradient.

        Raises
        ------
        DivergedError
            If one of them is not finite; no weight has changed then.
        """
        states = None

        def loss_of() -> Tensor:
            nonlocal states
            loss, states = self._loss(batch, self.states)
            return loss

        figures = iterate(self.model, self.optimizer, loss_of, rate, self._clip, self._seed, number)
        self.states = _detached(states)
        return figures

    def perplexity(self, batches: Sequence[Batch]) -> float:
        """Give exp of the mean loss over all words of a split; inf where that is above what a float holds."""
        total, words, states = 0.0, 0.0, [None] * len(self.model.layers)
        self.model.eval()
        with torch.no_grad():
            for batch in batches:
                count = float(batch.weights.sum())
                loss, states = self._loss(batch, states)
                total, words = total + count * loss.item(), words + count
        return math.exp(min(total / words, 700.0))

    def gradients(self, batches: Sequence[Batch], dimensions: Sequence[Dimension]) -> None:
        """Leave the mean gradient over batches in the weights, the masked ones included.

        Parameters
        ----------
        batches : sequence of Batch
        dimensions : sequence of Dimension
            Removed elements of these get gradients, too.
        """
        self.model.eval()
        self.model.zero_grad()
        states = [None] * len(self.model.layers)
        with ExitStack() as stack:
            stack.enter_context(probing(self.model))
            for dimension in dimensions:
                stack.enter_context(dimension.readers_open())
            for batch in batches:
                loss, states = self._loss(batch, states)
                (loss / len(batches)).backward()
                states = _detached(states)

    def _loss(self, batch: Batch, states: States) -> tuple[Tensor, States]:
        """Give the mean loss over a batch's real words."""
        scores, states = self.model(torch.from_numpy(np.ascontiguousarray(batch.x)), states)
        real = torch.from_numpy(batch.weights > 0)
        return nn.functional.cross_entropy(scores[real], torch.from_numpy(batch.targets)[real]), states


def _detached(states: States) -> States:
    return [tuple(tensor.detach() for tensor in state) for state in states]
