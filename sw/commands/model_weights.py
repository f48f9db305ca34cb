"""What of a trained network's gradients is zero, for ``eta-lstm model --weights``."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from etalstm.commands.trained import settings_of
from etalstm.device import open_device
from etalstm.device.shape import TrainingShape
from etalstm.network import GATES
from etalstm.storage import KINDS, Usage
from etalstm.train.loop import CHECKPOINT, METRICS, Trainer

_CHOSEN = ("theta", "storage", "delta_target")


class Measured(NamedTuple):
    """A run's shape, and shares of nonzero elements in an iteration of it, padding included, of all layers together.

    Members
    -------
    name : str
        Of the data set.
    shape : TrainingShape
    delta, local : float
        Of the gates' gradients and of the local gradients; of dense cells all local gradients are kept.
    """

    name: str
    shape: TrainingShape
    delta: float
    local: float


def measure_run(run: Path, data: Path | None = None) -> Measured:
    """Train a run's network on one more batch, with what the run dropped, on the golden trainer; count what is zero.

    Parameters
    ----------
    run : Path
        Folder of ``eta-lstm train``.
    data : Path, optional
        Directory of the data set's files.

    Raises
    ------
    ValueError
        If the folder holds no run.
    CheckpointError
        If its checkpoint is damaged, or does not fit the data set.
    """
    for name in (CHECKPOINT, METRICS):
        if not (run / name).is_file():
            raise ValueError(f"{run} must be the folder of a run of eta-lstm train, but holds no {name}")
    settings = settings_of(run / CHECKPOINT, None, data, **_chosen(run / METRICS))
    with open_device("golden") as device:
        trainer = Trainer(settings, device, run, resume=run / CHECKPOINT)
        batches = trainer.data.epoch("train", settings.batch, trainer.steps, np.random.default_rng(0))
        trainer.iterate(batches[0])
        usage = sum(trainer.session.usage(), Usage())
        shape = trainer.session.shape
    local = sum(usage.kept) / (len(KINDS) * usage.elements) if shape.storage.compressed else 1.0
    return Measured(settings.dataset, shape, usage.delta_kept / (GATES * usage.elements), local)


def _chosen(metrics: Path) -> dict:
    """Give what a run dropped and how it kept the rest, as its last iteration says."""
    entries = (json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines())
    iterations = [entry for entry in entries if entry.get("kind") == "iteration"]
    if not iterations:
        raise ValueError(f"{metrics} must hold an iteration, but holds none")
    chosen = {name: iterations[-1][name] for name in _CHOSEN}
    if isinstance(chosen["theta"], list):
        chosen["theta"] = tuple(chosen["theta"])
    return chosen
