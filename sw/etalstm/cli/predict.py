"""``eta-lstm predict``."""

import json
from io import StringIO
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Option

from etalstm.cli.using import AsJson, DeviceName, Preset, Run, Which, loaded
from etalstm.data.arrays import ARRAYS, read_inputs
from etalstm.data.files import read_text
from etalstm.data.tables import DELIMITERS
from etalstm.errors import DataError
from etalstm.train import TrainedModel

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
    if bool(texts) == (file is not None):
        raise ValueError("there must be texts to answer, or a file of them (--file)")
    with loaded(run, device, preset, checkpoint) as model:
        if texts:
            answers = model.predict(texts)
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

    Raises
    ------
    DataError
        If it is a table or arrays by its ending, or as :func:`etalstm.data.files.read_text`.
    """
    if file.suffix.lower() in (*DELIMITERS, ARRAYS):
        raise DataError(f"{file}: must be a file of a text a line, but its ending is {file.suffix}")
    return [line.removesuffix("\n") for line in StringIO(read_text(file), newline=None)]


def _answers_of_lines(model: TrainedModel, lines: list[str]) -> list:
    """Answer lines; None for a blank one, so that answers and lines have the same numbers."""
    answers = iter(model.predict([line for line in lines if line.strip()]))
    return [next(answers) if line.strip() else None for line in lines]
