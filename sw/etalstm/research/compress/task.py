"""What a run learns: data, a network, and how much worse than the dense start a smaller one may be."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from etalstm.data.an4 import An4
from etalstm.data.speech import CLASSES
from etalstm.data.streams import Ptb
from etalstm.research.compress.models import MaskedLanguageModel, MaskedSpeechModel
from etalstm.research.compress.network import MaskedNetwork, Sizes
from etalstm.research.compress_settings import LANGUAGE, SPEECH, CompressSettings


class Task(ABC):
    """A task.

    Parameters
    ----------
    settings : CompressSettings

    Members
    -------
    SCORE : str
        Name of the score in the log; less is better.
    NETWORK : type
    sizes : Sizes
        Of the dense start.
    steps : int
        Of the iteration whose cycles count.
    fingerprint : int
        Of the data.

    Raises
    ------
    DataError
        If the data are missing or damaged.
    """

    SCORE: ClassVar[str]
    NETWORK: ClassVar[type[MaskedNetwork]]
    sizes: Sizes
    steps: int
    fingerprint: int

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
        """Give the largest score that is accepted, by that of the dense start."""


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
