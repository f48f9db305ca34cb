"""``eta-lstm predict``."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Option

from etalstm.commands.using import AsJson, DeviceName, Preset, Run, Which, loaded
from etalstm.data.arrays import read_inputs
from etalstm.data.files import read_text


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
    """Answer texts, or sequences of numbers, with a trained network: a line for each."""
    if bool(texts) == (file is not None):
        raise ValueError("there must be texts to answer, or a file of them (--file)")
    with loaded(run, device, preset, checkpoint) as model:
        if texts:
            inputs = texts
        elif model.encoding.unit:
            inputs = [line for line in read_text(file).splitlines() if line.strip()]
        else:
            inputs = read_inputs(file, model.encoding)
        for answer in model.predict(inputs):
            answer = answer.tolist() if isinstance(answer, np.ndarray) else answer
            if as_json:
                print(json.dumps(answer))
            else:
                print(*(answer if isinstance(answer, list) else [answer]))
