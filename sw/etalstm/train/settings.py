"""Settings of a training run, with their defaults and checks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from etalstm.data.buckets import NONE, read_buckets
from etalstm.device import DEVICES
from etalstm.errors import RunError
from etalstm.host.strict import check_fields, dump
from etalstm.network.architecture import SWING, architecture
from etalstm.network.arithmetic import FLOAT32 as IN_FLOAT32
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.cells.lstm import LSTM
from etalstm.network.delta_inputs import DeltaInputs, input_thresholds_text
from etalstm.network.execution import (
    ARCHITECTURE_HELP,
    ARITHMETIC_HELP,
    CELL_HELP,
    DELTA_BITS_HELP,
    FLOAT32,
    INPUT_THRESHOLD_HELP,
    PRESET_HELP,
    REFRESH_HELP,
    SHARED_TOKENS_HELP,
    SLICES_HELP,
    STORAGE_HELP,
    WEIGHT_FORMAT_HELP,
    Execution,
    number_or_off,
    slices_or_auto,
    tokens_or_auto,
)
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.shared_tokens import OFF
from etalstm.network.slices import AUTO, check_slices
from etalstm.network.storage import (
    DENSE,
    MS1,
    MS1_BF16,
    POLICIES,
    Storage,
    check_threshold,
    default_policy,
    read_thresholds,
)
from etalstm.network.update_rule import check_hyperparameters
from etalstm.train.control import CHOOSING, check_delta_target, check_target
from etalstm.train.data_settings import DATA, WITH_VECTORS, DataSettings
from etalstm.train.declared import (
    ALWAYS,
    BETWEEN_EPOCHS,
    NEVER,
    Differs,
    Unused,
    above_0,
    above_0_up_to_1,
    at_least_0,
    below_1,
    check_bounds,
    one_of,
    open_settings,
    setting,
    up_to_1,
)
from etalstm.train.significance import EPOCHS_FULL, PARTS, Skipping, read_parts

SGD, ADAM, ADAMW = OPTIMIZERS = ("sgd", "adam", "adamw")
STEP, COSINE, PLATEAU = SCHEDULES = ("step", "cosine", "plateau")
RATES = {SGD: 0.2, ADAM: 0.002, ADAMW: 0.002}  # that of SGD brings digits above 0.9 within 250 iterations
HEADING = "Settings of a run of eta-lstm train; what is not here is the program's default."
RUN, MODEL, LEARN = "The run", "Model", "Learning"
KEPT, MACHINE = "What is kept and computed", "Machine"
PANELS = (RUN, DATA, MODEL, LEARN, KEPT, MACHINE)  # of the help, in their order

WITHOUT_SGD = Unused("only used with --optimizer sgd", lambda run, _: run.optimizer != SGD)
WITH_SGD = Unused("not used with --optimizer sgd", lambda run, _: run.optimizer == SGD)
WITH_COSINE = Unused("not used with --schedule cosine", lambda run, _: run.schedule == COSINE)
WITHOUT_COSINE = Unused("only used with --schedule cosine", lambda run, _: run.schedule != COSINE)
WITHOUT_PLATEAU = Unused("only used with --schedule plateau", lambda run, _: run.schedule != PLATEAU)
WITHOUT_STEP = Unused("only used with --schedule step", lambda run, _: run.schedule != STEP)
OR_OFF: Any = {"typed": str, "read": number_or_off, "shown": "off"}  # for settings that a user can switch off
WITHOUT_MS2 = Unused("only used with --ms2 or --ms2-steps", lambda run, _: run.skipping is None)


@dataclass(frozen=True)
class Settings(DataSettings):
    """One training run. A setting's help text says what it means. The base class and these places say more:

    epochs, iterations
        The run ends at whichever comes first.
    storage, theta
        :class:`etalstm.network.storage.Storage`; ``auto`` and ``auto-fastest``: :mod:`etalstm.train.control`.
    ms2, ms2_steps, ms2_full_epochs, ms2_without
        :mod:`etalstm.train.significance`; `ms2` is τ.
    delta_target, input_target
        :class:`etalstm.train.control.ShareControl`; with an input_target everything is sent in the first epoch.
    rule
        :mod:`etalstm.train.rules`.
    arithmetic, delta_bits
        :mod:`etalstm.network.arithmetic`.
    input_threshold, refresh
        Θ and R of :class:`etalstm.network.delta_inputs.DeltaInputs`; Θ is kept as a text.
    shared_tokens, slices
        :mod:`etalstm.train.learner`, :mod:`etalstm.network.slices`. Slices ``auto`` are those of the checkpoint that
        the run goes on from, or :meth:`etalstm.device.Device.best_slices`.
    optimizer, momentum, beta1, beta2, epsilon, weight_decay, clip
        :mod:`etalstm.train.optimizers`. Adam and AdamW have no momentum.
    learning_rate, schedule, decay, step_epochs, patience, warmup, floor
        :data:`RATES` has the defaults of the rate; :mod:`etalstm.train.optimizers`.
    dropout, tied
        :mod:`etalstm.train.dropout`; tied weights are for a language model whose embedding is as wide as its layers.
    pipeline, memory_budget, offload
        :mod:`etalstm.device.ranks.pipeline`, :class:`etalstm.device.TrainingShape`,
        :class:`etalstm.device.OffloadDevice`.
    paranoid, scrub
        :class:`etalstm.device.ParanoidDevice`, for one process; :meth:`etalstm.device.Session.scrub`, also after the
        update before such an iteration, for the digests.

    Raises ``ValueError``, naming the value and what is expected.
    """

    COMMAND: ClassVar[str] = "eta-lstm train"
    MAY_DIFFER: ClassVar[Differs] = ALWAYS
    device: str = setting("golden", f"What trains: {', '.join(DEVICES)}", MACHINE)
    preset: str = setting("sim", PRESET_HELP, MACHINE)
    pipeline: int = setting(
        1, "Of several processes, those over which the layers are spread; 1: each has all layers", MACHINE, check_size
    )
    hidden: int = setting(32, "Units of a layer", MODEL, check_size, may_differ=NEVER)
    layers: int = setting(1, "Layers", MODEL, check_size, may_differ=NEVER)
    cell: str = setting(LSTM.name, CELL_HELP, MODEL, may_differ=NEVER)
    # Between epochs no state is carried, and the order of the examples is drawn anew: the batch may differ.
    batch: int = setting(32, "Sequences of an iteration", LEARN, check_size, may_differ=BETWEEN_EPOCHS)
    steps: int | None = setting(
        None, "Steps of an iteration [default: the data set's]", LEARN, check_size, may_differ=NEVER
    )
    embedding: int = setting(
        32, "Size of a token's vector", MODEL, check_size, unused=(WITH_VECTORS,), may_differ=NEVER
    )
    epochs: int = setting(8, "Passes over the training split", RUN, check_size)
    iterations: int | None = setting(None, "At most so many iterations", RUN, check_size)
    learning_rate: float | None = setting(
        None, f"Learning rate [default: {', '.join(f'{k} {v}' for k, v in RATES.items())}]", LEARN, option="--lr"
    )
    momentum: float = setting(0.9, "Momentum (sgd)", LEARN, unused=(WITHOUT_SGD,))
    clip: float = setting(1.0, "Largest norm of the gradient, 0 for any", LEARN)
    weight_decay: float = setting(0.0, "Weight decay", LEARN)
    seed: int = setting(0, "Seed of first weights and order of examples", RUN, at_least_0, may_differ=NEVER)
    evaluation_batches: int | None = setting(None, "At most so many batches of an evaluation", RUN, check_size)
    checkpoint_every: int | None = setting(
        None, "Iterations between checkpoints [default: only after epochs and at the end]", RUN, check_size
    )
    theta: float | tuple[float, ...] = setting(
        0.0, "Drop local gradients below: one number, or six, for i,f,g,o,s,r", KEPT, typed=str,
        read=lambda _, text: read_thresholds(text), shown="0",
    )  # fmt: skip
    storage: str | None = setting(
        None, f"{STORAGE_HELP}, auto (the smaller) or auto-fastest "
        "[default: ms1 with a theta, delta target or rule, else dense]", KEPT,
    )  # fmt: skip
    ms2: float | None = setting(
        None, "Skip cells predicted to add less than this share of the largest, or off", KEPT, **OR_OFF
    )
    ms2_steps: int | None = setting(
        None, "Instead of --ms2: each layer keeps so many last steps of a sequence", KEPT, check_size
    )
    ms2_full_epochs: int = setting(
        EPOCHS_FULL, "Epochs at the beginning that skip no cell", KEPT, at_least_0, unused=(WITHOUT_MS2,)
    )
    ms2_without: str = setting(
        "", f"Skip cells without, with commas between: {', '.join(PARTS)}", KEPT, unused=(WITHOUT_MS2,)
    )
    decay: float = setting(
        1.0, "Factor of the learning rate every --step-epochs, or on a plateau", LEARN, above_0_up_to_1,
        unused=(WITH_COSINE,),
    )  # fmt: skip
    architecture: str = setting(SWING.name, ARCHITECTURE_HELP, MACHINE)
    memory_budget: int | None = setting(
        None, "Bytes of the device's memory (not golden's); what cells keep beyond it goes to the host and back",
        MACHINE, check_size,
    )  # fmt: skip
    delta_target: float | None = setting(
        None, "Leave this share of the gates' gradients, the largest, for the products; or off", KEPT, **OR_OFF
    )
    input_threshold: str | float = setting("0", INPUT_THRESHOLD_HELP, KEPT, typed=str, may_differ=NEVER)
    refresh: int | None = setting(None, REFRESH_HELP, KEPT, may_differ=NEVER)
    input_target: float | None = setting(
        None, "Send this share of x and h, what moved most (--refresh is 0 then by default); or off", KEPT, **OR_OFF,
        may_differ=NEVER,
    )  # fmt: skip
    rule: str | None = setting(
        None, "Pruning rule that gives --theta, --input-threshold and the threshold of δ: a name, or module.Class",
        KEPT, may_differ=NEVER,
    )  # fmt: skip
    weight_format: str = setting(FLOAT32, WEIGHT_FORMAT_HELP, KEPT)
    arithmetic: str = setting(IN_FLOAT32.name, ARITHMETIC_HELP, KEPT)
    delta_bits: int | None = setting(None, DELTA_BITS_HELP, KEPT)
    shared_tokens: int | str = setting(
        OFF, f"{SHARED_TOKENS_HELP}; auto: as many as pay", MACHINE, typed=str,
        read=lambda _, text: tokens_or_auto(text),
    )  # fmt: skip
    slices: int | str = setting(
        1, f"{SLICES_HELP}; auto: what the device uses best", LEARN, typed=str,
        read=lambda _, text: slices_or_auto(text), shown="1", may_differ=NEVER,
    )  # fmt: skip
    offload: bool = setting(
        False, "The host runs the forward passes and streams what cells keep to the device", MACHINE
    )
    paranoid: int | None = setting(
        None, "Every so many iterations, and before checkpoints, golden computes one too; other bits end the run",
        MACHINE, check_size,
    )  # fmt: skip
    scrub: int | None = setting(
        None, "Every so many iterations, and before checkpoints, read back what the device's memory must still hold; "
        "other bits end the run", MACHINE, check_size,
    )  # fmt: skip
    optimizer: str = setting(
        SGD, f"{', '.join(OPTIMIZERS)}; adam and adamw update on the host, sgd on the device", LEARN,
        may_differ=NEVER,
    )  # fmt: skip
    beta1: float = setting(0.9, "Of adam, adamw", LEARN, below_1, unused=(WITH_SGD,))
    beta2: float = setting(0.999, "Of adam, adamw", LEARN, below_1, unused=(WITH_SGD,))
    epsilon: float = setting(1e-8, "Of adam, adamw", LEARN, above_0, unused=(WITH_SGD,))
    schedule: str = setting(STEP, f"Of the learning rate: {', '.join(SCHEDULES)}", LEARN, one_of(SCHEDULES))
    step_epochs: int = setting(1, "Epochs from one decay to the next (step)", LEARN, check_size, unused=(WITHOUT_STEP,))
    patience: int = setting(
        2, "Epochs without a better loss until a decay (plateau)", LEARN, at_least_0, unused=(WITHOUT_PLATEAU,)
    )
    warmup: int = setting(0, "Iterations in which the learning rate rises", LEARN, at_least_0)
    floor: float = setting(
        0.0, "Share of the learning rate at the end (cosine)", LEARN, up_to_1, unused=(WITHOUT_COSINE,)
    )
    early_stopping: int | None = setting(
        None, "End after so many epochs without a better validation loss; test the best", RUN, check_size
    )
    dropout: float = setting(0.0, "Share dropped between layers in training", MODEL, below_1)
    tied: bool = setting(False, "The output layer's weights are the embedding", MODEL, may_differ=NEVER)

    @classmethod
    def read(cls, path: Path) -> dict:
        """Read the settings that a TOML file has, not necessarily all.

        Raises :class:`RunError` if the file does not exist or is no TOML, or a setting is unknown or of another type;
        the message names line and setting.
        """
        return check_fields(cls, (file := open_settings(path)).table, file, RunError)

    def text_of_file(self) -> str:
        """Give the TOML that :meth:`read` reads."""
        return dump(self.table(), HEADING)

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", RATES[self.optimizer])
        check_bounds(self)
        self._check_sizes()
        self._check_cell()
        self._check_optimizer()
        self._check_reductions()
        if self.validation_share + self.test_share >= 1:
            raise ValueError(
                f"validation_share and test_share must leave a rest, got {self.validation_share} and {self.test_share}"
            )

    def _check_cell(self) -> None:
        """Refuse settings that only an LSTM supports in a run; :class:`TrainingShape` checks the rest."""
        network = NetworkShape(1, self.hidden, self.layers, self.cell)
        asked = {"pipeline": self.pipeline > 1, "dropout": self.dropout}
        asked |= {name: getattr(self, name) is not None for name in ("ms2", "ms2_steps")}
        for name in (name for name, is_asked in asked.items() if is_asked):
            network.require_lstm(name)

    def _check_sizes(self) -> None:
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
        self._check_rule()
        if self.shared_tokens not in (OFF, AUTO):
            check_size("shared_tokens", self.shared_tokens)
            if self.input_target is not None:
                raise ValueError(f"with an input_target shared_tokens must be off, got {self.shared_tokens}")
        self.execution(Storage(MS1 if self.policy in CHOOSING else self.policy, self.theta))  # raises what it refuses

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

    def _check_rule(self) -> None:
        """Refuse what a pruning rule gives itself, and storage that prunes nothing."""
        given = {name: getattr(self, name) != getattr(Settings, name) for name in ("theta", "input_threshold")}
        given |= {name: getattr(self, name) is not None for name in ("delta_target", "input_target")}
        for name in (name for name, is_given in given.items() if is_given and self.rule):
            raise ValueError(f"a rule gives the thresholds: {name} must not be given, got {getattr(self, name)}")
        if self.rule and self.policy in (DENSE, *CHOOSING):
            raise ValueError(f"with a rule storage must be {MS1} or {MS1_BF16}, got {self.policy}")

    def delta_inputs_at(self, threshold: float | None = None) -> DeltaInputs:
        """Give the delta inputs, the default of `refresh` filled in.

        The threshold is the Θ that an input_target has chosen; None without a target, and in the first epoch.
        """
        if threshold is not None:
            return DeltaInputs(threshold, self.refresh or 0)
        return DeltaInputs.read(str(self.input_threshold), None if self.input_target is not None else self.refresh)

    @property
    def refresh_interval(self) -> int:
        """R, the default filled in; with an input_target that from the second epoch on."""
        return self.delta_inputs_at(None if self.input_target is None else 0.0).refresh

    @property
    def skipping(self) -> Skipping | None:
        """Which cells are skipped; None if none is."""
        if self.ms2 is None and self.ms2_steps is None:
            return None
        return Skipping(self.ms2 or 0.0, self.ms2_steps, self.ms2_full_epochs, read_parts(self.ms2_without))

    @property
    def policy(self) -> str:
        """How intermediates are stored, the default filled in."""
        return self.storage or default_policy(self.theta, self.delta_target is not None or self.rule is not None)

    def execution(self, storage: Storage) -> Execution:
        """Give how a run's network is computed in the first epoch, without choices that are left to the device.

        `storage` is how layers store now; ``auto`` storage changes from epoch to epoch. ``auto`` slices become 1.
        Tokens are not shared.
        """
        slices, machine = 1 if isinstance(self.slices, str) else self.slices, architecture(self.architecture)
        arithmetic = arithmetic_named(self.arithmetic, self.delta_bits)
        return Execution(
            storage, slices, self.delta_inputs_at(), self.weight_format, architecture=machine, arithmetic=arithmetic
        )
