"""Options of the commands that use what a run has trained."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from etalstm.cli.devices import open_named
from etalstm.data import DataSet, open_data
from etalstm.train import TrainedModel, load
from etalstm.train.folder import RunFolder
from etalstm.train.trained import CHECKPOINTS

Run = Annotated[Path, Argument(help="Folder of eta-lstm train")]
DeviceName = Annotated[str, Option("--device", help="What computes; the run's own does not matter")]
Preset = Annotated[str | None, Option("--preset", help="Configuration of the accelerator [default: the run's]")]
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
    """Open the data set of a model's run; of a user's own file another one, which is a test split as a whole.

    Raises
    ------
    ValueError, DataError
        As :func:`etalstm.data.open_data`.
    """
    if data is None:
        return open_data(model.settings)
    settings = replace(model.settings, data=str(data))
    return open_data(settings, model.encoding if settings.task else None)
