"""The settings of a run of ``eta-lstm research compress``, and the file that they stand in."""

from dataclasses import dataclass
from typing import ClassVar, Self

from etalstm.network.cells.lstm import LSTM
from etalstm.network.cells.named import cell_named
from etalstm.network.shape import check_size
from etalstm.network.storage import check_share
from etalstm.train.going_on import RunSettings

LANGUAGE, SPEECH = "language", "speech"
DENSE = "dense"
GROW_WEIGHTS, PRUNE_UNITS, GROW_UNITS, PRUNE_WEIGHTS = "grow-weights", "prune-units", "grow-units", "prune-weights"
PHASES = (GROW_WEIGHTS, PRUNE_UNITS, GROW_UNITS, PRUNE_WEIGHTS)
ALL, GROWTH = "all", "growth"
SIZES = (
    "hidden", "embedding", "layers", "batch", "steps", "epochs", "retrain_epochs", "rounds", "gradient_batches",
    "stack",
)  # fmt: skip
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


@dataclass(frozen=True)
class CompressSettings(RunSettings):
    """What a run is given.

    Members
    -------
    data : str                        directory of PTB's files, or of AN4's archive
    task : str                        ``language`` or ``speech``
    phases : tuple of str             steps after the dense start, in this order
    engine : str                      what computes the LSTMs
    preset : str                      whose cycles count; with an engine that is no golden one, its configuration
    cell : str                        ``lstm``, or ``hlstm``, whose units can be removed but not grown again
    hidden, layers : int
    embedding : int                   of the language model
    bidirectional : bool              of the speech model: layers of two directions, which no step on units can change
    stack : int                       of speech: frames that make one step
    dropout : float
    batch : int                       B
    steps : int                       T, of language
    tokens, evaluated : int or None   the first so many words of the training text, and of each other one; all if None
    epochs : int                      of the dense start, and of growing weights
    retrain_epochs : int              after each other change
    learning_rate, retrain_rate : float
        Of Adam, at the start of a round; it falls to 0 in a straight line.
    clip : float                      largest norm of the gradient
    seed : int
    density : float                   share of the weights in the sparse seed
    growth : float                    ratio of weight growth, at the end of each of the first `growth_epochs` epochs
    growth_epochs : int               after the last epoch nothing grows, whatever this says
    unit_ratio, weight_ratio : float  first ratios of pruning; halved where accuracy is lost
    rounds : int                      most rounds of a pruning step
    tolerance : float
        How far the score on validation may be above the dense start's: perplexity by a share of it, character error
        rate by points of a percent.
    gradient_batches : int            training batches whose mean gradient says what grows
    profile : str or None             file that guides units
    input_profile : str or None       file that guides inputs
    guided : str                      ``all``: pruning and growth; ``growth``: pruning ignores the profile
    grow_to : int or None             units of each layer after growth, instead of a profile
    target : float or None            how many times fewer LSTM parameters than the dense start; pruning ends there
    start : str or None               folder of a run whose dense start is taken; None: a dense start is trained

    Raises
    ------
    ValueError
        If a value cannot be; the message names both.
    """

    COMMAND: ClassVar[str] = "eta-lstm research compress"
    MAY_DIFFER: ClassVar[tuple[str, ...]] = (
        "data", "engine", "preset", "rounds", "target", "start", "profile", "input_profile",
    )  # fmt: skip

    data: str
    task: str = LANGUAGE
    phases: tuple[str, ...] = PHASES
    engine: str = "golden"
    preset: str = "vcu128"
    cell: str = LSTM.name
    hidden: int = 200
    embedding: int = 200
    layers: int = 2
    bidirectional: bool = False
    stack: int = 3
    dropout: float = 0.2
    batch: int = 20
    steps: int = 35
    tokens: int | None = None
    evaluated: int | None = None
    epochs: int = 14
    retrain_epochs: int = 2
    learning_rate: float = 0.002
    retrain_rate: float = 0.0005
    clip: float = 1.0
    seed: int = 0
    density: float = 0.3
    growth: float = 0.1
    growth_epochs: int = 3
    unit_ratio: float = 0.2
    weight_ratio: float = 0.5
    rounds: int = 8
    tolerance: float = 0.01
    gradient_batches: int = 50
    profile: str | None = None
    input_profile: str | None = None
    guided: str = ALL
    grow_to: int | None = None
    target: float | None = None
    start: str | None = None

    @classmethod
    def of(cls, given: dict) -> Self:
        """Give settings of which some are given. The others are the task's defaults, and all steps that can be."""
        found = {"phases": _steps_for(given)} | DEFAULTS.get(given.get("task", LANGUAGE), {}) | given
        return cls(**found)

    @property
    def of_dense_start(self) -> dict:
        """What must agree for runs to have the same dense start."""
        return {name: getattr(self, name) for name in OF_DENSE_START}

    def __post_init__(self):
        if self.task not in DEFAULTS:
            raise ValueError(f"task must be {' or '.join(DEFAULTS)}, got {self.task!r}")
        for name in SIZES:
            check_size(name, getattr(self, name))
        for name in ("tokens", "evaluated", "grow_to"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        for name in ("density", "growth"):
            check_share(name, getattr(self, name))
        for name in ("learning_rate", "retrain_rate", "clip"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)!r}")
        for name in ("unit_ratio", "weight_ratio"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be above 0 and below 1, got {getattr(self, name)!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout!r}")
        if not 0 <= self.tolerance < float("inf"):
            raise ValueError(f"tolerance must be at least 0 and finite, got {self.tolerance!r}")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be at least 0 and below 2^63, got {self.seed}")
        if self.target is not None and not 1 < self.target < float("inf"):
            raise ValueError(f"target must be above 1 and finite, got {self.target!r}")
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
        if self.growth_epochs < 0:
            raise ValueError(f"growth_epochs must be at least 0, got {self.growth_epochs}")
        if self.guided not in (ALL, GROWTH):
            raise ValueError(f"guided must be {ALL} or {GROWTH}, got {self.guided!r}")
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


def _steps_for(given: dict) -> tuple[str, ...]:
    """Give the steps that can be: units of two directions stay, and grow only where something says how far."""
    left_out = set()
    if given.get("bidirectional"):
        left_out = {PRUNE_UNITS, GROW_UNITS}
    guided = given.get("profile") is not None or given.get("grow_to") is not None
    if not guided or given.get("cell", LSTM.name) != LSTM.name:
        left_out.add(GROW_UNITS)
    return tuple(phase for phase in PHASES if phase not in left_out)


Settings = CompressSettings  # the name by which the command line knows them
