"""A model with its vocabularies, which translates texts and is scored. Checkpoints of such models."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import Field
from sacrebleu.metrics import BLEU

from etalstm.device import Device
from etalstm.errors import CheckpointError
from etalstm.network.delta_inputs import read_input_thresholds
from etalstm.nn.training import state_of
from etalstm.research.module_run import ModuleCheckpoint, ModuleDescription, ModulePosition
from etalstm.research.translate.corpus import Batch, Pairs, Vocabularies, batch_of, by_length, padded
from etalstm.research.translate.network import Translator, loss_of
from etalstm.research.translate.search import beam_search, greedy_search
from etalstm.research.translate_settings import SPACES, Tokens, TranslationSettings
from etalstm.train.control import LEAST, MOST
from etalstm.train.folder import RunFolder


class TranslationPosition(ModulePosition):
    """The position of a run, its lowest validation loss, and the next iteration's threshold of δ, if any."""

    best: float | None = None
    delta_threshold: float | None = Field(default=None, ge=LEAST, le=MOST)


class TranslationDescription(ModuleDescription):
    """All of a checkpoint but its tensors; `vocabularies` is the digest of their file."""

    vocabularies: str
    position: TranslationPosition


@dataclass(frozen=True)
class TranslationCheckpoint(ModuleCheckpoint[TranslationDescription]):
    """A model, the state of Adam, and the position of the run."""

    KEY, FORMAT, WHAT = "etalstm-translate", 2, "checkpoint of a translation model"
    DESCRIPTION = TranslationDescription

    @classmethod
    def of(
        cls, model: torch.nn.Module, optimizer: torch.optim.Adam, identity: dict, vocabularies: str,
        position: TranslationPosition,
    ) -> Self:  # fmt: skip
        """Take the checkpoint of a run; `vocabularies` is the text of their file."""
        found = TranslationDescription(identity=identity, vocabularies=_digest(vocabularies), position=position)
        return cls(found, state_of(model, optimizer, position.adam_steps))

    @classmethod
    def of_translation(cls, path: Path, identity: dict, vocabularies: str) -> Self:
        """Read the checkpoint of a run; raises as :meth:`of_run`, and if the vocabularies are others."""
        found = cls.of_run(path, identity)
        if found.description.vocabularies != _digest(vocabularies):
            raise CheckpointError(f"{path}: of another run: its vocabularies are not those here")
        return found


def _digest(text: str) -> str:
    """Give the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def bleu(translations: Sequence[str], references: Sequence[str], tokens: Tokens) -> tuple[float, str]:
    """Score translations, one reference each: give the corpus's BLEU, 0 to 100, and sacrebleu's signature.

    Texts that white space divides already are not divided again (``tok:none``).
    """
    metric = BLEU(lowercase=tokens.lower, tokenize="none" if tokens.unit == SPACES else "13a", force=True)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return float(score), str(metric.get_signature())


BATCH = 64  # sentences that are translated at once


@dataclass(frozen=True)
class Trained:
    """A model with its vocabularies; a translation is cut after `longest` tokens."""

    model: Translator
    vocabularies: Vocabularies
    longest: int

    def translate(self, texts: Sequence[str], beam: int = 1) -> list[str]:
        """Translate texts, greedily or with a beam; a blank text's translation is empty."""
        words = self.vocabularies
        sources = [words.source.numbers(words.tokens.of(text)) for text in texts]
        found = [""] * len(texts)
        real = [number for number, source in enumerate(sources) if source]
        self.model.eval()
        for batch in by_length([(len(sources[number]),) for number in real], BATCH):
            numbers = [real[number] for number in batch]
            source = padded([sources[number] for number in numbers])
            for number, tokens in zip(numbers, self._search(*source, beam), strict=True):
                found[number] = words.target.text(tokens)
        return found

    def _search(self, source: torch.Tensor, lengths: torch.Tensor, beam: int) -> list[list[int]]:
        if beam == 1:
            return greedy_search(self.model, source, lengths, self.longest)
        return beam_search(self.model, source, lengths, self.longest, beam)

    def score(self, pairs: Pairs, beam: int = 1) -> tuple[float, str]:
        """Give BLEU and its signature."""
        tokens = self.vocabularies.tokens
        return bleu(self.translate(pairs.source, beam), pairs.target, tokens)

    @torch.no_grad()
    def loss(self, pairs: Pairs) -> float:
        """Give the mean loss over all real steps of the targets."""
        sources, targets = self.vocabularies.numbers(pairs)
        self.model.eval()
        total, steps = 0.0, 0
        for batch in batches_of(sources, targets, BATCH):
            count = int(batch.target_lengths.sum())
            total += float(loss_of(self.model(batch), batch)) * count
            steps += count
        return total / steps


def batches_of(sources: list, targets: list, size: int, generator=None) -> list[Batch]:
    """Divide pairs of sentences into padded batches, as :func:`etalstm.research.translate.corpus.by_length` does."""
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    numbers = by_length(lengths, size, generator)
    return [batch_of([sources[n] for n in batch], [targets[n] for n in batch]) for batch in numbers]


def make_model(settings: TranslationSettings, vocabularies: Vocabularies, engine: str | Device) -> Translator:
    """Make a model with first weights that the seed gives."""
    names = ("recompute", "storage", "theta", "slices", "arithmetic", "delta_bits")
    arguments: dict[str, Any] = {name: getattr(settings, name) for name in names}
    arguments["input_threshold"] = read_input_thresholds(settings.input_threshold)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return Translator(
            len(vocabularies.source), len(vocabularies.target), settings.sizes, engine=engine, **arguments
        )


def load(path: Path | str, engine: str | Device = "golden", last: bool = False) -> tuple[TranslationSettings, Trained]:
    """Load the model of a run's folder, with the lowest validation loss, or of its last checkpoint with `last`.

    :class:`RunError` or :class:`CheckpointError`, naming the file, if one is missing or damaged.
    """
    folder = RunFolder(path)
    settings = TranslationSettings.load(folder.settings)
    vocabularies = Vocabularies.load(folder.encoding, settings.reading)
    model = make_model(settings, vocabularies, engine)
    file = folder.checkpoint if last else folder.best
    words = vocabularies.text_of_file()
    TranslationCheckpoint.of_translation(file, settings.identity, words).load(file, model)
    return settings, Trained(model, vocabularies, settings.longest)
