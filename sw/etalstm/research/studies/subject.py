"""The kinds of networks that a study trains, and their scores."""

import dataclasses
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from etalstm.data import BROUGHT
from etalstm.data.dataset import LANGUAGE, REGRESS
from etalstm.device import open_device
from etalstm.research.studies.reduction import Reduction
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings


@dataclass(frozen=True)
class Score:
    """A score, and how it is shown."""

    # title, unit: what it is; the unit is empty if it has none
    title: str
    unit: str = ""
    factor: int = 1  # what it is multiplied by to be shown in this unit
    places: int = 3  # behind the decimal point
    lower: bool = True  # a lower one is better
    tolerance: float = 0.01  # by how much a reduced network may be worse than a dense one
    relative: bool = True  # the tolerance is a share of the dense network's score

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} {self.unit}".rstrip()

    @property
    def label(self) -> str:
        """Label of an axis with scores on the test split, which are drawn without the factor."""
        return f"test {self.title}" + (f", {self.unit}" if self.unit and self.factor == 1 else "")

    @property
    def tolerance_text(self) -> str:
        """Write the tolerance with its unit."""
        if self.relative:
            return f"{100 * self.tolerance:g} %"
        return f"{self.factor * self.tolerance:g} {'points' if self.unit else self.title}"

    def loss(self, score: float, dense: float) -> float:
        """Give by how much a score is worse than that of a dense network, as the tolerance counts it."""
        worse = score - dense if self.lower else dense - score
        return worse / dense if self.relative else worse

    def text(self, *values: float) -> str:
        """Write the score, and its deviation if that is given, too."""
        return " ± ".join(f"{self.factor * value:.{self.places}f}" for value in values)


# By the name that an evaluation has for it. Of several the first is the score of a study.
SCORES = {
    "accuracy": Score("accuracy", "%", 100, 1, lower=False, tolerance=0.005, relative=False),
    "perplexity": Score("perplexity"),
    "ade": Score("mean displacement error", "m"),
    "fde": Score("final displacement error", "m"),
    "bleu": Score("BLEU", places=2, lower=False, tolerance=0.2, relative=False),
    "bleu_beam": Score("BLEU with a beam", places=2, lower=False, tolerance=0.2, relative=False),
    "rmse": Score("root of the mean squared error"),
}
OF_DATASETS = {"pydoc": "perplexity", "ptb": "perplexity", "ethucy": "ade"}
OF_TASKS = {LANGUAGE: "perplexity", REGRESS: "rmse"}


def score_name(settings: dict) -> str:
    """Give the name of the score of a study with some settings; only those of a translation model have ``source``."""
    if "source" in settings:
        return "bleu"
    return OF_DATASETS.get(settings["dataset"]) or OF_TASKS.get(settings.get("task") or "", "accuracy")


def score_of(entry: dict) -> float | None:
    """Give the score of an evaluation, None if it has none."""
    return next((entry[name] for name in SCORES if name in entry), None)


def others_of(entry: dict) -> dict[str, float]:
    """Give the further scores of an evaluation."""
    return {name: entry[name] for name in [name for name in SCORES if name in entry][1:]}


class Subject(ABC):
    """A kind of network with the settings of its runs, a dataclass. Settings come as a dict where a file names them."""

    command: ClassVar[str]  # of ``eta-lstm``
    named: ClassVar[tuple[str, ...]]  # settings that name the data
    sizes: ClassVar[tuple[str, ...]]  # those that a page shows, defaults too

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
        """Give the score of the networks."""
        return SCORES[score_name(settings)]


class Network(Subject):
    """The networks of ``eta-lstm train``."""

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
