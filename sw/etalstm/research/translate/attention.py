"""Attention: a weighted mean of the encoder's outputs for each step of the decoder.

Dimensions: B pairs, S steps of the encoder, T steps of the decoder, H units, A inner size.
"""

import torch
from torch import Tensor, nn

from etalstm.nn.recompute import AUTO, Cost, check_mode, decided, recompute
from etalstm.research.translate_settings import ADDITIVE, KINDS
from etalstm.train.declared import one_of

FLOAT_BYTES = 4
# Of a matrix product, in the time of a map's element: on a host, on a GPU; `eta-lstm research attention`
HOST_FLOPS_PER_ELEMENT, GPU_FLOPS_PER_ELEMENT = 17.0, 270.0
# Maps that are made at a time. On a host so many stay in a core's cache; with fewer a GPU would wait for the host.
HOST_CHUNK_BYTES, GPU_CHUNK_BYTES = 1 << 20, 1 << 27


class Attention(nn.Module):
    """Base of both kinds. Sentences are computed in chunks, so that few maps are in memory at a time.

    `recompute` says whether the maps inside are computed again in the backward pass: ``auto``, ``on`` or ``off``. The
    bits are the same. See :func:`etalstm.nn.recompute.recompute`.
    """

    def __init__(self, recompute: str = AUTO):
        super().__init__()
        self.recompute = check_mode(recompute)

    def cost(self, sentences: int, steps: int, keys: int) -> Cost:
        """Give the cost of the maps of B `sentences`, T `steps` of the decoder and S `keys`."""
        raise NotImplementedError

    def _in_chunks(self, function, queries: Tensor, keys: Tensor, shared: tuple[Tensor, ...] = ()) -> Tensor:
        """Give the scores (B, T, S): a function of a chunk's queries and keys, and of tensors that all chunks share."""
        steps, whole = (queries.shape[1], keys.shape[1]), self.cost(len(queries), queries.shape[1], keys.shape[1])
        chunk_bytes = GPU_CHUNK_BYTES if queries.is_cuda else HOST_CHUNK_BYTES
        size = max(1, chunk_bytes * len(queries) // max(1, whole.kept_bytes))
        mode = decided(self.recompute, whole, queries.device)
        chunks = zip(queries.split(size), keys.split(size), strict=True)
        return torch.cat(
            [recompute(function, *chunk, *shared, mode=mode, cost=self.cost(len(chunk[0]), *steps)) for chunk in chunks]
        )


class DotAttention(Attention):
    """Scores are the products of the decoder's outputs and the encoder's: Luong et al. 2015, ``dot``."""

    def forward(self, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Give the means, (B, T, H), for the decoder's outputs (B, T, H) and the encoder's (B, S, H).

        `padding`, bool, (B, S), tells which steps of the encoder are no tokens: they have weight 0.
        """
        return mean(self._in_chunks(dot, queries, keys), keys, padding)

    def cost(self, sentences: int, steps: int, keys: int) -> Cost:
        """Give the cost: nothing is kept, as a product needs its factors only, which are inputs."""
        return Cost(0, 0.0)


class AdditiveAttention(Attention):
    """Scores are ``v · tanh(W_q q + W_k k)``: Bahdanau et al. 2015.

    They are computed as ``2 v · σ(2 W_q q + 2 W_k k)``, as tanh(x) is 2 σ(2x) - 1. The difference, the sum of v, is
    equal at all steps, so the softmax does not see it. On a CPU PyTorch's σ took an eighth of its tanh's time. `inner`
    is A, H if not given.
    """

    def __init__(self, hidden: int, inner: int | None = None, recompute: str = AUTO):
        super().__init__(recompute)
        inner = inner or hidden
        self.query, self.key = nn.Linear(hidden, inner), nn.Linear(hidden, inner, bias=False)
        self.value = nn.Parameter(torch.empty(inner).uniform_(-(inner**-0.5), inner**-0.5))

    def forward(self, queries: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Give the means, (B, T, H); parameters as in :meth:`DotAttention.forward`."""
        inputs = 2 * self.query(queries), 2 * self.key(keys)
        return mean(self._in_chunks(additive, *inputs, shared=(2 * self.value,)), keys, padding)

    def cost(self, sentences: int, steps: int, keys: int) -> Cost:
        """Give the cost of the scores' maps."""
        elements = sentences * steps * keys * len(self.value)
        flops = GPU_FLOPS_PER_ELEMENT if self.value.is_cuda else HOST_FLOPS_PER_ELEMENT
        return Cost(FLOAT_BYTES * elements, flops * elements)


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """Give the scores (B, T, S) for queries (B, T, H) and keys (B, S, H)."""
    return queries @ keys.transpose(1, 2)


def additive(queries: Tensor, keys: Tensor, value: Tensor) -> Tensor:
    """Give the scores (B, T, S) for mapped queries (B, T, A) and keys (B, S, A); the map has B·T·S·A elements."""
    return (queries[:, :, None] + keys[:, None]).sigmoid_() @ value


def mean(scores: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
    """Weight keys (B, S, H) by the softmax of scores (B, T, S) over the steps that are no padding (B, S)."""
    return scores.masked_fill(padding[:, None], -torch.inf).softmax(2) @ keys


def attention_of(kind: str, hidden: int, recompute: str = AUTO) -> Attention:
    """Make an attention of a kind; ``ValueError`` if there is no such kind or mode."""
    one_of(KINDS)("attention", kind)
    return AdditiveAttention(hidden, recompute=recompute) if kind == ADDITIVE else DotAttention(recompute)
