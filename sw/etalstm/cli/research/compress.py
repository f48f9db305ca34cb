"""``eta-lstm research compress``: a network that grows and shrinks, guided by what a machine says of sizes."""

import importlib
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

from typer import Context

from etalstm.cli import SIGNAL_EXIT
from etalstm.cli.declared import chosen, with_settings
from etalstm.cli.options import option
from etalstm.cli.output import print_rows, with_extra
from etalstm.cli.research.profile import cycles_of
from etalstm.device import GOLDEN, open_device
from etalstm.errors import PlanError, RunError
from etalstm.network.shape import NetworkShape
from etalstm.research.compress_settings import PANELS, RUN, CompressSettings
from etalstm.research.profile import HIDDEN, INPUT, Profile, load
from etalstm.train.declared import refuse_unused
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log
from etalstm_hw.config import preset as named_preset

PACKAGE = "etalstm.research.compress"
SHOWN_EVERY = 50  # iterations
NOT_REACHED = 1


@with_settings(CompressSettings, PANELS)
def compress(
    context: Context,
    out: Annotated[Path, option("Folder for settings, metrics and checkpoints", RUN)],
    resume: Annotated[
        bool,
        option("Go on from the folder's checkpoint, with its settings; rounds and target may differ", RUN, "--resume"),
    ] = False,
    overwrite: Annotated[bool, option("Begin anew in a folder that holds a run", RUN, "--overwrite")] = False,
    **_,
) -> int:
    """Train a language model on PTB or a speech model on AN4, then grow and prune it to sizes that pay on a machine.

    The exit code is 1 if a target is not reached. Ctrl-C, SIGTERM and SIGHUP leave a checkpoint; the exit code is then
    130, 143 or 129.
    """
    package = _import_package()
    if resume and overwrite:
        raise ValueError("--resume goes on with a run, --overwrite begins anew: there must be one of them, got both")
    folder = RunFolder(out)
    given = chosen(context, CompressSettings)
    settings = _settings(folder, given, resume)
    refuse_unused(given, settings, None)
    guides = _guides(package, settings)
    task = package.task.TASKS[settings.task](settings)
    cycles = partial(_cycles, settings.preset, settings.batch, task.steps)
    goal = package.changes.Target(guides, cycles, named_preset(settings.preset).digest)
    _check_growth(settings, task.sizes, goal.cycles)
    with ExitStack() as stack:
        stack.enter_context(folder).open(resume, overwrite)
        opened = stack.enter_context(_opened(settings.engine, settings.preset))
        run = package.run.Run(settings, task, folder, opened, goal, resume)
        if overwrite:
            folder.clear()
        last = run.run(_show)
    if last["kind"] == "interrupted":
        return SIGNAL_EXIT + last["signal"]
    _print_result(task.SCORE, package.run.entries_of_rounds(read_log(folder.metrics)), last)
    return 0 if last["reached"] else NOT_REACHED


def _import_package() -> ModuleType:
    """Import the package that needs the extra; the rest of the program works without it."""
    with_extra(f"{PACKAGE}.run")  # and with it every other module
    return importlib.import_module(PACKAGE)


def _settings(folder: RunFolder, chosen: dict, resume: bool) -> CompressSettings:
    if resume:
        return CompressSettings.load(folder.settings).going_on(chosen)
    if "start" in chosen:
        chosen = _start_settings(folder, Path(chosen["start"])) | chosen
    if "data" not in chosen:
        raise RunError("--data must be given where a run begins")
    return CompressSettings.of(chosen)


def _start_settings(folder: RunFolder, start: Path) -> dict:
    """Give the settings that a run takes, with the dense start, from the run in folder `start`."""
    if start.resolve() == folder.path.resolve():
        raise RunError(f"--start must be the folder of another run than --out, got {start} for both")
    found = CompressSettings.load(RunFolder(start).settings)
    return found.of_dense_start | {"data": found.data}


def _check_growth(settings, sizes, cycles) -> None:
    """Refuse growth to a size that does not fit the machine."""
    if settings.grow_to is None:
        return
    if cycles(replace(sizes, units=(settings.grow_to,) * settings.layers)) is None:
        raise PlanError(f"growth to {settings.grow_to} units of a layer does not fit preset {settings.preset}")


def _guides(package: ModuleType, settings):
    """Read the profiles; refuse those of another machine, or of another dimension."""
    found = {}
    for name, dimension, size in (("profile", HIDDEN, settings.hidden), ("input_profile", INPUT, settings.embedding)):
        path = getattr(settings, name)
        found[name] = None if path is None else _guide(Path(path), dimension, size, settings)
    return package.changes.Guides(*found.values())


def _guide(path: Path, dimension: str, size: int, settings) -> Profile:
    profile, preset = load(path), settings.preset
    if profile.unit == "cycles":
        profile.check_for(preset, named_preset(preset), path)
    for kind, found, wanted in (("", profile.dimension, dimension), ("cell ", profile.cell, settings.cell)):
        if found != wanted:
            raise RunError(f"{path}: must be a profile of {kind}{wanted}, got one of {kind}{found}")
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
    columns = "step", "inputs/units", "LSTM parameters", "all parameters", "validation", "test", "cycles", ""
    rows = (_row(score, entry, dense) for entry in rounds)
    print_rows("Rounds; times fewer than the dense start in brackets", columns, rows, left=(0, len(columns) - 1))
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
    """Print the main figures of an entry of the log."""
    kind = entry["kind"]
    if kind == "iteration" and entry["iteration"] % SHOWN_EVERY:
        return
    scores = "loss", "perplexity", "character_error_rate"
    names = "phase", "round", *scores, "lstm_parameters", "cycles", "decision", "reason", "seconds"
    values = [f"{name} {_text(entry[name])}" for name in names if entry.get(name) is not None]
    print(f"{kind} {entry['iteration' if kind == 'iteration' else 'epoch']}: {', '.join(values)}", file=sys.stderr)


def _text(value) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
