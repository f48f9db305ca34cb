"""What a study trains."""

import dataclasses
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from etalstm.data import BROUGHT
from etalstm.device import open_device
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.score import SCORES, Score, score_name
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings


class Subject(ABC):
    """A kind of network with the settings of its runs, a dataclass. Settings come as a dict where a file names them.

    Members
    -------
    command : str
        Of ``eta-lstm``.
    named : tuple of str
        Settings that name the data.
    sizes : tuple of str
        Those that a page shows, defaults too.
    """

    command: ClassVar[str]
    named: ClassVar[tuple[str, ...]]
    sizes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def defaults(self, settings: dict) -> dict:
        """Give all settings of the same data with their defaults."""

    @abstractmethod
    def reduced(self, settings, reduction: Reduction, seed: int):
        """Give the settings with a reduction and a seed; :class:`ValueError` if they do not go together."""

    @abstractmethod
    def train(self, settings) -> list[dict]:
        """Train once, and give the entries of the log; :class:`KeyboardInterrupt` if a signal has ended the run."""

    @abstractmethod
    def title(self, settings: dict) -> str:
        """Name the data."""

    @abstractmethod
    def data_option(self, settings: dict) -> str:
        """Give the command's option for the place of the data, with a space before it; empty if it has none."""

    def score(self, settings: dict) -> Score:
        """Give what the networks are judged by."""
        return SCORES[score_name(settings)]


class Network(Subject):
    """What ``eta-lstm train`` trains."""

    command = "research study density"
    named = ("dataset", "task")
    sizes = ("hidden", "layers", "batch", "embedding", "epochs", "learning_rate")

    def defaults(self, settings):
        """Give all settings of the same data with their defaults."""
        return dataclasses.asdict(Settings(settings["dataset"], task=settings.get("task")))

    def reduced(self, settings: Settings, reduction, seed):
        """Give the settings with a reduction and a seed."""
        return dataclasses.replace(settings, **dataclasses.asdict(reduction), seed=seed)

    def train(self, settings: Settings):
        """Train once in a folder that is removed again."""
        entries: list[dict] = []
        with tempfile.TemporaryDirectory() as folder, open_device(settings.device, settings.preset) as device:
            last = Trainer(settings, device, Path(folder)).run(entries.append)
        if last["kind"] != "test":
            raise KeyboardInterrupt
        return entries

    def title(self, settings):
        """Name the data set, or what is learnt of a file."""
        return settings["dataset"] or f"a file of one's own ({settings['task']})"

    def data_option(self, settings):
        """Tell a folder from a file."""
        return " --data DIR" if settings["dataset"] in BROUGHT else " --data FILE" if settings.get("task") else ""
