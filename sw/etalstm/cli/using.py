"""Commands that use what a run has trained: evaluate, predict, generate, export, plot."""

import json
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Option

from etalstm.cli.devices import DEVICES_HELP, open_named
from etalstm.data import SPLITS, DataSet, open_data
from etalstm.data.arrays import ARRAYS, read_inputs
from etalstm.data.files import read_text
from etalstm.data.tables import DELIMITERS
from etalstm.errors import DataError, RunError
from etalstm.network.execution import PRESET_HELP
from etalstm.train import TrainedModel, load
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import draw_runs, read_log
from etalstm.train.trained import CHECKPOINTS, FORMATS

Run = Annotated[Path, Argument(help="Folder of eta-lstm train")]
DeviceName = Annotated[str, Option("--device", help=f"What computes: {DEVICES_HELP}; the run's own does not matter")]
Preset = Annotated[str | None, Option("--preset", help=f"{PRESET_HELP} [default: the run's]")]
Which = Annotated[
    str | None, Option("--checkpoint", help=f"Which: {', '.join(CHECKPOINTS)} [default: the best, if there is one]")
]
AsJson = Annotated[bool, Option("--json", help="As JSON")]


def loaded(run: Path, device: str, preset: str | None, checkpoint: str | None) -> TrainedModel:
    """Load a run on a device that is named; raises as :func:`etalstm.train.load`."""
    opened = open_named(device, preset or RunFolder(run).read_settings().preset)
    with ExitStack() as failed:
        failed.enter_context(opened)
        model = load(run, opened, checkpoint=checkpoint)
        failed.pop_all()
    return model


def data_of(model: TrainedModel, data: Path | None) -> DataSet:
    """Open the data set of a model's run, or another file of the same form, all of which is then the test split.

    Raises ``ValueError`` or :class:`DataError` as :func:`etalstm.data.open_data`.
    """
    if data is None:
        return open_data(model.settings)
    settings = replace(model.settings, data=str(data))
    return open_data(settings, model.encoding if settings.task else None)


def evaluate(
    run: Run,
    data: Annotated[
        Path | None, Option(help="Another file of examples, all of it; or where the data set's files are now")
    ] = None,
    split: Annotated[str, Option(help=f"One of {', '.join(SPLITS)}")] = "test",
    batch: Annotated[int | None, Option(help="Sequences at once [default: the run's]")] = None,
    steps: Annotated[int | None, Option(help="Steps of a sequence that are used [default: the run's]")] = None,
    checkpoint: Which = None,
    device: DeviceName = "golden",
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Give the loss and the score of a trained network on a split."""
    with loaded(run, device, preset, checkpoint) as model:
        found = model.evaluate(data_of(model, data), split, batch, steps)
    print(json.dumps(found) if as_json else ", ".join(f"{name} {value:.4g}" for name, value in found.items()))


BLANK = ""  # the answer to a blank line; with --json null


def predict(
    run: Run,
    texts: Annotated[list[str] | None, Argument(help="Texts to answer")] = None,
    file: Annotated[
        Path | None, Option(help="File of a text a line; where the network takes numbers, .npz or .csv")
    ] = None,
    checkpoint: Which = None,
    device: DeviceName = "golden",
    preset: Preset = None,
    as_json: AsJson = False,
) -> None:
    """Answer texts, or sequences of numbers, with a trained network: a line for each, a blank one for a blank line."""
    asked = texts or []
    if bool(asked) == (file is not None):
        raise ValueError("there must be texts to answer, or a file of them (--file)")
    with loaded(run, device, preset, checkpoint) as model:
        if file is None:
            answers = model.predict(asked)
        elif model.encoding.unit:
            answers = _answers_of_lines(model, lines_of(file))
        else:
            answers = model.predict(read_inputs(file, model.encoding))
    for answer in answers:
        answer = answer.tolist() if isinstance(answer, np.ndarray) else answer
        if as_json:
            print(json.dumps(answer))
        else:
            print(*(answer if isinstance(answer, list) else [BLANK if answer is None else answer]))


def lines_of(file: Path) -> list[str]:
    """Read the lines of a text file. Only line feeds and carriage returns end a line, as they do in an editor.

    Raises :class:`DataError` if it is a table or arrays by its ending, or as :func:`etalstm.data.files.read_text`.
    """
    if file.suffix.lower() in (*DELIMITERS, ARRAYS):
        raise DataError(f"{file}: must be a file of a text a line, but its ending is {file.suffix}")
    return [line.removesuffix("\n") for line in StringIO(read_text(file), newline=None)]


def _answers_of_lines(model: TrainedModel, lines: list[str]) -> list:
    """Answer each line; the answer to a blank line is None, so that there are as many answers as lines."""
    answers = iter(model.predict([line for line in lines if line.strip()]))
    return [next(answers) if line.strip() else None for line in lines]


def generate(
    run: Run,
    prompt: Annotated[str, Argument(help="What to go on from, at least one token")],
    length: Annotated[int, Option(help="Tokens to add")] = 200,
    temperature: Annotated[float, Option(help="Above 1 more varied, below 1 less; 0: the most probable token")] = 1.0,
    seed: Annotated[int, Option(help="Of what is drawn")] = 0,
    checkpoint: Which = None,
    device: DeviceName = "golden",
    preset: Preset = None,
) -> None:
    """Go on with a text, as a language model that was trained would."""
    with loaded(run, device, preset, checkpoint) as model:
        added = model.generate(prompt, length, temperature, seed)
    print(prompt + (" " if model.encoding.unit == "words" else "") + added)


def export(
    run: Run,
    out: Annotated[Path, Option("--out", "-o", help=f"File to write; its ending says how: {', '.join(FORMATS)}")],
    checkpoint: Which = None,
) -> None:
    """Write a trained network's parameters with PyTorch's names."""
    with load(run, checkpoint=checkpoint) as model:
        model.export(out)


def plot(
    runs: Annotated[list[Path], Argument(help="Folders of runs")],
    out: Annotated[Path, Option(help="Picture to write: .svg, .png or .pdf")] = Path("curves.svg"),
    smoothing: Annotated[float, Option(help="Weight of the iterations before in the training curves")] = 0.9,
) -> None:
    """Draw loss and score of runs over each other: training as lines, validation as points, the test as a star."""
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and below 1, got {smoothing}")
    draw_runs([(str(run), _entries(run)) for run in runs], out, smoothing)
    print(out)


def _entries(run: Path) -> list[dict]:
    path = RunFolder(run).metrics
    if not path.is_file():
        raise RunError(f"{run}: there is no run in this folder: no {path.name}")
    entries = read_log(path)
    if not any(entry["kind"] == "iteration" for entry in entries):
        raise RunError(f"{path}: no iteration is in it yet")
    return entries
