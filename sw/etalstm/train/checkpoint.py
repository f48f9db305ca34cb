"""The checkpoints of a training run: the model and all state that the run needs to go on with the same bits."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, PositiveInt

from etalstm.data.buckets import NONE
from etalstm.network.arithmetic import FLOAT32 as IN_FLOAT32
from etalstm.network.cells import cell_named
from etalstm.network.execution import FLOAT32
from etalstm.train.control import LEAST, MOST
from etalstm.train.sealed import Progress, Record, Sealed

BY_STEP = "significance.profile", "significance.reach"  # tensors whose last axis is a distance from the end


class Identity(Record):
    """The definition of the model, independent of data and training."""

    # see :func:`etalstm.network.cells.cell_named`
    cell: Annotated[str, AfterValidator(lambda name: cell_named(name).name)] = "lstm"
    task: Literal["classify", "language", "regress", "tag"]  # one of :data:`etalstm.data.TASKS`
    input_size: PositiveInt
    hidden_size: PositiveInt
    layers: PositiveInt
    outputs: PositiveInt  # classes, or numbers of a sequence
    tokens: NonNegativeInt  # different tokens; 0 where inputs are vectors
    tied: bool = False  # the output layer's weights are the embedding
    encoding: str = ""  # digest of :class:`etalstm.data.Encoding`

    @property
    def per_step(self) -> bool:
        """True if the network answers at every step, false if only at a sequence's last."""
        return self.task in ("language", "tag")


class Origin(Record):
    """The data, and the settings by their names, that must agree for a run to go on with the same bits."""

    LATER = ("arithmetic", "delta_bits", "rule")
    dataset: str
    data: NonNegativeInt
    batch: PositiveInt
    steps: PositiveInt
    slices: PositiveInt
    seed: NonNegativeInt
    optimizer: str
    input_threshold: str = "0"
    refresh: NonNegativeInt = 1
    input_target: float | None = None
    weight_format: str = FLOAT32
    arithmetic: str = IN_FLOAT32.name
    delta_bits: int | None = None
    buckets: str = NONE
    rule: str | None = None


class ChooserState(Record):
    """State of the storage ``auto``, see :class:`etalstm.train.control.Chooser`."""

    dense_for: list[NonNegativeInt]
    words: list[float]
    deltas: list[float]
    iterations: NonNegativeInt


class BestLoss(Record):
    """The lowest validation loss so far."""

    best: float | None = None  # None before the first epoch has ended
    epochs: NonNegativeInt = 0  # since that loss


class ExponentState(Record):
    """The exponents of integers, see :class:`etalstm.network.exponents.Exponents`: e_δ, and those of operands.

    There is a list of each session: of each layer with dropout, else one.
    """

    delta: list[list[int]]
    operands: list[list[list[int]]]


class Position(Progress):
    """Where a run is, and the state of what controls it."""

    LATER = ("rule", "exponents")
    chooser: ChooserState
    delta_threshold: float | None = Field(None, ge=0)  # None where δ is not pruned
    # Θ where a target moves it; None without one, and as long as everything is sent
    input_threshold: float | None = Field(None, ge=LEAST, le=MOST)
    rule: dict[str, FiniteFloat] = {}  # noqa: RUF012  what a pruning rule knows; pydantic copies the default
    exponents: ExponentState | None = None  # None with float32
    best: BestLoss = BestLoss()  # for the best checkpoint and early stopping
    plateau: BestLoss = BestLoss()  # for the schedule ``plateau``
    falls: NonNegativeInt = 0  # how often that schedule has lowered the learning rate


class Pcg64(Record):
    """The two numbers of 128 bits of the generator PCG64."""

    state: int = Field(ge=0, lt=1 << 128)
    inc: int = Field(ge=0, lt=1 << 128)


class Generator(Record):
    """State of NumPy's generator at the start of an epoch."""

    bit_generator: Literal["PCG64"]
    state: Pcg64
    has_uint32: int = Field(ge=0, le=1)
    uinteger: int = Field(ge=0, lt=1 << 32)


class Description(Record):
    """All of a checkpoint but its tensors."""

    model: Identity
    run: Origin
    position: Position
    generator: Generator


@dataclass(frozen=True)
class Checkpoint(Sealed[Description]):
    """All state that a run needs to go on with the same bits."""

    KEY, FORMAT, WHAT = "etalstm", 3, "checkpoint of this program"
    DESCRIPTION = Description
    MAY_BE_NAN = "significance."  # NaN: not measured yet

    def up_to(self, steps: int) -> "Checkpoint":
        """Give the checkpoint of a run with fewer steps, without measurements of cells further from the end."""
        run = self.description.run.model_copy(update={"steps": steps})
        measured = {name: self.tensors[name][..., :steps] for name in BY_STEP}
        return Checkpoint(self.description.model_copy(update={"run": run}), self.tensors | measured)
