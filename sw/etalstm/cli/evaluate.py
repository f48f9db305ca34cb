"""``eta-lstm evaluate``."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.cli.using import AsJson, DeviceName, Preset, Run, Which, data_of, loaded
from etalstm.data import SPLITS


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
