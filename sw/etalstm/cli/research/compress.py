"""``eta-lstm research compress``: a network that grows and shrinks, guided by what a machine says of sizes."""

import importlib
import importlib.util
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

from rich.table import Table
from typer import Context

from etalstm.cli import SIGNAL_EXIT
from etalstm.cli.devices import DEVICES_HELP
from etalstm.cli.extras import with_extra
from etalstm.cli.options import given, option, refuse
from etalstm.cli.research.profile import cycles_of
from etalstm.cli.tables import print_table
from etalstm.device import GOLDEN, open_device
from etalstm.errors import PlanError, RunError
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import NetworkShape
from etalstm.network.texts import CELL_HELP, PRESET_HELP
from etalstm.research.profile.profile import HIDDEN, INPUT, Profile, load
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log
from etalstm_hw.config import preset as named_preset

PACKAGE = "etalstm.research.compress"
RUN, DATA, MODEL, LEARN, CHANGE, MACHINE = "The run", "Data", "Model", "Learning", "Steps", "Machine"
NO_SETTINGS = ("out", "resume", "overwrite")
FILES = ("data", "profile", "input_profile", "start")
USED_BY = {
    ("density", "growth", "growth_epochs"): ("grow-weights",),
    ("unit_ratio",): ("prune-units",),
    ("weight_ratio",): ("prune-weights",),
    ("grow_to",): ("grow-units",),
    ("profile", "input_profile"): ("prune-units", "grow-units"),
    ("rounds", "target"): ("prune-units", "prune-weights"),
    ("gradient_batches",): ("grow-weights", "grow-units"),
    ("retrain_epochs", "retrain_rate"): ("prune-units", "grow-units", "prune-weights"),
}
TASKS_OF = {
    ("embedding", "steps", "tokens", "evaluated", "input_profile"): "language",
    ("bidirectional", "stack"): "speech",
}
SHOWN_EVERY = 50  # iterations
NOT_REACHED = 1


def compress(
    context: Context,
    out: Annotated[Path, option("Folder for settings, metrics and checkpoints", RUN)],
    resume: Annotated[
        bool,
        option("Go on from the folder's checkpoint, with its settings; rounds and target may differ", RUN, "--resume"),
    ] = False,
    overwrite: Annotated[bool, option("Begin anew in a folder that holds a run", RUN, "--overwrite")] = False,
    start: Annotated[
        Path | None,
        option("Folder of a run: take its dense start, and the settings that made it, instead of training one", RUN),
    ] = None,
    seed: Annotated[int, option("Of first weights, masks and dropout", RUN)] = 0,
    task: Annotated[str, option("What is learned: language, or speech", DATA)] = "language",
    data: Annotated[
        Path | None, option("Directory of ptb.train.txt, ptb.valid.txt and ptb.test.txt, or an4_mfcc13.tar.xz", DATA)
    ] = None,
    tokens: Annotated[int | None, option("The first so many words of the training text [default: all]", DATA)] = None,
    evaluated: Annotated[int | None, option("The same of validation and test text [default: all]", DATA)] = None,
    stack: Annotated[int, option("Frames of speech that make one step", DATA)] = 3,
    cell: Annotated[str, option(f"{CELL_HELP}; without the step grow-units", MODEL)] = LSTM.name,
    hidden: Annotated[
        int | None, option("Units of each layer of the dense start [default: 200; speech: 128]", MODEL)
    ] = None,
    embedding: Annotated[int, option("Size of a word's vector", MODEL)] = 200,
    layers: Annotated[int, option("LSTM layers", MODEL)] = 2,
    bidirectional: Annotated[
        bool, option("A speech model of two directions, whose units stay", MODEL, "--bidirectional")
    ] = False,
    dropout: Annotated[float, option("Share dropped in training", MODEL)] = 0.2,
    batch: Annotated[
        int | None, option("Streams, or utterances, of an iteration [default: 20; speech: 16]", LEARN)
    ] = None,
    steps: Annotated[int, option("Words of each stream in an iteration", LEARN)] = 35,
    epochs: Annotated[
        int | None, option("Of the dense start, and of growing weights [default: 14; speech: 60]", LEARN)
    ] = None,
    retrain_epochs: Annotated[
        int | None, option("After each other change [default: 2; speech: 4]", LEARN, "--retrain")
    ] = None,
    learning_rate: Annotated[
        float | None, option("Of Adam, at the start; it falls to 0 [default: 0.002; speech: 0.004]", LEARN, "--lr")
    ] = None,
    retrain_rate: Annotated[
        float | None, option("The same after a change [default: 0.0005; speech: 0.002]", LEARN, "--retrain-lr")
    ] = None,
    clip: Annotated[float | None, option("Largest norm of the gradient [default: 1; speech: 5]", LEARN)] = None,
    phases: Annotated[
        str | None,
        option(
            "Some of grow-weights, prune-units, grow-units, prune-weights, with commas between; dense: none of them "
            "[default: all that can be]",
            CHANGE,
        ),
    ] = None,
    density: Annotated[
        float | None, option("Share of the weights in the sparse seed [default: 0.3; speech: 0.5]", CHANGE)
    ] = None,
    growth: Annotated[float, option("Ratio of weight growth", CHANGE)] = 0.1,
    growth_epochs: Annotated[
        int | None, option("Epochs after which weights grow, the first ones [default: 3; speech: 6]", CHANGE)
    ] = None,
    unit_ratio: Annotated[float, option("First ratio of pruning units and inputs", CHANGE)] = 0.2,
    weight_ratio: Annotated[
        float | None, option("First ratio of pruning weights [default: 0.5; speech: 0.7]", CHANGE)
    ] = None,
    rounds: Annotated[int, option("Most rounds of a step that prunes", CHANGE)] = 8,
    tolerance: Annotated[
        float | None,
        option(
            "How far above the dense start's validation may be: perplexity by a share, error rate by points "
            "[default: 0.01; speech: 1]",
            CHANGE,
        ),
    ] = None,
    gradient_batches: Annotated[int, option("Training batches whose gradients say what grows", CHANGE)] = 50,
    grow_to: Annotated[int | None, option("Units of each layer after growth, instead of a profile", CHANGE)] = None,
    target: Annotated[
        float | None, option("So many times fewer LSTM parameters than the dense start, then stop", CHANGE)
    ] = None,
    profile: Annotated[
        Path | None, option("File of eta-lstm research profile latency: units stop at its points only", MACHINE)
    ] = None,
    input_profile: Annotated[Path | None, option("The same for the first layer's inputs", MACHINE)] = None,
    guided: Annotated[str, option("What the profile guides: all, or growth", MACHINE)] = "all",
    engine: Annotated[str, option(f"What computes the LSTMs: {DEVICES_HELP}", MACHINE)] = GOLDEN,
    preset: Annotated[str, option(f"Whose cycles count. {PRESET_HELP}", MACHINE)] = "vcu128",
) -> int:
    """Train a language model on PTB or a speech model on AN4, then grow and prune it to sizes that pay on a machine.

    The exit code is 1 if a target is not reached. Ctrl-C, SIGTERM and SIGHUP leave a checkpoint; the exit code is then
    130, 143 or 129.
    """
    parts = _package()
    if resume and overwrite:
        raise ValueError("--resume goes on with a run, --overwrite begins anew: there must be one of them, got both")
    folder = RunFolder(out)
    settings = _settings(parts, folder, _chosen(context), resume)
    _refuse_unused(context, settings)
    guides = _guides(parts, settings)
    task = parts.task.TASKS[settings.task](settings)
    cycles = partial(_cycles, settings.preset, settings.batch, task.steps)
    goal = parts.changes.Target(guides, cycles, named_preset(settings.preset).digest)
    _check_growth(settings, task.sizes, goal.cycles)
    with ExitStack() as stack:
        stack.enter_context(folder).open(resume, overwrite)
        opened = stack.enter_context(_opened(settings.engine, settings.preset))
        run = parts.run.Run(settings, task, folder, opened, goal, resume)
        if overwrite:
            folder.clear()
        last = run.run(_show)
    if last["kind"] == "interrupted":
        return SIGNAL_EXIT + last["signal"]
    _print_result(task.SCORE, parts.run.entries_of_rounds(read_log(folder.metrics)), last)
    return 0 if last["reached"] else NOT_REACHED


def _package() -> ModuleType:
    """Import what needs the extra; the rest of the program works without it."""
    with_extra(f"{PACKAGE}.run")  # and with it every other module
    return importlib.import_module(PACKAGE)


def _chosen(context: Context) -> dict:
    chosen = {name: value for name, value in given(context).items() if name not in NO_SETTINGS}
    chosen |= {name: str(chosen[name].absolute()) for name in FILES if name in chosen}
    if Path(chosen.get("preset", "")).is_file():  # else a name
        chosen["preset"] = str(Path(chosen["preset"]).absolute())
    if "phases" in chosen:
        phases = tuple(part.strip() for part in chosen["phases"].split(","))
        chosen["phases"] = () if phases == ("dense",) else phases
    return chosen


def _settings(parts: ModuleType, folder: RunFolder, chosen: dict, resume: bool):
    if resume:
        return parts.settings.CompressSettings.load(folder.settings).going_on(chosen)
    if "start" in chosen:
        chosen = _of_start(parts, folder, Path(chosen["start"])) | chosen
    if "data" not in chosen:
        raise RunError("--data must be given where a run begins")
    return parts.settings.CompressSettings.of(chosen)


def _of_start(parts: ModuleType, folder: RunFolder, start: Path) -> dict:
    """Give the settings of the run whose dense start is taken that this run has from it."""
    if start.resolve() == folder.path.resolve():
        raise RunError(f"--start must be the folder of another run than --out, got {start} for both")
    found = parts.settings.CompressSettings.load(RunFolder(start).settings)
    return found.of_dense_start | {"data": found.data}


def _refuse_unused(context: Context, settings) -> None:
    """Refuse options that neither the task nor a step of the run uses."""
    for names, phases in USED_BY.items():
        if not set(phases) & set(settings.phases):
            refuse(context, f"only used with the step {' or '.join(phases)}", *names)
    for names, task in TASKS_OF.items():
        if task != settings.task:
            refuse(context, f"only used with --task {task}", *names)
    if settings.profile is None and settings.input_profile is None:
        refuse(context, "only used with --profile or --input-profile", "guided")


def _check_growth(settings, sizes, cycles) -> None:
    """Refuse growth to a size that does not fit the machine."""
    if settings.grow_to is None:
        return
    if cycles(replace(sizes, units=(settings.grow_to,) * settings.layers)) is None:
        raise PlanError(f"growth to {settings.grow_to} units of a layer does not fit preset {settings.preset}")


def _guides(parts: ModuleType, settings):
    """Read the profiles; refuse those of another machine, or of another dimension."""
    found = {}
    for name, dimension, size in (("profile", HIDDEN, settings.hidden), ("input_profile", INPUT, settings.embedding)):
        path = getattr(settings, name)
        found[name] = None if path is None else _guide(Path(path), dimension, size, settings)
    return parts.search.Guides(*found.values())


def _guide(path: Path, dimension: str, size: int, settings) -> Profile:
    profile, preset = load(path), settings.preset
    if profile.unit == "cycles":
        profile.check_for(preset, named_preset(preset), path)
    for what, found, wanted in (("", profile.dimension, dimension), ("cell ", profile.cell, settings.cell)):
        if found != wanted:
            raise RunError(f"{path}: must be a profile of {what}{wanted}, got one of {what}{found}")
    if max(profile.latencies) < size:
        raise RunError(f"{path}: must have sizes up to the dense start's {size}, got up to {max(profile.latencies)}")
    return profile


@cache
def _cycles(preset: str, batch: int, steps: int, sizes) -> int | None:
    """Give the cycles of an iteration of all layers and directions, each planned by itself as in :mod:`etalstm.nn`."""
    config, found = named_preset(preset), 0
    for inputs, units in zip(sizes.layer_inputs, sizes.units, strict=True):
        cycles = cycles_of(NetworkShape(inputs, units, cell=sizes.cell), batch, steps, config)
        if cycles is None:
            return None
        found += sizes.directions * cycles
    return found


def _opened(engine: str, preset: str):
    """Open a device of a preset; golden needs none."""
    return nullcontext(engine) if engine == GOLDEN else open_device(engine, preset)


def _print_result(score: str, rounds: list[dict], last: dict) -> None:
    dense = rounds[0]
    table = Table(title="Rounds; times fewer than the dense start in brackets", title_justify="left")
    columns = "step", "inputs/units", "LSTM parameters", "all parameters", "validation", "test", "cycles", ""
    for column in columns:
        table.add_column(column, justify="left" if column in ("step", "") else "right")
    for entry in rounds:
        table.add_row(*_row(score, entry, dense))
    print_table(table)
    print(f"kept: {last['fold']:.2f} times fewer LSTM parameters, test {score.replace('_', ' ')} {last[score]:.2f}")
    for phase, reason in last["ended"].items():
        print(f"{phase} ended: {reason}")
    if not last["reached"]:
        print(
            f"target not reached: {last['target']:g} times fewer LSTM parameters were wanted, {last['fold']:.2f} were "
            "accepted; network.safetensors has that network", file=sys.stderr,
        )  # fmt: skip


def _row(score: str, entry: dict, dense: dict) -> list[str]:
    counted = []
    for name in ("lstm_parameters", "parameters", "cycles"):
        value, start = entry[name], dense[name]
        counted.append("does not fit" if not value else f"{value:,}" + (f" ({start / value:.2f})" if start else ""))
    scores = [f"{entry[name]:.2f}" if name in entry else "" for name in (score, f"test_{score}")]
    sizes = "/".join(map(str, (entry["inputs"], *entry["units"])))
    step = f"{entry['phase']} {entry['round'] + 1}"
    return [step, sizes, counted[0], counted[1], *scores, counted[2], entry["decision"]]


def _show(entry: dict) -> None:
    """Print what matters of an entry of the log."""
    kind = entry["kind"]
    if kind == "iteration" and entry["iteration"] % SHOWN_EVERY:
        return
    scores = "loss", "perplexity", "character_error_rate"
    names = "phase", "round", *scores, "lstm_parameters", "cycles", "decision", "reason", "seconds"
    values = [f"{name} {_text(entry[name])}" for name in names if entry.get(name) is not None]
    print(f"{kind} {entry['iteration' if kind == 'iteration' else 'epoch']}: {', '.join(values)}", file=sys.stderr)


def _text(value) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
