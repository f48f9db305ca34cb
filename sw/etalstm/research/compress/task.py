"""Tasks: data, a model, and how much worse than the dense start a smaller model may be.

There are two: a language model, and a speech model trained with CTC.

Dimensions: B utterances, T steps, I features of a step, C characters and the blank.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from etalstm.data.an4 import An4
from etalstm.data.dataset import Batch
from etalstm.data.speech import BLANK, CLASSES, SpeechBatch, collapsed, edit_distance
from etalstm.data.streams import Ptb
from etalstm.research.compress.network import MaskedNetwork, Network, Sizes, States
from etalstm.research.compress_settings import LANGUAGE, SPEECH, CompressSettings


class LanguageModel(Network):
    """Predicts the next word at every step, in one direction.

    Inputs of the sizes are those of an embedding, outputs words. `dropout` is the share that is dropped of embeddings,
    between layers and before the output, in training. Other arguments are those of :class:`etalstm.nn.LSTM`.
    """

    embedding: nn.Embedding

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


class SpeechModel(Network):
    """Gives log-probabilities of the characters and the blank at every step. Utterances are packed, without padding.

    Parameters as :class:`etalstm.research.compress.network.Network`, without embedding.
    """

    def forward(self, x: PackedSequence) -> PackedSequence:
        """Give log-probabilities (C) for the features (I) of every step."""
        found, _ = self.run_layers(x, self.no_states())
        return found._replace(data=self.output(found.data).log_softmax(-1))

    def loss(self, batch: SpeechBatch, states: States) -> tuple[Tensor, States]:
        """Give the CTC loss of a batch: the mean of the utterances' losses, each over its number of characters."""
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


class Task(ABC):
    """A task; :class:`DataError` if the data are missing or damaged."""

    SCORE: ClassVar[str]  # name of the score in the log; less is better
    NETWORK: ClassVar[type[MaskedNetwork]]
    sizes: Sizes  # of the dense start
    steps: int  # of the iteration whose cycles count
    fingerprint: int  # of the data

    def __init__(self, settings: CompressSettings):
        self._settings = settings

    def network(self, engine) -> MaskedNetwork:
        """Make the network of the dense start, on an engine."""
        return self.NETWORK(self.sizes, self._settings.dropout, engine=engine)

    @abstractmethod
    def training(self, epoch: int) -> Sequence[Any]:
        """Give the batches of an epoch; epochs are numbered over the whole run, from 0."""

    @abstractmethod
    def evaluation(self, split: str) -> Sequence[Any]:
        """Give the batches of a split, all of it."""

    @abstractmethod
    def limit(self, dense: float) -> float:
        """Give the largest score that is accepted, for the score of the dense start."""


class Language(Task):
    """The next word of PTB."""

    SCORE = "perplexity"
    NETWORK = MaskedLanguageModel

    def __init__(self, settings: CompressSettings):
        super().__init__(settings)
        text = Ptb(Path(settings.data))
        limits = {"train": settings.tokens, "validation": settings.evaluated, "test": settings.evaluated}
        self._text, self.fingerprint, self.steps = text.first(limits), text.fingerprint, settings.steps
        units = (settings.hidden,) * settings.layers
        self.sizes = Sizes(text.classes, settings.embedding, units, cell=settings.cell)

    def training(self, epoch):
        """Give the text's segments, in its order in every epoch; a last, shorter one is dropped."""
        no_draws = np.random.default_rng(0)  # only says that the last segment is dropped
        return self._text.epoch("train", self._settings.batch, self.steps, no_draws)

    def evaluation(self, split):
        """Give the text's segments."""
        return self._text.epoch(split, self._settings.batch, self.steps)

    def limit(self, dense):
        """Give a perplexity that is above the dense start's by a share."""
        return dense * (1 + self._settings.tolerance)


class Speech(Task):
    """The characters of AN4's utterances."""

    SCORE = "character_error_rate"
    NETWORK = MaskedSpeechModel

    def __init__(self, settings: CompressSettings):
        super().__init__(settings)
        self._data = An4(Path(settings.data), settings.stack)
        self.fingerprint, self.steps = self._data.fingerprint, self._data.steps
        units, directions = (settings.hidden,) * settings.layers, 1 + settings.bidirectional
        self.sizes = Sizes(CLASSES, self._data.input_size, units, directions, settings.cell)

    def training(self, epoch):
        """Give batches of utterances of similar length, others in every epoch."""
        return self._data.training(self._settings.batch, np.random.default_rng([self._settings.seed, epoch]))

    def evaluation(self, split):
        """Give all utterances."""
        return self._data.evaluation(split, self._settings.batch)

    def limit(self, dense):
        """Give an error rate that is above the dense start's by some points."""
        return dense + self._settings.tolerance


TASKS: dict[str, type[Task]] = {LANGUAGE: Language, SPEECH: Speech}
