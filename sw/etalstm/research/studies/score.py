"""What the networks of a study are judged by."""

from dataclasses import dataclass

from etalstm.data.dataset import LANGUAGE, REGRESS


@dataclass(frozen=True)
class Score:
    """A score, and how it is shown.

    Members
    -------
    title : str
        What it is.
    unit : str
        Empty if it has none.
    factor : int
        What it is multiplied by to be shown in this unit.
    places : int
        Behind the decimal point.
    lower : bool
        A lower one is better.
    tolerance : float
        By how much a reduced network may be worse than a dense one.
    relative : bool
        The tolerance is a share of the dense network's score.
    """

    title: str
    unit: str = ""
    factor: int = 1
    places: int = 3
    lower: bool = True
    tolerance: float = 0.01
    relative: bool = True

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} {self.unit}".rstrip()

    @property
    def label(self) -> str:
        """What stands at an axis of scores on the test split, which are drawn as they are."""
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
    """Give the name of the score of a study with some settings; those of a translation model name a language."""
    if "source" in settings:
        return "bleu"
    return OF_DATASETS.get(settings["dataset"]) or OF_TASKS.get(settings.get("task") or "", "accuracy")


def score_of(entry: dict) -> float | None:
    """Give the score of an evaluation, None if it has none."""
    return next((entry[name] for name in SCORES if name in entry), None)


def others_of(entry: dict) -> dict[str, float]:
    """Give what else an evaluation was judged by."""
    return {name: entry[name] for name in [name for name in SCORES if name in entry][1:]}
