"""``eta-lstm train``."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import Signals
from typing import Annotated

from typer import Context

from etalstm.cli import SIGNAL_EXIT
from etalstm.cli.devices import ARCHITECTURE_HELP, DEVICES_HELP, open_on_ranks
from etalstm.cli.options import (
    CELL_HELP,
    INPUT_THRESHOLD_HELP,
    PRESET_HELP,
    REFRESH_HELP,
    SHARED_TOKENS_HELP,
    SLICES_HELP,
    WEIGHT_FORMAT_HELP,
    given,
    number_or_off,
    option,
    slices_or_auto,
    tokens_or_auto,
)
from etalstm.cli.unused import refuse_unused
from etalstm.data import DATASETS, TASKS, UNITS, open_data
from etalstm.device.ranks.team import find_team
from etalstm.errors import RunError
from etalstm.network.shared_tokens import OFF
from etalstm.network.storage import read_thresholds
from etalstm.train.folder import RunFolder
from etalstm.train.loop import Trainer
from etalstm.train.progress import ProgressReport
from etalstm.train.reports import SERVICES, both, open_service
from etalstm.train.settings import OPTIMIZERS, RATES, SCHEDULES, Settings
from etalstm.train.significance import PARTS

RUN, DATA, MODEL, LEARN = "The run", "Data", "Model", "Learning"
KEPT, MACHINE = "What is kept and computed", "Machine"

# How texts of the command line become settings, where they are not the same.
READ = {
    "theta": read_thresholds,
    "ms2": lambda text: number_or_off("ms2", text),
    "delta_target": lambda text: number_or_off("delta_target", text),
    "input_target": lambda text: number_or_off("input_target", text),
    "slices": slices_or_auto,
    "shared_tokens": tokens_or_auto,
    **dict.fromkeys(("data", "validation", "test"), lambda path: str(path.absolute())),
}
NAMES = {"lr": "learning_rate"}
NO_SETTINGS = ("out", "resume", "overwrite", "config", "log")


def train(
    context: Context,
    out: Annotated[Path, option("Folder for settings, metrics and checkpoints", RUN)],
    resume: Annotated[
        bool, option("Go on from the checkpoint in the folder, with its settings", RUN, "--resume")
    ] = False,
    overwrite: Annotated[bool, option("Begin anew in a folder that holds a run", RUN, "--overwrite")] = False,
    config: Annotated[
        Path | None, option("TOML file of settings, as a run's settings.toml; options come on top", RUN)
    ] = None,
    log: Annotated[
        str | None, option(f"Where to show the numbers too: {', '.join(SERVICES)}, if the package is installed", RUN)
    ] = None,
    epochs: Annotated[int, option("Passes over the training split", RUN)] = Settings.epochs,
    iterations: Annotated[int | None, option("At most so many iterations", RUN)] = Settings.iterations,
    early_stopping: Annotated[
        int | None, option("End after so many epochs without a better validation loss; test the best", RUN)
    ] = Settings.early_stopping,
    checkpoint_every: Annotated[
        int | None, option("Iterations between checkpoints [default: only after epochs and at the end]", RUN)
    ] = Settings.checkpoint_every,
    evaluation_batches: Annotated[
        int | None, option("At most so many batches of an evaluation", RUN)
    ] = Settings.evaluation_batches,
    seed: Annotated[int, option("Of first weights and order", RUN)] = Settings.seed,
    dataset: Annotated[str | None, option(", ".join(DATASETS), DATA)] = Settings.dataset,
    data: Annotated[
        Path | None, option("Directory of the data set's files; with --task a file of one's own", DATA)
    ] = None,
    task: Annotated[str | None, option(f"What is learnt of that file: {', '.join(TASKS)}", DATA)] = Settings.task,
    validation: Annotated[Path | None, option("File of the validation split [default: a share]", DATA)] = None,
    test: Annotated[Path | None, option("File of the test split [default: a share]", DATA)] = None,
    validation_share: Annotated[
        float, option("Share for validation, where there is no file", DATA)
    ] = Settings.validation_share,
    test_share: Annotated[float, option("Share for the test, where there is no file", DATA)] = Settings.test_share,
    split_seed: Annotated[int, option("Of the choice which example is in which split", DATA)] = Settings.split_seed,
    tokens: Annotated[
        str | None, option(f"{', '.join(UNITS)} [default: words, for language characters]", DATA)
    ] = Settings.tokens,
    lower: Annotated[bool, option("Texts in lower case", DATA, "--lower")] = Settings.lower,
    vocabulary: Annotated[
        int | None, option("At most so many tokens, the most frequent; others are unknown", DATA)
    ] = Settings.vocabulary,
    text: Annotated[str | None, option("Column of the text [default: guessed, and printed]", DATA)] = Settings.text,
    label: Annotated[
        str | None, option("Column of class, tag or number [default: guessed, and printed]", DATA)
    ] = Settings.label,
    buckets: Annotated[
        str,
        option(
            "Batches of similar length: the most steps of each bucket, 8,16,32; auto: buckets of a batch of sequences "
            "at least; or none", DATA,
        ),
    ] = Settings.buckets,
    sequence: Annotated[
        str | None, option("Column that tells which sequence a row belongs to [default: sequence]", DATA)
    ] = Settings.sequence,
    hidden: Annotated[int, option("Units of a layer", MODEL)] = Settings.hidden,
    layers: Annotated[int, option("Layers", MODEL)] = Settings.layers,
    cell: Annotated[str, option(CELL_HELP, MODEL)] = Settings.cell,
    embedding: Annotated[int, option("Size of a token's vector", MODEL)] = Settings.embedding,
    tied: Annotated[bool, option("The output layer's weights are the embedding", MODEL, "--tied")] = Settings.tied,
    dropout: Annotated[float, option("Share dropped between layers in training", MODEL)] = Settings.dropout,
    batch: Annotated[int, option("Sequences of an iteration", LEARN)] = Settings.batch,
    steps: Annotated[int | None, option("Steps of an iteration [default: the data set's]", LEARN)] = Settings.steps,
    optimizer: Annotated[
        str, option(f"{', '.join(OPTIMIZERS)}; adam and adamw update on the host, sgd on the device", LEARN)
    ] = Settings.optimizer,
    lr: Annotated[
        float | None, option(f"Learning rate [default: {', '.join(f'{k} {v}' for k, v in RATES.items())}]", LEARN)
    ] = Settings.learning_rate,
    schedule: Annotated[str, option(f"Of the learning rate: {', '.join(SCHEDULES)}", LEARN)] = Settings.schedule,
    decay: Annotated[
        float, option("Factor of the learning rate every --step-epochs, or on a plateau", LEARN)
    ] = Settings.decay,
    step_epochs: Annotated[int, option("Epochs from one decay to the next (step)", LEARN)] = Settings.step_epochs,
    patience: Annotated[int, option("Epochs without a better loss until a decay (plateau)", LEARN)] = Settings.patience,
    warmup: Annotated[int, option("Iterations in which the learning rate rises", LEARN)] = Settings.warmup,
    floor: Annotated[float, option("Share of the learning rate at the end (cosine)", LEARN)] = Settings.floor,
    momentum: Annotated[float, option("Momentum (sgd)", LEARN)] = Settings.momentum,
    beta1: Annotated[float, option("Of adam, adamw", LEARN)] = Settings.beta1,
    beta2: Annotated[float, option("Of adam, adamw", LEARN)] = Settings.beta2,
    epsilon: Annotated[float, option("Of adam, adamw", LEARN)] = Settings.epsilon,
    clip: Annotated[float, option("Largest norm of the gradient, 0 for any", LEARN)] = Settings.clip,
    weight_decay: Annotated[float, option("Weight decay", LEARN)] = Settings.weight_decay,
    slices: Annotated[
        str, option(f"{SLICES_HELP}; auto: what the device uses best", LEARN)
    ] = str(Settings.slices),
    theta: Annotated[str, option("Drop local gradients below: one number, or six, for i,f,g,o,s,r", KEPT)] = "0",
    storage: Annotated[
        str | None,
        option(
            "What cells keep: dense, ms1, ms1-bf16, auto (the smaller) or auto-fastest "
            "[default: ms1 with a theta or delta target, else dense]", KEPT,
        ),
    ] = Settings.storage,
    ms2: Annotated[
        str, option("Skip cells predicted to add less than this share of the largest, or off", KEPT)
    ] = "off",
    ms2_steps: Annotated[
        int | None, option("Instead of --ms2: each layer keeps so many last steps of a sequence", KEPT)
    ] = Settings.ms2_steps,
    ms2_full_epochs: Annotated[
        int, option("Epochs at the beginning that skip no cell", KEPT)
    ] = Settings.ms2_full_epochs,
    ms2_without: Annotated[
        str, option(f"Skip cells without, with commas between: {', '.join(PARTS)}", KEPT)
    ] = Settings.ms2_without,
    delta_target: Annotated[
        str, option("Leave this share of the gates' gradients, the largest, for the products; or off", KEPT)
    ] = "off",
    input_threshold: Annotated[str, option(INPUT_THRESHOLD_HELP, KEPT)] = Settings.input_threshold,
    refresh: Annotated[int | None, option(REFRESH_HELP, KEPT)] = Settings.refresh,
    input_target: Annotated[
        str, option("Send this share of x and h, what moved most (--refresh is 0 then by default); or off", KEPT)
    ] = "off",
    weight_format: Annotated[str, option(WEIGHT_FORMAT_HELP, KEPT)] = Settings.weight_format,
    shared_tokens: Annotated[
        str, option(f"{SHARED_TOKENS_HELP}; auto: as many as pay", MACHINE)
    ] = str(Settings.shared_tokens),
    device: Annotated[str, option(f"What trains: {DEVICES_HELP}", MACHINE)] = Settings.device,
    preset: Annotated[str, option(PRESET_HELP, MACHINE)] = Settings.preset,
    pipeline: Annotated[
        int, option("Of several processes, those over which the layers are spread; 1: each has all layers", MACHINE)
    ] = Settings.pipeline,
    architecture: Annotated[str, option(ARCHITECTURE_HELP, MACHINE)] = Settings.architecture,
    memory_budget: Annotated[
        int | None,
        option("Bytes of the device's memory (not golden's); what cells keep beyond it goes to the host and back",
               MACHINE),
    ] = Settings.memory_budget,
    offload: Annotated[
        bool,
        option("The host runs the forward passes and streams what cells keep to the device", MACHINE, "--offload"),
    ] = Settings.offload,
    paranoid: Annotated[
        int | None,
        option("Every so many iterations, and before checkpoints, golden computes one too; other bits end the run",
               MACHINE),
    ] = Settings.paranoid,
    scrub: Annotated[
        int | None,
        option("Every so many iterations, and before checkpoints, read back what the device's memory must still hold; "
               "other bits end the run", MACHINE),
    ] = Settings.scrub,
) -> int:  # fmt: skip
    """Train an LSTM on a data set, or on a file of one's own.

    Ctrl-C, SIGTERM and SIGHUP leave a checkpoint; the exit code is then 130, 143 or 129.
    """
    chosen = {
        NAMES.get(name, name): READ.get(name, lambda value: value)(value)
        for name, value in given(context).items()
        if name not in NO_SETTINGS
    }
    if resume and overwrite:
        raise ValueError("--resume goes on with a run, --overwrite begins anew: there must be one of them, got both")
    folder = RunFolder(out)
    base = folder.settings_to_resume() if resume else {}
    of_file = Settings.read(config) if config else {}
    settings = _together(base | of_file | chosen, config)
    if settings.paranoid and find_team():
        raise ValueError(f"paranoid is for one process: it must be off on several, got {settings.paranoid}")
    found = open_data(settings)
    refuse_unused({*chosen, *_changed(of_file)}, settings, found)
    for note in found.notes:
        print(note, file=sys.stderr, flush=True)
    with ExitStack() as stack:
        stack.enter_context(folder).open(resume, overwrite)
        opened = stack.enter_context(open_on_ranks(settings.device, settings.preset, settings.pipeline))
        trainer = Trainer(settings, opened, folder, resume, overwrite, found)
        if trainer.data.buckets:
            print(_described(trainer.data.buckets), file=sys.stderr, flush=True)
        if settings.shared_tokens != OFF:
            print(trainer.learner.sharing.reason, file=sys.stderr, flush=True)
        service = stack.enter_context(open_service(log, str(out), settings)) if log else None
        with ProgressReport(trainer.total_iterations, settings.batch) as progress:
            last = trainer.run(both(progress, service) if service else progress)
    return SIGNAL_EXIT + Signals[last["signal"]] if last["kind"] == "interrupted" else 0


def _described(buckets: Mapping[int, int]) -> str:
    """Tell the steps of each bucket, and the training sequences in it."""
    sizes = ", ".join(f"{bound} ({count:,})" for bound, count in buckets.items())
    return f"buckets, by their most steps (and training sequences): {sizes}"


def _together(values: dict, config: Path | None) -> Settings:
    """Make settings of values; where some come from a file, what is wrong with them is said with its name."""
    try:
        return Settings(**values)
    except ValueError as error:
        if config is None:
            raise
        raise RunError(f"{config}, with the options on top: {error}") from error


def _changed(of_file: dict) -> set[str]:
    """Give the settings of a file that are not the defaults: a run's settings.toml names all."""
    return {name for name, value in of_file.items() if value != getattr(Settings, name)}
