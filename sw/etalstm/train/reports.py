"""Where a run's numbers are shown besides its log: TensorBoard, Weights & Biases, MLflow.

Each report is called with every entry of the log and is a context manager that closes it.
"""

import dataclasses
import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from etalstm.errors import RunError
from etalstm.train.events import EventFile
from etalstm.train.settings import Settings

Report = Callable[[dict], None]
PLACES = ("iteration", "epoch", "batches", "of_batches")  # of an entry: where it stands, not what was measured


def numbers(entry: dict) -> dict[str, float]:
    """Give the numbers of an entry by names such as ``train/loss`` and ``validation/accuracy``; nested ones flat."""
    group = entry.get("split", "train")
    found = {}
    for name, value in entry.items():
        inner = value if isinstance(value, dict) else {"": value}
        for part, number in inner.items():
            if name not in PLACES and isinstance(number, (int, float)) and not isinstance(number, bool):
                found[f"{group}/{name}" + (f"/{part}" if part else "")] = float(number)
    return found


def both(one: Report, other: Report) -> Report:
    """Give a report that tells two others."""

    def tell(entry: dict) -> None:
        one(entry)
        other(entry)

    return tell


class EventReport:
    """TensorBoard's event files in a folder; see :class:`etalstm.train.events.EventFile`."""

    def __init__(self, folder: Path, resumed_at: int | None = None):
        self._file = EventFile(folder, resumed_at)

    def __call__(self, entry: dict) -> None:
        """Show an entry."""
        self._file.scalars(entry["iteration"], numbers(entry))

    def __enter__(self) -> "EventReport":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class WandbReport:
    """A run of Weights & Biases, with the settings; the package ``wandb`` and its account are the user's."""

    def __init__(self, name: str, settings: Settings):
        self._run = _module("wandb").init(project="etalstm", name=name, config=dataclasses.asdict(settings))

    def __call__(self, entry: dict) -> None:
        """Show an entry."""
        self._run.log(numbers(entry), step=entry["iteration"])

    def __enter__(self) -> "WandbReport":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._run.finish(exit_code=int(kind is not None))


class MlflowReport:
    """A run of MLflow, with the settings; the package ``mlflow`` and its server are the user's."""

    def __init__(self, name: str, settings: Settings):
        self._mlflow = _module("mlflow")
        self._mlflow.set_experiment("etalstm")
        self._mlflow.start_run(run_name=name)
        self._mlflow.log_params(dataclasses.asdict(settings))

    def __call__(self, entry: dict) -> None:
        """Show an entry."""
        finite = {name: value for name, value in numbers(entry).items() if math.isfinite(value)}
        self._mlflow.log_metrics(finite, step=entry["iteration"])

    def __enter__(self) -> "MlflowReport":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._mlflow.end_run("FINISHED" if kind is None else "FAILED")


SERVICES: dict[str, type[WandbReport | MlflowReport]] = {"wandb": WandbReport, "mlflow": MlflowReport}
"""What ``--log`` may name."""


def open_service(service: str, name: str, settings: Settings) -> WandbReport | MlflowReport:
    """Open a report to a service.

    Parameters
    ----------
    service : str
        A key of :data:`SERVICES`.
    name : str
        What the service calls the run.
    settings : Settings

    Raises
    ------
    ValueError
        If there is no such service.
    RunError
        If its package is not installed.
    """
    if service not in SERVICES:
        raise ValueError(f"log must be one of {', '.join(SERVICES)}, got {service!r}")
    return SERVICES[service](name, settings)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RunError(f"--log {name} needs the package {name}, which is not installed: pip install {name}") from error
