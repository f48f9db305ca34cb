"""Shares of nonzero elements in a trained network's passes, for ``eta-lstm model --weights``."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from etalstm.data import open_data
from etalstm.device import open_device
from etalstm.device.shape import TrainingShape
from etalstm.model.measured import Shares
from etalstm.network.shape import GATES
from etalstm.network.shared_tokens import OFF
from etalstm.network.storage import KINDS, Usage
from etalstm.train.folder import RunFolder
from etalstm.train.optimizers import learning_rate
from etalstm.train.state import open_learner


class Measured(NamedTuple):
    """A run's shape, and shares of nonzero elements in an iteration of it, padding included."""

    name: str  # of the data set
    shape: TrainingShape
    # Of all layers together; `kept_cells` by layer. Dense cells keep all local gradients.
    shares: Shares


def measure_run(run: Path, data: Path | None = None) -> Measured:
    """Train a run's network on one more batch, with the run's reductions, on the golden trainer; count nonzeros.

    A run that skips cells has iterations that measure, and skip none. If the next one measures, the one after counts.
    `data` is the directory of the data set's files. Raises :class:`RunError` if the folder holds no run, and
    :class:`CheckpointError` if its checkpoint is damaged, or does not fit the data set.
    """
    folder = RunFolder(run)
    settings = folder.read_settings()
    settings = replace(settings, device="golden", shared_tokens=OFF, data=str(data) if data else settings.data)
    with open_device("golden") as device:
        found = open_data(settings)
        learner, _ = open_learner(settings, found, device, folder.checkpoint)
        batches = found.epoch("train", settings.batch, learner.steps, np.random.default_rng(0))
        measures = settings.skipping is not None and learner.significance.measures(learner.iteration)
        for batch in batches[: 1 + measures]:
            learner.iterate(batch, learning_rate(settings))
        usages, shape = learner.session.usage(), learner.session.shape
    usage = sum(usages, Usage())
    kept_cells = tuple(1 - layer.skipped / layer.cells for layer in usages)
    elements = sum(layer.elements * share for layer, share in zip(usages, kept_cells, strict=True))
    local = sum(usage.kept) / (len(KINDS) * elements) if shape.execution.storage.compressed else 1.0
    inputs = 1.0 if shape.execution.delta_inputs.off else usage.input_density
    name = settings.dataset or Path(settings.data or "").name
    return Measured(name, shape, Shares(usage.delta_kept / (GATES * elements), local, inputs, kept_cells))
