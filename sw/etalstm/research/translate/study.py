"""What ``eta-lstm research study translation`` trains."""

import dataclasses
import tempfile
from pathlib import Path

from etalstm.research.studies.subject import Subject
from etalstm.research.translate.corpus import read_corpus
from etalstm.research.translate.settings import TranslationSettings
from etalstm.research.translate.trainer import Trainer
from etalstm.train.folder import RunFolder

REDUCED = ("storage", "theta", "delta_target", "input_threshold")  # fields of a Reduction that a translation model has


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
        with tempfile.TemporaryDirectory() as place, RunFolder(Path(place)) as folder:
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
