"""Trains and scores a network, and computes the gradients by which it grows."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from etalstm.nn.training import iterate
from etalstm.research.compress.masks import probing
from etalstm.research.compress.network import MaskedNetwork, States
from etalstm.research.compress.structure import Dimension


class Learner:
    """A model, its optimizer, and the states of its sequences, of each layer: None at the beginning of sequences.

    The norm of the gradient is at most `clip`. Dropout draws from the seed and from the number of the iteration.
    """

    def __init__(self, model: MaskedNetwork, clip: float, seed: int):
        self.model, self._clip, self._seed = model, clip, seed
        self.restart()

    def restart(self) -> None:
        """Make a new optimizer, and begin the sequences."""
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.rewind()

    def rewind(self) -> None:
        """Begin the sequences."""
        self.states: States = self.model.no_states()

    def iterate(self, batch: Any, number: int, rate: float) -> tuple[float, float]:
        """Take a step of Adam; give the loss, and the norm of the gradient.

        :class:`DivergedError` if one of them is not finite; no weight has changed then.
        """
        states = self.states

        def loss_of() -> Tensor:
            nonlocal states
            loss, states = self.model.loss(batch, self.states)
            return loss

        figures = iterate(self.model, self.optimizer, loss_of, rate, self._clip, self._seed, number)
        self.states = _detached(states)
        return figures

    def score(self, batches: Sequence[Any]) -> float:
        """Give the network's score over the batches of a split."""
        self.model.eval()
        with torch.no_grad():
            return self.model.score(batches)

    def gradients(self, batches: Sequence[Any], dimensions: Sequence[Dimension]) -> None:
        """Set the weights' gradients to means over batches, also of masked weights and of removed elements' weights."""
        self.model.eval()
        self.model.zero_grad()
        states = self.model.no_states()
        with ExitStack() as stack:
            stack.enter_context(probing(self.model))
            for dimension in dimensions:
                stack.enter_context(dimension.readers_open())
            for batch in batches:
                loss, states = self.model.loss(batch, states)
                (loss / len(batches)).backward()
                states = _detached(states)


def _detached(states: States) -> States:
    return [None if state is None else (state[0].detach(), state[1].detach()) for state in states]
