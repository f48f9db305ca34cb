"""Attention: a weighted mean of the encoder's outputs for each step of the decoder.

Dimensions: B pairs, S steps of the encoder, T steps of the decoder, H units, A inner size.
"""

import torch
from torch import Tensor, nn

ADDITIVE, DOT = "additive", "dot"
KINDS = (ADDITIVE, DOT)


class DotAttention(nn.Module):
    """Scores are the products of the decoder's outputs and the encoder's: Luong et al. 2015, ``dot``."""

    def forward(self, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Give the means, (B, T, H).

        Parameters
        ----------
        queries : Tensor, (B, T, H)      outputs of the decoder
        keys : Tensor, (B, S, H)         outputs of the encoder
        padding : Tensor, bool, (B, S)   encoder's steps that are no tokens: they have weight 0
        """
        return mean(queries @ keys.transpose(1, 2), keys, padding)


class AdditiveAttention(nn.Module):
    """Scores are ``v · tanh(W_q q + W_k k)``: Bahdanau et al. 2015.

    Parameters
    ----------
    hidden : int
        H.
    inner : int, optional
        A; H if not given.
    """

    def __init__(self, hidden: int, inner: int | None = None):
        super().__init__()
        inner = inner or hidden
        self.query, self.key = nn.Linear(hidden, inner), nn.Linear(hidden, inner, bias=False)
        self.value = nn.Parameter(torch.empty(inner).uniform_(-(inner**-0.5), inner**-0.5))

    def forward(self, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Give the means, (B, T, H); parameters as in :meth:`DotAttention.forward`."""
        return additive(self.query(queries), self.key(keys), self.value, keys, padding)


def additive(queries: Tensor, mapped: Tensor, value: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
    """Give the means (B, T, H) for mapped queries (B, T, A) and keys (B, S, A). The maps have B·T·S·A elements."""
    return mean(torch.tanh(queries[:, :, None] + mapped[:, None]) @ value, keys, padding)


def mean(scores: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
    """Weight keys (B, S, H) by the softmax of scores (B, T, S) over the steps that are no padding (B, S)."""
    return scores.masked_fill(padding[:, None], -torch.inf).softmax(2) @ keys


def attention_of(kind: str, hidden: int) -> nn.Module:
    """Make an attention of a kind; ``ValueError`` if there is no such kind."""
    if kind not in KINDS:
        raise ValueError(f"attention must be one of {', '.join(KINDS)}, got {kind!r}")
    return AdditiveAttention(hidden) if kind == ADDITIVE else DotAttention()
