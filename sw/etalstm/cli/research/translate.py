"""``eta-lstm research translate``: train a model that translates sentences, use it, and score it."""

import importlib
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Annotated

from typer import Argument, Context, Option

from etalstm.cli import SIGNAL_EXIT
from etalstm.cli.declared import chosen, with_settings
from etalstm.cli.devices import DEVICES_HELP
from etalstm.cli.options import option
from etalstm.cli.output import with_extra
from etalstm.cli.using import lines_of
from etalstm.device import GOLDEN, open_device
from etalstm.errors import RunError
from etalstm.network.execution import PRESET_HELP
from etalstm.research.translate_settings import PANELS, RUN, TranslationSettings
from etalstm.train.folder import RunFolder

PACKAGE = "etalstm.research.translate"
SHOWN_EVERY = 50  # iterations

Folder = Annotated[Path, Argument(help="Folder of a run of eta-lstm research translate train")]
Engine = Annotated[str, Option(help=f"What computes the LSTMs: {DEVICES_HELP}")]
Preset = Annotated[str | None, Option(help=f"{PRESET_HELP} [default: sim]")]
Beam = Annotated[int, Option(help="Width of the beam; 1 takes the best token at each step")]
Last = Annotated[bool, Option("--last", help="The last checkpoint, not the one with the lowest validation loss")]


@with_settings(TranslationSettings, PANELS)
def train(
    context: Context,
    out: Annotated[Path, option("Folder for settings, metrics and checkpoints", RUN)],
    resume: Annotated[bool, option("Go on from the folder's checkpoint, with its settings", RUN, "--resume")] = False,
    overwrite: Annotated[bool, option("Begin anew in a folder that holds a run", RUN, "--overwrite")] = False,
    **_,
) -> int:
    """Train a translation model on sentence pairs.

    Ctrl-C, SIGTERM and SIGHUP leave a checkpoint; the exit code is then 130, 143 or 129.
    """
    package = import_package()
    if resume and overwrite:
        raise ValueError("--resume goes on with a run, --overwrite begins anew: there must be one of them, got both")
    folder = RunFolder(out)
    settings = _settings(folder, chosen(context, TranslationSettings), resume)
    corpus = package.corpus.read_corpus(settings)
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
        trainer = package.trainer.Trainer(settings, corpus, folder, opened, resume)
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
    package = import_package()
    _check_beam(beam)
    lines = lines_of(file) if file else texts
    with _opened(engine, preset) as opened:
        _, trained = package.trained.load(folder, opened, last)
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
    package = import_package()
    _check_beam(beam)
    splits = {"validation": package.corpus.VALIDATION, "test": package.corpus.TEST}
    if split not in splits:
        raise ValueError(f"split must be one of {', '.join(splits)}, got {split!r}")
    with _opened(engine, preset) as opened:
        settings, trained = package.trained.load(folder, opened, last)
        directory = data or Path(settings.data)
        pairs = package.corpus.read_pairs(directory, splits[split], settings.source, settings.target)
        score, signature = trained.score(pairs, beam)
    print(f"BLEU {score:.2f} of {len(pairs):,} sentences, beam {beam} ({signature})")


def import_package() -> ModuleType:
    """Import the package that needs the extra; the rest of the program works without it."""
    with_extra(f"{PACKAGE}.trainer", "translate", ("torch", "sacrebleu"))  # and with it every other module
    return importlib.import_module(PACKAGE)


def _settings(folder: RunFolder, given: dict, resume: bool) -> TranslationSettings:
    if resume:
        return TranslationSettings.load(folder.settings).going_on(given)
    for name in ("data", "source", "target"):
        if name not in given:
            raise RunError(f"--{name} must be given where a run begins")
    return TranslationSettings(**given)


def _opened(engine: str, preset: str | None):
    """Open a device of a preset; without a preset the engine's name is enough."""
    return nullcontext(engine) if preset is None else open_device(engine, preset)


def _check_beam(beam: int) -> None:
    if beam < 1:
        raise ValueError(f"beam must be at least 1, got {beam}")


def _show(entry: dict) -> None:
    """Print the main figures of an entry of the log."""
    kind = entry["kind"]
    if kind == "iteration" and entry["iteration"] % SHOWN_EVERY:
        return
    values = {name: f"{value:.4g}" for name, value in entry.items() if isinstance(value, float)}
    text = ", ".join(f"{name} {value}" for name, value in values.items())
    print(f"{kind} {entry['iteration' if kind == 'iteration' else 'epoch']}: {text}", file=sys.stderr, flush=True)
