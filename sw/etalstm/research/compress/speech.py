"""A speech model: stacked LSTMs, log-probabilities of characters, connectionist temporal classification (CTC).

Dimensions: B utterances, T steps, I features of a step, C characters and the blank.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from etalstm.data.characters import BLANK, collapsed, edit_distance
from etalstm.data.speech import SpeechBatch
from etalstm.research.compress.network import MaskedNetwork, Network, States


class SpeechModel(Network):
    """Gives at every step how likely each character is, and the blank. Utterances are packed: no step is padding.

    Parameters as :class:`etalstm.research.compress.network.Network`, without embedding.
    """

    def forward(self, x: PackedSequence) -> PackedSequence:
        """Give log-probabilities (C) for the features (I) of every step."""
        found, _ = self.run_layers(x, self.no_states())
        return found._replace(data=self.output(found.data).log_softmax(-1))

    def loss(self, batch: SpeechBatch, states: States) -> tuple[Tensor, States]:
        """Give the CTC loss of a batch: each utterance's by its number of characters, the mean of those."""
        found, lengths = pad_packed_sequence(self(_packed(batch)))
        labels, label_lengths = torch.from_numpy(batch.labels), torch.from_numpy(batch.label_lengths)
        return nn.functional.ctc_loss(found, labels, lengths, label_lengths, BLANK), states

    def score(self, batches: Sequence[SpeechBatch]) -> float:
        """Give the character error rate in percent: edit distances over characters, of the whole split."""
        wrong, characters = 0, 0
        for batch in batches:
            expected = np.split(batch.labels, np.cumsum(batch.label_lengths)[:-1])
            pairs = zip(self.recognised(batch), expected, strict=True)
            wrong += sum(edit_distance(*pair) for pair in pairs)
            characters += len(batch.labels)
        return 100 * wrong / characters

    def recognised(self, batch: SpeechBatch) -> list[np.ndarray]:
        """Give the labels of each utterance, by the likeliest label of every step: B arrays, int64."""
        found, lengths = pad_packed_sequence(self(_packed(batch)))
        paths = found.argmax(-1).numpy()
        return [collapsed(paths[:length, number]) for number, length in enumerate(lengths.tolist())]


class MaskedSpeechModel(MaskedNetwork, SpeechModel):
    """A speech model with masks; parameters as :class:`SpeechModel`."""

    PLAIN = SpeechModel


def _packed(batch: SpeechBatch) -> PackedSequence:
    return pack_padded_sequence(torch.from_numpy(batch.x), torch.from_numpy(batch.lengths))
