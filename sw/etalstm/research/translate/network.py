"""The network: encoder, decoder, attention and output.

Dimensions: B pairs, S steps of the encoder, T of the decoder, H units, L layers, E sizes of an embedding, V tokens of
the target language, N real steps of a batch's targets.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from etalstm.nn import LSTM
from etalstm.nn.recompute import AUTO
from etalstm.research.translate.attention import attention_of
from etalstm.research.translate.corpus import PADDING, Batch
from etalstm.research.translate_settings import Sizes

State = tuple[Tensor, Tensor]
_SIZES = Sizes()


@dataclass(frozen=True)
class Memory:
    """A source as the decoder reads it: the encoder's outputs (B, S, H), and which steps are padding (B, S)."""

    keys: Tensor
    padding: Tensor

    def repeated(self, times: int) -> "Memory":
        """Give each sentence so many times, one after the other."""
        return Memory(self.keys.repeat_interleave(times, 0), self.padding.repeat_interleave(times, 0))


class Translator(nn.Module):
    """Encoder and decoder with attention.

    The attention reads the decoder's outputs, as Luong et al. have it: ``a = tanh(W [mean; h])`` goes to the output
    layer, and not into the decoder's next step. So with the target given, the decoder is one call of the LSTM for all
    steps, whichever way the attention makes its scores. `recompute` says whether the attention's maps are computed
    again: see :class:`etalstm.research.translate.attention.Attention`. Other arguments are those of
    :class:`etalstm.nn.LSTM`: ``engine``, ``storage``, ``theta``, ``slices``, ``input_threshold``, ``arithmetic``,
    ``delta_bits``.
    """

    def __init__(self, source_tokens: int, target_tokens: int, sizes: Sizes = _SIZES, recompute: str = AUTO, **lstm):
        super().__init__()
        hidden, embedding = sizes.hidden, sizes.embedding
        common = {"num_layers": sizes.layers, "dropout": sizes.dropout if sizes.layers > 1 else 0.0, **lstm}
        self.source_embedding = nn.Embedding(source_tokens, embedding, padding_idx=PADDING)
        self.target_embedding = nn.Embedding(target_tokens, embedding, padding_idx=PADDING)
        self.encoder = LSTM(embedding, hidden // 2, bidirectional=True, **common)
        self.decoder = LSTM(embedding, hidden, **common)
        self.attention = attention_of(sizes.attention, hidden, recompute)
        self.combine, self.output = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, target_tokens)
        self.dropout = nn.Dropout(sizes.dropout)

    def set_delta_threshold(self, threshold: float) -> None:
        """Set the threshold of δ of all LSTMs, for the passes that follow."""
        self.encoder.delta_threshold = self.decoder.delta_threshold = threshold

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, State]:
        """Read sources (B, S) of lengths (B,); give the attention's memory, and the decoder's first state."""
        embedded = self.dropout(self.source_embedding(source))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        outputs, (h, c) = self.encoder(packed)
        keys, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
        padding = torch.arange(source.shape[1]) >= lengths[:, None]  # lengths are the host's, as packing wants them
        return Memory(keys, padding.to(keys.device)), (_joined(h), _joined(c))

    def forward(self, batch: Batch) -> Tensor:
        """Give the scores of the target's real steps, (N, V), sentence by sentence."""
        memory, state = self.encode(batch.source, batch.source_lengths)
        embedded = self.dropout(self.target_embedding(batch.given))
        packed = pack_padded_sequence(embedded, batch.target_lengths, batch_first=True, enforce_sorted=False)
        queries, _ = pad_packed_sequence(self.decoder(packed, state)[0], batch_first=True)
        return self.output(self._attend(queries, memory)[real_steps(batch)])

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Read a token of each sentence (B,); give scores (B, V) of the next one, and the state."""
        outputs, state = self.decoder(self.target_embedding(tokens)[None], state)
        return self.output(self._attend(outputs.transpose(0, 1), memory)[:, 0]), state

    def _attend(self, queries: Tensor, memory: Memory) -> Tensor:
        means = self.attention(queries, memory.keys, memory.padding)
        return self.dropout(torch.tanh(self.combine(torch.cat([means, queries], 2))))


def real_steps(batch: Batch) -> Tensor:
    """Tell which steps of a batch's targets are no padding: bool, (B, T)."""
    real = torch.arange(batch.wanted.shape[1]) < batch.target_lengths[:, None]
    return real.to(batch.wanted.device)


def loss_of(scores: Tensor, batch: Batch) -> Tensor:
    """Give the mean over the real steps of the wanted tokens' negative log-probabilities."""
    return nn.functional.cross_entropy(scores, batch.wanted[real_steps(batch)])


def _joined(states: Tensor) -> Tensor:
    """Make the decoder's state (L, B, H) of both directions' (2L, B, H/2)."""
    forwards, backwards = states[::2], states[1::2]
    return torch.cat([forwards, backwards], 2)
