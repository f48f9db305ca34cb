"""What a user chooses about a training run, with the defaults and the checks."""

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from etalstm.data import TASKS, UNITS, Reading
from etalstm.data.buckets import NONE, read_buckets
from etalstm.errors import RunError
from etalstm.host.strict import check_fields
from etalstm.host.toml import dump
from etalstm.network.architecture import SWING, architecture
from etalstm.network.cells.lstm import LSTM
from etalstm.network.delta_inputs import DeltaInputs, input_thresholds_text
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.shared_tokens import OFF
from etalstm.network.slices import AUTO, check_slices
from etalstm.network.storage import DENSE, POLICIES, Storage, check_threshold
from etalstm.network.update_rule import check_hyperparameters
from etalstm.network.weight_format import FLOAT32, check_weight_format
from etalstm.train.chooser import CHOOSING
from etalstm.train.control import check_delta_target, check_target
from etalstm.train.significance import EPOCHS_FULL, Skipping, read_parts

SGD, ADAM, ADAMW = OPTIMIZERS = ("sgd", "adam", "adamw")
STEP, COSINE, PLATEAU = SCHEDULES = ("step", "cosine", "plateau")
RATES = {SGD: 0.2, ADAM: 0.002, ADAMW: 0.002}  # that of SGD brings digits above 0.9 within 250 iterations
HEADING = "Settings of a run of eta-lstm train; what is not here is the program's default."


@dataclass(frozen=True)
class Settings:
    """One training run.

    Parameters
    ----------
    dataset : str, optional
        A key of :data:`etalstm.data.DATASETS`; None for the user's own file, see `task`.
    device, preset : str
        As :func:`etalstm.device.open_device` takes them.
    pipeline : int
        Of several processes, those over which the layers are spread, see :mod:`etalstm.device.ranks.pipeline`; 1: none
        is.
    hidden, layers : int
        Units H and layers L.
    cell : str
        Of all layers, see :mod:`etalstm.network.cells.named`.
    batch : int
        Sequences B.
    steps : int, optional
        Steps T of a batch; the data set's own if not given. Not with `buckets`.
    buckets : str
        Length buckets, as :func:`etalstm.data.buckets.read_buckets` reads them: ``none``; their bounds, the most steps
        of each; or ``auto``, as narrow as :func:`etalstm.data.buckets.greedy_bounds` makes them.
    embedding : int
        Size of a token's vector, where inputs are tokens.
    epochs, iterations : int
        The run ends at whichever comes first; no limit of iterations if not given.
    learning_rate : float, optional
        That of :data:`RATES` if not given.
    momentum, clip, weight_decay : float
        See :meth:`etalstm.device.Session.update`. Adam and AdamW have no momentum.
    seed : int
        Of the first weights and of the order of the examples.
    evaluation_batches : int, optional
        Batches of a split an evaluation looks at; all if not given.
    checkpoint_every : int, optional
        Iterations between checkpoints; only after epochs and at the end if not given.
    data : str, optional
        Directory of the data set's files, for those that need one; with a `task` the user's own file.
    theta : float or tuple of six
        Local gradients below are dropped, see :class:`etalstm.network.storage.Storage`.
    storage : str, optional
        What cells keep, one of :data:`etalstm.network.storage.POLICIES`; if not given ``ms1`` where theta is above 0 or
        there is a delta_target, else ``dense``. Or ``auto`` or ``auto-fastest``: see
        :mod:`etalstm.train.chooser`.
    ms2 : float, optional
        τ of :class:`etalstm.train.significance.Significance`, at least 0 and below 1; no cell is skipped if not given.
    ms2_steps : int, optional
        Plain truncation in the place of `ms2`: steps of each sequence, the last ones, that every layer keeps.
    ms2_full_epochs : int
        Epochs at the beginning in which no cell is skipped, at least 0.
    ms2_without : str
        Parts of MS2 that are left out, as :func:`etalstm.train.significance.read_parts` reads them.
    decay : float
        Factor of the learning rate, above 0 and at most 1: every `step_epochs` epochs, or on a plateau.
    architecture : str
        How the machine runs, one of :data:`etalstm.network.architecture.ARCHITECTURES`; of no effect on what is learnt.
    memory_budget : int, optional
        Bytes of the device's memory, see :class:`etalstm.device.TrainingShape`; all there is if not given.
    delta_target : float, optional
        Share of δ that :class:`etalstm.train.control.ShareControl` leaves, above 0 and below 1; all if not given. What
        cells keep must be compressed.
    input_threshold : str or float
        Θ of delta inputs, as :func:`etalstm.network.delta_inputs.read_input_thresholds` reads it; kept as such a text.
    refresh : int, optional
        R of delta inputs; if not given 0 where input_threshold is above 0 or there is an input_target, else 1.
    input_target : float, optional
        Share of x and h that is sent, above 0 and below 1: :class:`etalstm.train.control.ShareControl` moves Θ, one for
        all layers. In the first epoch everything is sent. If not given, Θ is input_threshold.
    weight_format : str
        How the passes read weights, one of :data:`etalstm.network.weight_format.WEIGHT_FORMATS`.
    shared_tokens : int, "auto" or "off"
        Distinct tokens of a batch that share what they add to the first layer's gate sums, see
        :class:`etalstm.device.TrainingShape`; ``auto``: as many as pay on the device, see :mod:`etalstm.train.sharing`.
    slices : int or "auto"
        Slices of the batch, the order in which gradients are added, see :mod:`etalstm.network.slices`; ``auto``: those
        of the checkpoint that the run goes on from, or :meth:`etalstm.device.Device.best_slices`.
    offload : bool
        The host runs the forward passes, see :class:`etalstm.device.OffloadDevice`.
    paranoid : int, optional
        Every so many iterations golden computes one too, see :class:`etalstm.device.ParanoidDevice`; never if not
        given. Also those that a checkpoint follows. Not for several processes.
    scrub : int, optional
        Every so many iterations, before the update, the device's memory is compared with what it must still hold, see
        :meth:`etalstm.device.Session.scrub`; never if not given. Also before each checkpoint, and after the update
        before such an iteration, for the digests.
    optimizer : str
        One of :data:`OPTIMIZERS`, see :mod:`etalstm.train.optimizers`.
    beta1, beta2, epsilon : float
        Of Adam and AdamW.
    schedule, step_epochs, patience, warmup, floor
        See :mod:`etalstm.train.schedule`.
    early_stopping : int, optional
        Epochs without a better validation loss after which the run ends; never if not given.
    dropout : float
        Share of the outputs between layers that is dropped in training, see :mod:`etalstm.train.dropout`.
    tied : bool
        The output layer's weights are the embedding, in a language model whose embedding is as wide as its layers.
    task : str, optional
        What is learnt of the user's own file, one of :data:`etalstm.data.TASKS`.
    tokens, lower, vocabulary, text, label, sequence, validation, test, validation_share, test_share, split_seed
        How that file is read, see :class:`etalstm.data.Reading`.

    Raises
    ------
    ValueError
        Naming the value and what is expected.
    """

    dataset: str | None = None
    device: str = "golden"
    preset: str = "sim"
    pipeline: int = 1
    hidden: int = 32
    layers: int = 1
    cell: str = LSTM.name
    batch: int = 32
    steps: int | None = None
    buckets: str = NONE
    embedding: int = 32
    epochs: int = 8
    iterations: int | None = None
    learning_rate: float | None = None
    momentum: float = 0.9
    clip: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0
    evaluation_batches: int | None = None
    checkpoint_every: int | None = None
    data: str | None = None
    theta: float | tuple[float, ...] = 0.0
    storage: str | None = None
    ms2: float | None = None
    ms2_steps: int | None = None
    ms2_full_epochs: int = EPOCHS_FULL
    ms2_without: str = ""
    decay: float = 1.0
    architecture: str = SWING.name
    memory_budget: int | None = None
    delta_target: float | None = None
    input_threshold: str | float = "0"
    refresh: int | None = None
    input_target: float | None = None
    weight_format: str = FLOAT32
    shared_tokens: int | str = OFF
    slices: int | str = 1
    offload: bool = False
    paranoid: int | None = None
    scrub: int | None = None
    optimizer: str = SGD
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    schedule: str = STEP
    step_epochs: int = 1
    patience: int = 2
    warmup: int = 0
    floor: float = 0.0
    early_stopping: int | None = None
    dropout: float = 0.0
    tied: bool = False
    task: str | None = None
    tokens: str | None = None
    lower: bool = False
    vocabulary: int | None = None
    text: str | None = None
    label: str | None = None
    sequence: str | None = None
    validation: str | None = None
    test: str | None = None
    validation_share: float = Reading.validation_share
    test_share: float = Reading.test_share
    split_seed: int = Reading.split_seed

    @classmethod
    def read(cls, path: Path) -> dict:
        """Read the settings that a TOML file names, whichever they are.

        Raises
        ------
        RunError
            If it is no such file, or a setting is unknown or of another type; the message names both.
        """
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RunError(f"{path}: there is no such file of settings") from error
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path}: not TOML: {error}") from error
        return check_fields(cls, table, path, RunError)

    @classmethod
    def load(cls, path: Path) -> "Settings":
        """Read the settings of a run; as :meth:`read`, and they must go together."""
        try:
            return cls(**cls.read(path))
        except ValueError as error:
            raise RunError(f"{path}: {error}") from error

    def text_of_file(self) -> str:
        """Give the TOML that :meth:`read` reads."""
        return dump(dataclasses.asdict(self), HEADING)

    def __post_init__(self):
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", RATES[self.optimizer])
        self._check_sizes()
        self._check_cell()
        self._check_optimizer()
        self._check_reductions()
        self._check_data()

    def _check_cell(self) -> None:
        """Refuse what only an LSTM can do in a run; :class:`TrainingShape` looks at the rest."""
        network = NetworkShape(1, self.hidden, self.layers, self.cell)
        asked = {"pipeline": self.pipeline > 1, "dropout": self.dropout}
        asked |= {name: getattr(self, name) is not None for name in ("ms2", "ms2_steps")}
        for name in (name for name, is_asked in asked.items() if is_asked):
            network.require_lstm(name)

    def _check_sizes(self) -> None:
        for name in ("pipeline", "hidden", "layers", "batch", "embedding", "epochs", "step_epochs"):
            check_size(name, getattr(self, name))
        optional = ("steps", "iterations", "evaluation_batches", "checkpoint_every", "memory_budget", "early_stopping")
        for name in (*optional, "vocabulary", "ms2_steps", "paranoid", "scrub"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        for name in ("seed", "split_seed", "warmup", "patience", "ms2_full_epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} must be an integer of at least 0, got {value!r}")
        if self.pipeline > 1 and self.dropout:
            raise ValueError(f"with a pipeline dropout must be 0: it is between layers, got {self.dropout}")
        if self.pipeline > 1 and self.paranoid:
            raise ValueError(f"paranoid is for one process: it must be off with a pipeline, got {self.paranoid}")
        if self.slices != AUTO:
            check_slices(self.slices, self.batch)
        if read_buckets(self.buckets) != NONE and self.steps is not None:
            raise ValueError(
                f"with buckets a batch has the steps of its bucket: steps must not be given, got {self.steps}"
            )

    def _check_optimizer(self) -> None:
        check_hyperparameters(self.learning_rate, self.momentum, self.clip, self.weight_decay)
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")
        if not 0 < check_threshold("decay", self.decay) <= 1:
            raise ValueError(f"decay must be above 0 and at most 1, got {self.decay}")
        for name in ("beta1", "beta2", "dropout"):
            if not 0 <= check_threshold(name, getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if not 0 <= check_threshold("floor", self.floor) <= 1:
            raise ValueError(f"floor must be 0 to 1, got {self.floor}")
        if not check_threshold("epsilon", self.epsilon) > 0:
            raise ValueError(f"epsilon must be above 0, got {self.epsilon}")
        if self.schedule == PLATEAU and self.decay == 1:
            raise ValueError("decay must be below 1 with the schedule plateau, got 1")
        if self.dropout and self.layers == 1:
            raise ValueError(f"dropout is between layers: layers must be above 1 with dropout {self.dropout}, got 1")
        if self.dropout and self.memory_budget is not None:
            raise ValueError(
                f"memory_budget is of one session, with dropout each layer has one, got {self.memory_budget}"
            )
        if self.tied and self.embedding != self.hidden:
            raise ValueError(f"tied weights need embedding = hidden, got {self.embedding} and {self.hidden}")

    def _check_reductions(self) -> None:
        if self.ms2 is not None and not 0 <= check_threshold("ms2", self.ms2) < 1:
            raise ValueError(f"ms2 must be at least 0 and below 1, or off, got {self.ms2}")
        if self.ms2 is not None and self.ms2_steps is not None:
            raise ValueError(f"ms2_steps stands in the place of ms2: one must be off, got {self.ms2_steps}, {self.ms2}")
        read_parts(self.ms2_without)
        if self.policy not in (*POLICIES, *CHOOSING):
            raise ValueError(f"storage must be one of {', '.join((*POLICIES, *CHOOSING))}, got {self.policy!r}")
        if self.delta_target is not None:
            check_delta_target(self.delta_target, self.policy)
        self._check_inputs()
        check_weight_format(self.weight_format)
        if self.shared_tokens not in (OFF, AUTO):
            check_size("shared_tokens", self.shared_tokens)
            if self.input_target is not None:
                raise ValueError(f"with an input_target shared_tokens must be off, got {self.shared_tokens}")
        policy = "ms1" if self.policy in CHOOSING else self.policy
        architecture(self.architecture).check_storage(Storage(policy, self.theta))

    def _check_inputs(self) -> None:
        fixed = DeltaInputs.read(str(self.input_threshold), self.refresh)
        fixed.check_layers(self.layers)
        object.__setattr__(self, "input_threshold", input_thresholds_text(fixed.thresholds))
        if self.input_target is None:
            return
        check_target("input_target", self.input_target)
        if self.input_threshold != Settings.input_threshold:
            raise ValueError(f"an input_target moves Θ: input_threshold must be 0 with it, got {self.input_threshold}")
        if self.refresh == 1:
            raise ValueError(f"with refresh 1 everything is sent: input_target must be off, got {self.input_target}")

    def _check_data(self) -> None:
        if self.task not in (None, *TASKS):
            raise ValueError(f"task must be one of {', '.join(TASKS)}, got {self.task!r}")
        if self.tokens not in (None, *UNITS):
            raise ValueError(f"tokens must be one of {', '.join(UNITS)}, got {self.tokens!r}")
        for name in ("validation_share", "test_share"):
            if not 0 < check_threshold(name, getattr(self, name)) < 1:
                raise ValueError(f"{name} must be above 0 and below 1, got {getattr(self, name)}")
        if self.validation_share + self.test_share >= 1:
            raise ValueError(
                f"validation_share and test_share must leave a rest, got {self.validation_share} and {self.test_share}"
            )

    def inputs_at(self, threshold: float | None = None) -> DeltaInputs:
        """Give what of their inputs the layers broadcast, the default of `refresh` filled in.

        Parameters
        ----------
        threshold : float, optional
            Θ to which an input_target has moved it. Not given: there is no target, or it is the first epoch.
        """
        if threshold is not None:
            return DeltaInputs(threshold, self.refresh or 0)
        return DeltaInputs.read(self.input_threshold, None if self.input_target is not None else self.refresh)

    @property
    def refresh_interval(self) -> int:
        """R, the default filled in; with an input_target that from the second epoch on."""
        return self.inputs_at(None if self.input_target is None else 0.0).refresh

    @property
    def skipping(self) -> Skipping | None:
        """Which cells are skipped; None if none is."""
        if self.ms2 is None and self.ms2_steps is None:
            return None
        return Skipping(self.ms2 or 0.0, self.ms2_steps, self.ms2_full_epochs, read_parts(self.ms2_without))

    @property
    def policy(self) -> str:
        """What cells keep, the default filled in."""
        return self.storage or ("ms1" if np.any(self.theta) or self.delta_target is not None else DENSE)
