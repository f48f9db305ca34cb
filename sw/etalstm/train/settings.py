"""What a user chooses about a training run, with the defaults and the checks."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from etalstm.data import DATASETS, TASKS, UNITS, Reading
from etalstm.data.arrays import ARRAYS
from etalstm.data.buckets import NONE, read_buckets
from etalstm.data.dataset import LANGUAGE
from etalstm.data.encoding import BYTES
from etalstm.device import DEVICES
from etalstm.errors import RunError
from etalstm.host.strict import check_fields
from etalstm.host.toml import TomlFile, dump
from etalstm.network.architecture import SWING, architecture
from etalstm.network.cells.lstm import LSTM
from etalstm.network.delta_inputs import DeltaInputs, input_thresholds_text
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.shared_tokens import OFF
from etalstm.network.slices import AUTO, check_slices
from etalstm.network.storage import MS1, POLICIES, Storage, check_threshold, default_policy, read_thresholds
from etalstm.network.texts import (
    ARCHITECTURE_HELP,
    CELL_HELP,
    INPUT_THRESHOLD_HELP,
    PRESET_HELP,
    REFRESH_HELP,
    SHARED_TOKENS_HELP,
    SLICES_HELP,
    WEIGHT_FORMAT_HELP,
    number_or_off,
    slices_or_auto,
    tokens_or_auto,
)
from etalstm.network.update_rule import check_hyperparameters
from etalstm.network.weight_format import FLOAT32
from etalstm.train.chooser import CHOOSING
from etalstm.train.control import check_delta_target, check_target
from etalstm.train.declared import Setting, Unused, check_bounds, one_of
from etalstm.train.significance import EPOCHS_FULL, PARTS, Skipping, read_parts

SGD, ADAM, ADAMW = OPTIMIZERS = ("sgd", "adam", "adamw")
STEP, COSINE, PLATEAU = SCHEDULES = ("step", "cosine", "plateau")
RATES = {SGD: 0.2, ADAM: 0.002, ADAMW: 0.002}  # that of SGD brings digits above 0.9 within 250 iterations
HEADING = "Settings of a run of eta-lstm train; what is not here is the program's default."


RUN, DATA, MODEL, LEARN = "The run", "Data", "Model", "Learning"
KEPT, MACHINE = "What is kept and computed", "Machine"
PANELS = (RUN, DATA, MODEL, LEARN, KEPT, MACHINE)
"""Groups of the help, in their order."""

WITHOUT_TASK = Unused("only used with --task", lambda run, _: run.task is None)
WITH_LANGUAGE = Unused("not used with --task language", lambda run, _: run.task == LANGUAGE)
WITH_ARRAYS = Unused(
    "not used with a file of arrays", lambda run, _: run.task and Path(run.data).suffix.lower() == ARRAYS
)
WITH_VECTORS = Unused("not used where inputs are vectors", lambda _, data: data.input_size)
WITH_VALIDATION = Unused("not used with --validation", lambda run, _: run.validation is not None)
WITH_TEST = Unused("not used with --test", lambda run, _: run.test is not None)
WITH_BOTH_FILES = Unused("not used with --validation and --test", lambda run, _: None not in (run.validation, run.test))
WITH_BYTES = Unused("not used with --tokens bytes", lambda run, _: run.tokens == BYTES)
WITHOUT_SGD = Unused("only used with --optimizer sgd", lambda run, _: run.optimizer != SGD)
WITH_SGD = Unused("not used with --optimizer sgd", lambda run, _: run.optimizer == SGD)
WITH_COSINE = Unused("not used with --schedule cosine", lambda run, _: run.schedule == COSINE)
WITHOUT_COSINE = Unused("only used with --schedule cosine", lambda run, _: run.schedule != COSINE)
WITHOUT_PLATEAU = Unused("only used with --schedule plateau", lambda run, _: run.schedule != PLATEAU)
WITHOUT_STEP = Unused("only used with --schedule step", lambda run, _: run.schedule != STEP)
WITHOUT_MS2 = Unused("only used with --ms2 or --ms2-steps", lambda run, _: run.skipping is None)


def _absolute(_: str, path: Path) -> str:
    return str(path.absolute())


def _at_least_0(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be an integer of at least 0, got {value!r}")


def _below_1(name: str, value: float) -> None:
    if not 0 <= check_threshold(name, value) < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value}")


def _0_to_1(name: str, value: float) -> None:
    if not 0 <= check_threshold(name, value) <= 1:
        raise ValueError(f"{name} must be 0 to 1, got {value}")


def _above_0(name: str, value: float) -> None:
    if not check_threshold(name, value) > 0:
        raise ValueError(f"{name} must be above 0, got {value}")


def _above_0_at_most_1(name: str, value: float) -> None:
    if not 0 < check_threshold(name, value) <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value}")


def _share(name: str, value: float) -> None:
    if not 0 < check_threshold(name, value) < 1:
        raise ValueError(f"{name} must be above 0 and below 1, got {value}")


@dataclass(frozen=True)
class Settings:
    """One training run. What a setting means stands beside it. More is said where it is used:

    dataset, task, tokens, lower, vocabulary, text, label, sequence, validation, test, validation_share, test_share
        :data:`etalstm.data.DATASETS`, and for a file of one's own :class:`etalstm.data.Reading`.
    buckets
        :func:`etalstm.data.buckets.read_buckets`; a batch then has the steps of its bucket, and `steps` is not given.
    epochs, iterations
        The run ends at whichever comes first.
    storage, theta
        :class:`etalstm.network.storage.Storage`; ``auto`` and ``auto-fastest``: :mod:`etalstm.train.chooser`.
    ms2, ms2_steps, ms2_full_epochs, ms2_without
        :mod:`etalstm.train.significance`; `ms2` is τ.
    delta_target, input_target
        :class:`etalstm.train.control.ShareControl`; with an input_target everything is sent in the first epoch.
    input_threshold, refresh
        Θ and R of :class:`etalstm.network.delta_inputs.DeltaInputs`; Θ is kept as a text.
    shared_tokens, slices
        :mod:`etalstm.train.sharing`, :mod:`etalstm.network.slices`. Slices ``auto`` are those of the checkpoint that
        the run goes on from, or :meth:`etalstm.device.Device.best_slices`.
    optimizer, momentum, beta1, beta2, epsilon, weight_decay, clip
        :mod:`etalstm.train.optimizers`. Adam and AdamW have no momentum.
    learning_rate, schedule, decay, step_epochs, patience, warmup, floor
        :data:`RATES` has the defaults of the rate; :mod:`etalstm.train.schedule`.
    dropout, tied
        :mod:`etalstm.train.dropout`; tied weights are for a language model whose embedding is as wide as its layers.
    pipeline, memory_budget, offload
        :mod:`etalstm.device.ranks.pipeline`, :class:`etalstm.device.TrainingShape`,
        :class:`etalstm.device.OffloadDevice`.
    paranoid, scrub
        :class:`etalstm.device.ParanoidDevice`, for one process; :meth:`etalstm.device.Session.scrub`, also after the
        update before such an iteration, for the digests.

    Raises
    ------
    ValueError
        Naming the value and what is expected.
    """

    dataset: Annotated[str | None, Setting(", ".join(DATASETS), DATA)] = None
    device: Annotated[str, Setting(f"What trains: {', '.join(DEVICES)}", MACHINE)] = "golden"
    preset: Annotated[str, Setting(PRESET_HELP, MACHINE)] = "sim"
    pipeline: Annotated[
        int,
        Setting(
            "Of several processes, those over which the layers are spread; 1: each has all layers", MACHINE, check_size
        ),
    ] = 1
    hidden: Annotated[int, Setting("Units of a layer", MODEL, check_size)] = 32
    layers: Annotated[int, Setting("Layers", MODEL, check_size)] = 1
    cell: Annotated[str, Setting(CELL_HELP, MODEL)] = LSTM.name
    batch: Annotated[int, Setting("Sequences of an iteration", LEARN, check_size)] = 32
    steps: Annotated[int | None, Setting("Steps of an iteration [default: the data set's]", LEARN, check_size)] = None
    buckets: Annotated[
        str,
        Setting(
            "Batches of similar length: the most steps of each bucket, 8,16,32; auto: buckets of a batch of sequences "
            "at least; or none", DATA,
        ),
    ] = NONE  # fmt: skip
    embedding: Annotated[int, Setting("Size of a token's vector", MODEL, check_size, unused=(WITH_VECTORS,))] = 32
    epochs: Annotated[int, Setting("Passes over the training split", RUN, check_size)] = 8
    iterations: Annotated[int | None, Setting("At most so many iterations", RUN, check_size)] = None
    learning_rate: Annotated[
        float | None,
        Setting(f"Learning rate [default: {', '.join(f'{k} {v}' for k, v in RATES.items())}]", LEARN, option="--lr"),
    ] = None
    momentum: Annotated[float, Setting("Momentum (sgd)", LEARN, unused=(WITHOUT_SGD,))] = 0.9
    clip: Annotated[float, Setting("Largest norm of the gradient, 0 for any", LEARN)] = 1.0
    weight_decay: Annotated[float, Setting("Weight decay", LEARN)] = 0.0
    seed: Annotated[int, Setting("Of first weights and order", RUN, _at_least_0)] = 0
    evaluation_batches: Annotated[int | None, Setting("At most so many batches of an evaluation", RUN, check_size)] = (
        None
    )
    checkpoint_every: Annotated[
        int | None,
        Setting("Iterations between checkpoints [default: only after epochs and at the end]", RUN, check_size),
    ] = None
    data: Annotated[
        str | None,
        Setting("Directory of the data set's files; with --task a file of one's own", DATA, typed=Path, read=_absolute),
    ] = None
    theta: Annotated[
        float | tuple[float, ...],
        Setting(
            "Drop local gradients below: one number, or six, for i,f,g,o,s,r", KEPT,
            typed=str, read=lambda _, text: read_thresholds(text), shown="0",
        ),
    ] = 0.0  # fmt: skip
    storage: Annotated[
        str | None,
        Setting(
            "What cells keep: dense, ms1, ms1-bf16, auto (the smaller) or auto-fastest "
            "[default: ms1 with a theta or delta target, else dense]", KEPT,
        ),
    ] = None  # fmt: skip
    ms2: Annotated[
        float | None,
        Setting(
            "Skip cells predicted to add less than this share of the largest, or off", KEPT,
            typed=str, read=number_or_off, shown="off",
        ),
    ] = None  # fmt: skip
    ms2_steps: Annotated[
        int | None, Setting("Instead of --ms2: each layer keeps so many last steps of a sequence", KEPT, check_size)
    ] = None
    ms2_full_epochs: Annotated[
        int, Setting("Epochs at the beginning that skip no cell", KEPT, _at_least_0, unused=(WITHOUT_MS2,))
    ] = EPOCHS_FULL
    ms2_without: Annotated[
        str, Setting(f"Skip cells without, with commas between: {', '.join(PARTS)}", KEPT, unused=(WITHOUT_MS2,))
    ] = ""
    decay: Annotated[
        float,
        Setting(
            "Factor of the learning rate every --step-epochs, or on a plateau", LEARN, _above_0_at_most_1,
            unused=(WITH_COSINE,),
        ),
    ] = 1.0  # fmt: skip
    architecture: Annotated[str, Setting(ARCHITECTURE_HELP, MACHINE)] = SWING.name
    memory_budget: Annotated[
        int | None,
        Setting(
            "Bytes of the device's memory (not golden's); what cells keep beyond it goes to the host and back", MACHINE,
            check_size,
        ),
    ] = None  # fmt: skip
    delta_target: Annotated[
        float | None,
        Setting(
            "Leave this share of the gates' gradients, the largest, for the products; or off", KEPT,
            typed=str, read=number_or_off, shown="off",
        ),
    ] = None  # fmt: skip
    input_threshold: Annotated[str | float, Setting(INPUT_THRESHOLD_HELP, KEPT, typed=str)] = "0"
    refresh: Annotated[int | None, Setting(REFRESH_HELP, KEPT)] = None
    input_target: Annotated[
        float | None,
        Setting(
            "Send this share of x and h, what moved most (--refresh is 0 then by default); or off", KEPT,
            typed=str, read=number_or_off, shown="off",
        ),
    ] = None  # fmt: skip
    weight_format: Annotated[str, Setting(WEIGHT_FORMAT_HELP, KEPT)] = FLOAT32
    shared_tokens: Annotated[
        int | str,
        Setting(
            f"{SHARED_TOKENS_HELP}; auto: as many as pay", MACHINE, typed=str, read=lambda _, text: tokens_or_auto(text)
        ),
    ] = OFF
    slices: Annotated[
        int | str,
        Setting(
            f"{SLICES_HELP}; auto: what the device uses best", LEARN,
            typed=str, read=lambda _, text: slices_or_auto(text), shown="1",
        ),
    ] = 1  # fmt: skip
    offload: Annotated[
        bool, Setting("The host runs the forward passes and streams what cells keep to the device", MACHINE)
    ] = False
    paranoid: Annotated[
        int | None,
        Setting(
            "Every so many iterations, and before checkpoints, golden computes one too; other bits end the run",
            MACHINE, check_size,
        ),
    ] = None  # fmt: skip
    scrub: Annotated[
        int | None,
        Setting(
            "Every so many iterations, and before checkpoints, read back what the device's memory must still hold; "
            "other bits end the run", MACHINE, check_size,
        ),
    ] = None  # fmt: skip
    optimizer: Annotated[
        str, Setting(f"{', '.join(OPTIMIZERS)}; adam and adamw update on the host, sgd on the device", LEARN)
    ] = SGD
    beta1: Annotated[float, Setting("Of adam, adamw", LEARN, _below_1, unused=(WITH_SGD,))] = 0.9
    beta2: Annotated[float, Setting("Of adam, adamw", LEARN, _below_1, unused=(WITH_SGD,))] = 0.999
    epsilon: Annotated[float, Setting("Of adam, adamw", LEARN, _above_0, unused=(WITH_SGD,))] = 1e-8
    schedule: Annotated[str, Setting(f"Of the learning rate: {', '.join(SCHEDULES)}", LEARN, one_of(SCHEDULES))] = STEP
    step_epochs: Annotated[
        int, Setting("Epochs from one decay to the next (step)", LEARN, check_size, unused=(WITHOUT_STEP,))
    ] = 1
    patience: Annotated[
        int,
        Setting("Epochs without a better loss until a decay (plateau)", LEARN, _at_least_0, unused=(WITHOUT_PLATEAU,)),
    ] = 2
    warmup: Annotated[int, Setting("Iterations in which the learning rate rises", LEARN, _at_least_0)] = 0
    floor: Annotated[
        float, Setting("Share of the learning rate at the end (cosine)", LEARN, _0_to_1, unused=(WITHOUT_COSINE,))
    ] = 0.0
    early_stopping: Annotated[
        int | None, Setting("End after so many epochs without a better validation loss; test the best", RUN, check_size)
    ] = None
    dropout: Annotated[float, Setting("Share dropped between layers in training", MODEL, _below_1)] = 0.0
    tied: Annotated[bool, Setting("The output layer's weights are the embedding", MODEL)] = False
    task: Annotated[str | None, Setting(f"What is learnt of that file: {', '.join(TASKS)}", DATA, one_of(TASKS))] = None
    tokens: Annotated[
        str | None,
        Setting(
            f"{', '.join(UNITS)} [default: words, for language characters]", DATA, one_of(UNITS),
            unused=(WITHOUT_TASK, WITH_ARRAYS, WITH_VECTORS),
        ),
    ] = None  # fmt: skip
    lower: Annotated[bool, Setting("Texts in lower case", DATA, unused=(WITHOUT_TASK, WITH_ARRAYS, WITH_VECTORS))] = (
        False
    )
    vocabulary: Annotated[
        int | None,
        Setting(
            "At most so many tokens, the most frequent; others are unknown", DATA, check_size,
            unused=(WITHOUT_TASK, WITH_ARRAYS, WITH_VECTORS, WITH_BYTES),
        ),
    ] = None  # fmt: skip
    text: Annotated[
        str | None,
        Setting(
            "Column of the text [default: guessed, and printed]", DATA,
            unused=(WITHOUT_TASK, WITH_LANGUAGE, WITH_ARRAYS, WITH_VECTORS),
        ),
    ] = None  # fmt: skip
    label: Annotated[
        str | None,
        Setting(
            "Column of class, tag or number [default: guessed, and printed]", DATA,
            unused=(WITHOUT_TASK, WITH_LANGUAGE, WITH_ARRAYS),
        ),
    ] = None  # fmt: skip
    sequence: Annotated[
        str | None,
        Setting(
            "Column that tells which sequence a row belongs to [default: sequence]", DATA,
            unused=(WITHOUT_TASK, WITH_LANGUAGE, WITH_ARRAYS),
        ),
    ] = None  # fmt: skip
    validation: Annotated[
        str | None,
        Setting(
            "File of the validation split [default: a share]", DATA,
            typed=Path, read=_absolute, unused=(WITHOUT_TASK,),
        ),
    ] = None  # fmt: skip
    test: Annotated[
        str | None,
        Setting("File of the test split [default: a share]", DATA, typed=Path, read=_absolute, unused=(WITHOUT_TASK,)),
    ] = None
    validation_share: Annotated[
        float,
        Setting("Share for validation, where there is no file", DATA, _share, unused=(WITHOUT_TASK, WITH_VALIDATION)),
    ] = Reading.validation_share
    test_share: Annotated[
        float, Setting("Share for the test, where there is no file", DATA, _share, unused=(WITHOUT_TASK, WITH_TEST))
    ] = Reading.test_share
    split_seed: Annotated[
        int,
        Setting(
            "Of the choice which example is in which split", DATA, _at_least_0,
            unused=(WITHOUT_TASK, WITH_LANGUAGE, WITH_BOTH_FILES),
        ),
    ] = Reading.split_seed  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> dict:
        """Read the settings that a TOML file names, whichever they are.

        Raises
        ------
        RunError
            If it is no such file, or a setting is unknown or of another type; the message names line and setting.
        """
        return check_fields(cls, (file := _open(path)).table, file, RunError)

    @classmethod
    def load(cls, path: Path) -> "Settings":
        """Read the settings of a run; as :meth:`read`, and they must go together."""
        try:
            return cls(**cls.read(path))
        except ValueError as error:
            raise RunError(f"{_open(path).blamed(str(error))}: {error}") from error

    def text_of_file(self) -> str:
        """Give the TOML that :meth:`read` reads."""
        return dump(dataclasses.asdict(self), HEADING)

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
        self._check_data()

    def _check_cell(self) -> None:
        """Refuse what only an LSTM can do in a run; :class:`TrainingShape` looks at the rest."""
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
        if self.shared_tokens not in (OFF, AUTO):
            check_size("shared_tokens", self.shared_tokens)
            if self.input_target is not None:
                raise ValueError(f"with an input_target shared_tokens must be off, got {self.shared_tokens}")
        self.execution(Storage(MS1 if self.policy in CHOOSING else self.policy, self.theta))  # refuses what cannot be

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
        if self.validation_share + self.test_share >= 1:
            raise ValueError(
                f"validation_share and test_share must leave a rest, got {self.validation_share} and {self.test_share}"
            )

    def delta_inputs_at(self, threshold: float | None = None) -> DeltaInputs:
        """Give what of their inputs the layers broadcast, the default of `refresh` filled in.

        Parameters
        ----------
        threshold : float, optional
            Θ to which an input_target has moved it. Not given: there is no target, or it is the first epoch.
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
        """What cells keep, the default filled in."""
        return self.storage or default_policy(self.theta, prunes=self.delta_target is not None)

    def execution(self, storage: Storage) -> Execution:
        """Give how a run's network is computed in the first epoch, but for what is left to the device.

        That are ``auto`` slices, in whose place there is 1, and shared tokens, of which there are none.

        Parameters
        ----------
        storage : Storage
            What layers keep now: with a `storage` that chooses, it changes from epoch to epoch.
        """
        return Execution(
            storage=storage,
            slices=1 if isinstance(self.slices, str) else self.slices,
            delta_inputs=self.delta_inputs_at(),
            weight_format=self.weight_format,
            architecture=architecture(self.architecture),
        )


@contextmanager
def blaming(path: Path | None) -> Iterator[None]:
    """Context in which settings of a file, with others on top, are used: ``ValueError`` becomes :class:`RunError`.

    The message names the file, and the line of the first setting in it that the error names. Without a file the error
    stays as it is.
    """
    try:
        yield
    except ValueError as error:
        if path is None:
            raise
        raise RunError(f"{_open(path).blamed(str(error))}, with the options on top: {error}") from error


def _open(path: Path) -> TomlFile:
    try:
        return TomlFile(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: there is no such file of settings") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: not TOML: {error}") from error
