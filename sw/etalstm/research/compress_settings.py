"""The settings of a run of ``eta-lstm research compress``, and the file that they stand in."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from etalstm.device import DEVICES, GOLDEN
from etalstm.network.cells import cell_named
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import CELL_HELP, PRESET_HELP
from etalstm.network.shape import check_size
from etalstm.network.storage import check_share
from etalstm.train.declared import ALWAYS, REQUIRED, Bound, RunSettings, Unused, absolute, bound, check_bounds, setting

LANGUAGE, SPEECH = "language", "speech"
DENSE = "dense"
GROW_WEIGHTS, PRUNE_UNITS, GROW_UNITS, PRUNE_WEIGHTS = "grow-weights", "prune-units", "grow-units", "prune-weights"
PHASES = (GROW_WEIGHTS, PRUNE_UNITS, GROW_UNITS, PRUNE_WEIGHTS)
ALL, GROWTH = "all", "growth"
DEFAULTS = {
    LANGUAGE: {},
    SPEECH: {
        "hidden": 128, "batch": 16, "epochs": 60, "retrain_epochs": 4, "learning_rate": 0.004, "retrain_rate": 0.002,
        "clip": 5.0, "density": 0.5, "growth_epochs": 6, "weight_ratio": 0.7, "tolerance": 1.0,
    },
}  # fmt: skip
"""Settings of a task that are not the class's own defaults."""
OF_DENSE_START = (
    "task", "cell", "hidden", "embedding", "layers", "bidirectional", "stack", "dropout", "batch", "steps", "tokens",
    "evaluated", "epochs", "learning_rate", "clip", "seed",
)  # fmt: skip
"""Settings that decide which bits the dense start has, with the data."""


RUN, DATA, MODEL, LEARN, CHANGE, MACHINE = "The run", "Data", "Model", "Learning", "Steps", "Machine"
PANELS = (RUN, DATA, MODEL, LEARN, CHANGE, MACHINE)  # panels of the help, in their order

OF_LANGUAGE = Unused(f"only used with --task {SPEECH}", lambda run, _: run.task == LANGUAGE)
OF_SPEECH = Unused(f"only used with --task {LANGUAGE}", lambda run, _: run.task == SPEECH)
WITHOUT_PROFILE = Unused(
    "only used with --profile or --input-profile", lambda run, _: run.profile is None and run.input_profile is None
)


def _without(*phases: str) -> Unused:
    """Give the condition that a run has none of these steps."""
    return Unused(f"only used with the step {' or '.join(phases)}", lambda run, _: not {*phases} & {*run.phases})


def _read_preset(_: str, text: str) -> str:
    return str(Path(text).absolute()) if Path(text).is_file() else text


def _read_phases(_: str, text: str) -> tuple[str, ...]:
    phases = tuple(phase.strip() for phase in text.split(","))
    return () if phases == (DENSE,) else phases


positive = bound("above 0 and finite", lambda value: 0 < value < math.inf)
below_1 = bound("at least 0 and below 1", lambda value: 0 <= value < 1)
seed_number = bound("at least 0 and below 2^63", lambda value: 0 <= value < 1 << 63)
_above_1 = bound("above 1 and finite", lambda value: 1 < value < math.inf)
_at_least_0 = bound("at least 0 and finite", lambda value: 0 <= value < math.inf)
_ratio = bound("above 0 and below 1", lambda value: 0 < value < 1)


def _one_of(*names: str) -> Bound:
    return bound(" or ".join(names), lambda value: value in names)


@dataclass(frozen=True)
class CompressSettings(RunSettings):
    """The settings of a run, each with its help text.

    An engine other than golden has the configuration `preset`, too. Rates fall to 0 in a straight line in every
    round. Weights grow at the end of each of the first `growth_epochs` epochs, but never after the last one. Ratios of
    pruning are halved where accuracy is lost. With `guided` ``growth`` pruning ignores the profile. Raises
    ``ValueError`` if a value cannot be; the message names both.
    """

    COMMAND: ClassVar[str] = "eta-lstm research compress"
    data: str = setting(
        REQUIRED, "Directory of ptb.train.txt, ptb.valid.txt and ptb.test.txt, or an4_mfcc13.tar.xz", DATA,
        typed=Path, read=absolute, may_differ=ALWAYS,
    )  # fmt: skip
    task: str = setting(LANGUAGE, "What is learned: language, or speech", DATA, _one_of(*DEFAULTS))
    phases: tuple[str, ...] = setting(
        PHASES,
        "Some of grow-weights, prune-units, grow-units, prune-weights, with commas between; dense: none of them "
        "[default: all that can be]", CHANGE, typed=str, read=_read_phases, depends=True,
    )  # fmt: skip
    engine: str = setting(GOLDEN, f"What computes the LSTMs: {', '.join(DEVICES)}", MACHINE, may_differ=ALWAYS)
    preset: str = setting("vcu128", f"Whose cycles count. {PRESET_HELP}", MACHINE, read=_read_preset, may_differ=ALWAYS)
    cell: str = setting(LSTM.name, f"{CELL_HELP}; without the step grow-units", MODEL)
    hidden: int = setting(
        200, "Units of each layer of the dense start [default: 200; speech: 128]", MODEL, check_size, depends=True
    )
    embedding: int = setting(200, "Size of a word's vector", MODEL, check_size, (OF_SPEECH,))
    layers: int = setting(2, "LSTM layers", MODEL, check_size)
    bidirectional: bool = setting(
        False, "A speech model of two directions, whose units stay", MODEL, unused=(OF_LANGUAGE,)
    )
    stack: int = setting(3, "Frames of speech that make one step", DATA, check_size, (OF_LANGUAGE,))
    dropout: float = setting(0.2, "Share dropped in training", MODEL, below_1)
    batch: int = setting(
        20, "Streams, or utterances, of an iteration [default: 20; speech: 16]", LEARN, check_size, depends=True
    )
    steps: int = setting(35, "Words of each stream in an iteration", LEARN, check_size, (OF_SPEECH,))
    tokens: int | None = setting(
        None, "The first so many words of the training text [default: all]", DATA, check_size, (OF_SPEECH,)
    )
    evaluated: int | None = setting(
        None, "The same of validation and test text [default: all]", DATA, check_size, (OF_SPEECH,)
    )
    epochs: int = setting(
        14, "Of the dense start, and of growing weights [default: 14; speech: 60]", LEARN, check_size, depends=True
    )
    retrain_epochs: int = setting(
        2, "After each other change [default: 2; speech: 4]", LEARN, check_size,
        (_without(PRUNE_UNITS, GROW_UNITS, PRUNE_WEIGHTS),), option="--retrain", depends=True,
    )  # fmt: skip
    learning_rate: float = setting(
        0.002, "Of Adam, at the start; it falls to 0 [default: 0.002; speech: 0.004]", LEARN, positive, option="--lr",
        depends=True,
    )  # fmt: skip
    retrain_rate: float = setting(
        0.0005, "The same after a change [default: 0.0005; speech: 0.002]", LEARN, positive,
        (_without(PRUNE_UNITS, GROW_UNITS, PRUNE_WEIGHTS),), option="--retrain-lr", depends=True,
    )  # fmt: skip
    clip: float = setting(1.0, "Largest norm of the gradient [default: 1; speech: 5]", LEARN, positive, depends=True)
    seed: int = setting(0, "Of first weights, masks and dropout", RUN, seed_number)
    density: float = setting(
        0.3, "Share of the weights in the sparse seed [default: 0.3; speech: 0.5]", CHANGE, check_share,
        (_without(GROW_WEIGHTS),), depends=True,
    )  # fmt: skip
    growth: float = setting(0.1, "Ratio of weight growth", CHANGE, check_share, (_without(GROW_WEIGHTS),))
    growth_epochs: int = setting(
        3, "Epochs after which weights grow, the first ones [default: 3; speech: 6]", CHANGE,
        bound("at least 0", lambda value: value >= 0), (_without(GROW_WEIGHTS),), depends=True,
    )  # fmt: skip
    unit_ratio: float = setting(
        0.2, "First ratio of pruning units and inputs", CHANGE, _ratio, (_without(PRUNE_UNITS),)
    )
    weight_ratio: float = setting(
        0.5, "First ratio of pruning weights [default: 0.5; speech: 0.7]", CHANGE, _ratio, (_without(PRUNE_WEIGHTS),),
        depends=True,
    )  # fmt: skip
    rounds: int = setting(
        8, "Most rounds of a step that prunes", CHANGE, check_size, (_without(PRUNE_UNITS, PRUNE_WEIGHTS),),
        may_differ=ALWAYS,
    )  # fmt: skip
    tolerance: float = setting(
        0.01, "How far above the dense start's validation may be: perplexity by a share, error rate by points "
        "[default: 0.01; speech: 1]", CHANGE, _at_least_0, depends=True,
    )  # fmt: skip
    gradient_batches: int = setting(
        50, "Training batches whose gradients say what grows", CHANGE, check_size, (_without(GROW_WEIGHTS, GROW_UNITS),)
    )
    profile: str | None = setting(
        None, "File of eta-lstm research profile latency: units stop at its points only", MACHINE,
        unused=(_without(PRUNE_UNITS, GROW_UNITS),), typed=Path, read=absolute, may_differ=ALWAYS,
    )  # fmt: skip
    input_profile: str | None = setting(
        None, "The same for the first layer's inputs", MACHINE, unused=(_without(PRUNE_UNITS, GROW_UNITS), OF_SPEECH),
        typed=Path, read=absolute, may_differ=ALWAYS,
    )  # fmt: skip
    guided: str = setting(
        ALL, "What the profile guides: all, or growth", MACHINE, _one_of(ALL, GROWTH), (WITHOUT_PROFILE,)
    )
    grow_to: int | None = setting(
        None, "Units of each layer after growth, instead of a profile", CHANGE, check_size, (_without(GROW_UNITS),)
    )
    target: float | None = setting(
        None, "So many times fewer LSTM parameters than the dense start, then stop", CHANGE, _above_1,
        (_without(PRUNE_UNITS, PRUNE_WEIGHTS),), may_differ=ALWAYS,
    )  # fmt: skip
    start: str | None = setting(
        None, "Folder of a run: take its dense start, and the settings that made it, instead of training one", RUN,
        typed=Path, read=absolute, may_differ=ALWAYS,
    )  # fmt: skip

    @classmethod
    def of(cls, given: dict) -> Self:
        """Make settings from `given` ones. The others are the task's defaults, and all steps that these allow."""
        found = {"phases": _allowed_phases(given)} | DEFAULTS.get(given.get("task", LANGUAGE), {}) | given
        return cls(**found)

    @property
    def of_dense_start(self) -> dict:
        """The settings that must agree for runs to have the same dense start."""
        return {name: getattr(self, name) for name in OF_DENSE_START}

    def __post_init__(self):
        check_bounds(self)
        self._check_phases()
        self._check_growth()
        if cell_named(self.cell) is not LSTM:
            self._check_cell()
        if self.bidirectional:
            self._check_directions()

    def _check_phases(self) -> None:
        for phase in self.phases:
            if phase not in PHASES:
                raise ValueError(f"phases must be some of {', '.join(PHASES)}, got {phase!r}")
            if self.phases.count(phase) > 1:
                raise ValueError(f"phases must name a step once, got {phase} {self.phases.count(phase)} times")
        if GROW_WEIGHTS in self.phases[1:]:
            raise ValueError(f"{GROW_WEIGHTS} begins with a sparse seed, so it must be the first of the phases")

    def _check_growth(self) -> None:
        if self.grow_to is not None and self.grow_to > self.hidden:
            raise ValueError(f"grow_to must be at most hidden, {self.hidden} units, got {self.grow_to}")
        if self.grow_to is not None and self.profile is not None:
            raise ValueError("grow_to and profile both say where growth stops: there must be one of them, got both")
        if GROW_UNITS in self.phases and self.profile is None and self.grow_to is None:
            raise ValueError(f"{GROW_UNITS} needs a profile, whose points it grows to, or grow_to; got neither")

    def _check_cell(self) -> None:
        if GROW_UNITS in self.phases:
            raise ValueError(
                f"{GROW_UNITS} needs cell {LSTM.name}, got {self.cell}: a removed unit of its hidden layers is 0, "
                "where ReLU has no gradient to grow by; leave it out of the phases"
            )
        if self.bidirectional:
            raise ValueError(f"bidirectional needs cell {LSTM.name}, got {self.cell}, which has one direction")

    def _check_directions(self) -> None:
        if self.task == LANGUAGE:
            raise ValueError(f"bidirectional is for the task {SPEECH}: a language model must not see the next word")
        for phase in self.phases:
            if phase in (PRUNE_UNITS, GROW_UNITS):
                raise ValueError(
                    f"{phase} needs layers of one direction, got bidirectional; leave it out of the phases"
                )


def _allowed_phases(given: dict) -> tuple[str, ...]:
    """Give the steps that settings allow: units of two directions stay, and growth needs a profile or `grow_to`."""
    left_out = set()
    if given.get("bidirectional"):
        left_out = {PRUNE_UNITS, GROW_UNITS}
    guided = given.get("profile") is not None or given.get("grow_to") is not None
    if not guided or given.get("cell", LSTM.name) != LSTM.name:
        left_out.add(GROW_UNITS)
    return tuple(phase for phase in PHASES if phase not in left_out)
