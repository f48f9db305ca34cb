"""``eta-lstm research translate``: train a model that translates sentences, use it, and score it."""

import importlib
import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from typer import Argument, Context, Option

from etalstm.cli import SIGNAL_EXIT
from etalstm.cli.devices import DEVICES_HELP
from etalstm.cli.options import option
from etalstm.cli.output import with_extra
from etalstm.cli.parser import given
from etalstm.cli.using import lines_of
from etalstm.device import GOLDEN, open_device
from etalstm.errors import RunError
from etalstm.network.execution import INPUT_THRESHOLD_HELP, PRESET_HELP, number_or_off
from etalstm.network.storage import read_thresholds
from etalstm.train.folder import RunFolder

PACKAGE = "etalstm.research.translate"
RUN, DATA, MODEL, LEARN, MACHINE = "The run", "Data", "Model", "Learning", "Machine"
NO_SETTINGS = ("out", "resume", "overwrite")
READ: dict[str, Callable[[Any], object]] = {
    "theta": read_thresholds,
    "delta_target": partial(number_or_off, "delta_target"),
    "data": lambda path: str(path.absolute()),
}
SHOWN_EVERY = 50  # iterations

Folder = Annotated[Path, Argument(help="Folder of a run of eta-lstm research translate train")]
Engine = Annotated[str, Option(help=f"What computes the LSTMs: {DEVICES_HELP}")]
Preset = Annotated[str | None, Option(help=f"{PRESET_HELP} [default: sim]")]
Beam = Annotated[int, Option(help="Width of the beam; 1 takes the best token at each step")]
Last = Annotated[bool, Option("--last", help="The last checkpoint, not the one with the lowest validation loss")]


def train(
    context: Context,
    out: Annotated[Path, option("Folder for settings, metrics and checkpoints", RUN)],
    resume: Annotated[bool, option("Go on from the folder's checkpoint, with its settings", RUN, "--resume")] = False,
    overwrite: Annotated[bool, option("Begin anew in a folder that holds a run", RUN, "--overwrite")] = False,
    epochs: Annotated[int, option("Passes over the training pairs", RUN)] = 6,
    seed: Annotated[int, option("Of first weights, order and dropout", RUN)] = 0,
    data: Annotated[
        Path | None, option("Directory of train.SOURCE, train.TARGET and so on, or SOURCE-train.txt; or .gz", DATA)
    ] = None,
    source: Annotated[str | None, option("Language that is read, as its files are called", DATA)] = None,
    target: Annotated[str | None, option("Language that is written, as its files are called", DATA)] = None,
    tokens: Annotated[str, option("words, or spaces: texts that white space divides already", DATA)] = "words",
    lower: Annotated[bool, option("Texts in lower case, and BLEU without regard to case", DATA, "--lower")] = False,
    least_count: Annotated[int, option("The vocabulary takes tokens that the training has so often", DATA)] = 2,
    longest: Annotated[int, option("Most tokens of a training pair, and of a translation", DATA)] = 50,
    sentences: Annotated[int | None, option("The first so many pairs of each split [default: all]", DATA)] = None,
    hidden: Annotated[int, option("Units of a layer; the encoder has half of them in each direction", MODEL)] = 256,
    embedding: Annotated[int, option("Size of a token's vector", MODEL)] = 256,
    layers: Annotated[int, option("LSTM layers of the encoder, and of the decoder", MODEL)] = 1,
    attention: Annotated[str, option("additive or dot", MODEL)] = "additive",
    dropout: Annotated[float, option("Share dropped in training", MODEL)] = 0.0,
    batch: Annotated[int, option("Pairs of an iteration", LEARN)] = 64,
    learning_rate: Annotated[float, option("Of Adam, at the start; it falls to 0", LEARN, "--lr")] = 0.002,
    clip: Annotated[float, option("Largest norm of the gradient", LEARN)] = 1.0,
    engine: Annotated[str, option(f"What computes the LSTMs: {DEVICES_HELP}", MACHINE)] = GOLDEN,
    preset: Annotated[str | None, option(f"{PRESET_HELP} [default: sim]", MACHINE)] = None,
    recompute: Annotated[
        str, option("Compute the attention's maps again instead of keeping them: auto, on, off", MACHINE)
    ] = "auto",
    storage: Annotated[
        str | None, option("dense, ms1, ms1-bf16 [default: ms1 with a theta or delta target, else dense]", MACHINE)
    ] = None,
    theta: Annotated[str, option("Drop local gradients below: one number or six", MACHINE)] = "0",
    slices: Annotated[int, option("Slices of the batch, whose gradients are added as a tree", MACHINE)] = 1,
    delta_target: Annotated[str, option("Leave this share of the gates' gradients, or off", MACHINE)] = "off",
    input_threshold: Annotated[str, option(INPUT_THRESHOLD_HELP, MACHINE)] = "0",
) -> int:
    """Train a translation model on sentence pairs.

    Ctrl-C, SIGTERM and SIGHUP leave a checkpoint; the exit code is then 130, 143 or 129.
    """
    parts = package()
    chosen = {name: value for name, value in given(context).items() if name not in NO_SETTINGS}
    chosen |= {name: read(chosen[name]) for name, read in READ.items() if name in chosen}
    if resume and overwrite:
        raise ValueError("--resume goes on with a run, --overwrite begins anew: there must be one of them, got both")
    folder = RunFolder(out)
    settings = _settings(parts, folder, chosen, resume)
    corpus = parts.corpus.read_corpus(settings)
    words = corpus.vocabularies
    print(
        f"{len(corpus.training[0]):,} training pairs, "
        f"left out {corpus.left_out:,} longer and {corpus.blank:,} blank ones; "
        f"{len(words.source):,} tokens of {settings.source}, {len(words.target):,} of {settings.target}",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(folder).open(resume, overwrite)
        opened = stack.enter_context(_opened(settings.engine, settings.preset))
        trainer = parts.trainer.Trainer(settings, corpus, folder, opened, resume)
        if overwrite:
            folder.clear()
        last = trainer.run(_show)
    return SIGNAL_EXIT + last["signal"] if last["kind"] == "interrupted" else 0


def run(
    folder: Folder,
    texts: Annotated[list[str] | None, Argument(help="Sentences to translate")] = None,
    file: Annotated[Path | None, Option(help="File of a sentence a line")] = None,
    beam: Beam = 5,
    last: Last = False,
    engine: Engine = GOLDEN,
    preset: Preset = None,
) -> None:
    """Translate sentences with a trained model: a line for each, a blank one for a blank line."""
    if bool(texts) == (file is not None):
        raise ValueError("there must be sentences to translate, or a file of them (--file)")
    parts = package()
    _check_beam(beam)
    lines = lines_of(file) if file else texts
    with _opened(engine, preset) as opened:
        _, trained = parts.trained.load(folder, opened, last)
        for line in trained.translate(lines, beam):
            print(line)


def evaluate(
    folder: Folder,
    split: Annotated[str, Option(help="validation or test")] = "test",
    data: Annotated[Path | None, Option(help="Directory of the files [default: that of the training]")] = None,
    beam: Beam = 5,
    last: Last = False,
    engine: Engine = GOLDEN,
    preset: Preset = None,
) -> None:
    """Score a trained model with BLEU on the validation or test split."""
    parts = package()
    _check_beam(beam)
    splits = {"validation": parts.pairs.VALIDATION, "test": parts.pairs.TEST}
    if split not in splits:
        raise ValueError(f"split must be one of {', '.join(splits)}, got {split!r}")
    with _opened(engine, preset) as opened:
        settings, trained = parts.trained.load(folder, opened, last)
        place = data or Path(settings.data)
        pairs = parts.pairs.read_pairs(place, splits[split], settings.source, settings.target)
        score, signature = trained.score(pairs, beam)
    print(f"BLEU {score:.2f} of {len(pairs):,} sentences, beam {beam} ({signature})")


def package() -> ModuleType:
    """Import what needs the extra; the rest of the program works without it."""
    with_extra(f"{PACKAGE}.trainer", "translate", ("torch", "sacrebleu"))  # and with it every other module
    return importlib.import_module(PACKAGE)


def _settings(parts: ModuleType, folder: RunFolder, chosen: dict, resume: bool):
    if resume:
        return parts.settings.TranslationSettings.load(folder.settings).going_on(chosen)
    for name in ("data", "source", "target"):
        if name not in chosen:
            raise RunError(f"--{name} must be given where a run begins")
    return parts.settings.TranslationSettings(**chosen)


def _opened(engine: str, preset: str | None):
    """Open a device of a preset; without a preset the engine's name is enough."""
    return nullcontext(engine) if preset is None else open_device(engine, preset)


def _check_beam(beam: int) -> None:
    if beam < 1:
        raise ValueError(f"beam must be at least 1, got {beam}")


def _show(entry: dict) -> None:
    """Print what matters of an entry of the log."""
    kind = entry["kind"]
    if kind == "iteration" and entry["iteration"] % SHOWN_EVERY:
        return
    values = {name: f"{value:.4g}" for name, value in entry.items() if isinstance(value, float)}
    text = ", ".join(f"{name} {value}" for name, value in values.items())
    print(f"{kind} {entry['iteration' if kind == 'iteration' else 'epoch']}: {text}", file=sys.stderr, flush=True)
