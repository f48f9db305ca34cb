"""Trains a translation model, and leaves a folder."""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from etalstm.device import Device
from etalstm.host.durable import write_whole
from etalstm.network.storage import Usage
from etalstm.nn.notes import counting
from etalstm.nn.training import iterate
from etalstm.research.module_run import ModuleRun
from etalstm.research.studies.subject import Subject
from etalstm.research.translate import trained
from etalstm.research.translate.corpus import Batch, Corpus, Vocabularies, read_corpus
from etalstm.research.translate.network import loss_of
from etalstm.research.translate.trained import TranslationCheckpoint, TranslationPosition
from etalstm.research.translate_settings import TranslationSettings
from etalstm.train.control import DELTA_START, ShareControl
from etalstm.train.folder import RunFolder
from etalstm.train.loop import Interrupt

BEAM = 5  # of the test at a run's end


class Trainer(ModuleRun[TranslationSettings, TranslationPosition]):
    """A run. Entries of its log are of kind ``iteration``, ``epoch``, ``test`` and ``interrupted``.

    The folder is open. It has, in the files of :mod:`etalstm.train.folder`, the settings, the log, the last checkpoint,
    that with the lowest validation loss, and the vocabularies. With `resume` the run goes on from the last checkpoint;
    the bits are those of a run that was never interrupted. :class:`RunError` or :class:`CheckpointError` if the
    folder's files are not those of such a run.
    """

    def __init__(
        self, settings: TranslationSettings, corpus: Corpus, folder: RunFolder, engine: str | Device,
        resume: bool = False,
    ):  # fmt: skip
        super().__init__(settings, folder, TranslationPosition(), resume)
        self._corpus = corpus
        self._vocabularies = corpus.vocabularies.text_of_file()
        self.model = trained.make_model(settings, corpus.vocabularies, engine)
        self.optimizer = torch.optim.Adam(self.model.parameters(), settings.learning_rate)
        self.trained = trained.Trained(self.model, corpus.vocabularies, settings.longest)
        target = settings.delta_target
        self._pruning = None if target is None else ShareControl(target, DELTA_START)
        self._batches = -(-len(corpus.training[0]) // settings.batch)
        if resume:
            self._go_on()

    def _go_on(self) -> None:
        path = self._folder.checkpoint
        Vocabularies.load(self._folder.encoding, self._settings.reading)
        checkpoint = self._read(path)
        checkpoint.load(path, self.model, self.optimizer)
        self.position = checkpoint.description.position
        if self._pruning and self.position.delta_threshold is not None:
            self._pruning.threshold = self.position.delta_threshold

    def _read(self, path: Path) -> TranslationCheckpoint:
        return TranslationCheckpoint.of_translation(path, self._settings.identity, self._vocabularies)

    def _write_first(self) -> None:
        write_whole(self._folder.encoding, self._vocabularies)

    def _entries(self, interrupt: Interrupt) -> Iterator[dict]:
        while self.position.epoch < self._settings.epochs:
            for batch in self._epoch()[self.position.batch :]:
                yield self._iterate(batch)
                if interrupt.requested:
                    yield self._interrupted(interrupt)
                    return
            yield self._end_epoch()
        yield self._test()

    def _epoch(self) -> list[Batch]:
        generator = np.random.default_rng([self._settings.seed, self.position.epoch])
        return trained.batches_of(*self._corpus.training, self._settings.batch, generator)

    def _iterate(self, batch: Batch) -> dict:
        """Take a step of Adam; dropout draws from the seed and the iteration's number."""
        settings, iteration = self._settings, self.position.iteration
        share = iteration / (settings.epochs * self._batches)
        if self._pruning:
            self.model.set_delta_threshold(self._pruning.threshold)
        with counting() as usages:
            loss, norm = iterate(
                self.model, self.optimizer, lambda: loss_of(self.model(batch), batch),
                rate=settings.learning_rate * (1 - share), clip=settings.clip, seed=settings.seed, number=iteration,
            )  # fmt: skip
        reductions = sum(usages, Usage()).summary() if usages else {}
        if self._pruning:
            self._pruning.take(reductions["delta_density"])
        threshold = self._pruning and self._pruning.threshold
        self._move(iteration=iteration + 1, batch=self.position.batch + 1, delta_threshold=threshold)
        return {"kind": "iteration", **self._counts(), "loss": loss, "norm": norm} | reductions

    def _end_epoch(self) -> dict:
        loss = self.trained.loss(self._corpus.validation)
        score, signature = self.trained.score(self._corpus.validation)
        best = self.position.best is None or loss < self.position.best
        self._move(epoch=self.position.epoch + 1, batch=0, best=loss if best else self.position.best)
        if best:
            self._take_checkpoint().write(self._folder.best)
        self._save()
        entry = {"kind": "epoch", **self._counts(), "loss": loss, "bleu": score, "signature": signature}
        return self._timed(entry)

    def _take_checkpoint(self) -> TranslationCheckpoint:
        run = self._settings.identity, self._vocabularies, self.position
        return TranslationCheckpoint.of(self.model, self.optimizer, *run)

    def _test(self) -> dict:
        """Score the model with the lowest validation loss on the test split, or the validation split without one."""
        path, pairs = self._folder.best, self._corpus.test or self._corpus.validation
        self._read(path).load(path, self.model)
        greedy, signature = self.trained.score(pairs)
        beam, _ = self.trained.score(pairs, BEAM)
        return {
            "kind": "test", **self._counts(), "split": "test" if self._corpus.test else "validation",
            "loss": self.trained.loss(pairs), "bleu": greedy, "bleu_beam": beam, "beam": BEAM, "signature": signature,
        }  # fmt: skip


# Fields of a Reduction that a translation model has
REDUCED = ("storage", "theta", "delta_target", "input_threshold", "arithmetic", "delta_bits")


class Translation(Subject):
    """A translation model, judged by BLEU."""

    command = "research study translation"
    named = ("source", "target")
    sizes = ("hidden", "layers", "batch", "embedding", "epochs", "learning_rate", "attention")

    def defaults(self, settings):
        """Give all settings for the same languages with their defaults."""
        return dataclasses.asdict(TranslationSettings("", settings["source"], settings["target"]))

    def reduced(self, settings: TranslationSettings, reduction, seed):
        """Give the settings with a seed and a reduction; ``ValueError`` if a translation model cannot be reduced so."""
        chosen = dataclasses.asdict(reduction)
        for field in dataclasses.fields(reduction):
            if field.name not in REDUCED and chosen[field.name] != field.default:
                raise ValueError(f"a translation model has no {field.name}: it must be off, got {chosen[field.name]}")
        return dataclasses.replace(settings, **{name: chosen[name] for name in REDUCED}, seed=seed)

    def train(self, settings: TranslationSettings):
        """Train once in a folder that is removed again."""
        entries: list[dict] = []
        with tempfile.TemporaryDirectory() as directory, RunFolder(Path(directory)) as folder:
            folder.open(False)
            last = Trainer(settings, read_corpus(settings), folder, settings.engine).run(entries.append)
        if last["kind"] != "test":
            raise KeyboardInterrupt
        return entries

    def title(self, settings):
        """Name both languages."""
        return f"translation from {settings['source']} to {settings['target']}"

    def data_option(self, settings):
        """Name the folder of the sentence pairs."""
        return " --data DIR"
