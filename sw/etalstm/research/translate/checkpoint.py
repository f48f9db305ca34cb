"""Checkpoints of translation models: one safetensors file, whole or not there, believed only if its digest agrees."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import Field, NonNegativeInt

from etalstm.errors import CheckpointError
from etalstm.host.strict import check
from etalstm.nn.moments import fresh_moments, load_tensors, moments_of
from etalstm.train.checkpoint import Part
from etalstm.train.control import LEAST, MOST
from etalstm.train.sealed import check_identity, read_sealed, write_sealed

KEY, FORMAT = "etalstm-translate", 2
MODEL, ADAM = "model.", "adam."  # beginnings of the tensors' names


class Position(Part):
    """Where a run is.

    Members
    -------
    iteration : int        done since the start
    epoch, batch : int     the next one's numbers, from 0
    best : float or None   lowest validation loss
    delta_threshold : float or None    of the next iteration, where δ has a target
    """

    iteration: NonNegativeInt = 0
    epoch: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    best: float | None = None
    delta_threshold: float | None = Field(None, ge=LEAST, le=MOST)


class Description(Part):
    """All of a checkpoint but its tensors."""

    format: int = FORMAT
    identity: dict
    vocabularies: str
    position: Position


@dataclass(frozen=True)
class Checkpoint:
    """A model, what Adam remembers, and where the run is."""

    description: Description
    tensors: dict[str, np.ndarray]

    def load_model(self, path: Path, model: torch.nn.Module) -> None:
        """Load the parameters into a model; :class:`CheckpointError` if names or shapes are others."""
        load_tensors(path, self.tensors, MODEL, dict(model.named_parameters()))

    def load_adam(self, path: Path, model: torch.nn.Module, optimizer: torch.optim.Adam) -> None:
        """Load what Adam remembers; raises as :meth:`load_model`."""
        load_tensors(path, self.tensors, ADAM, fresh_moments(model, optimizer, self.description.position.iteration))


def taken(
    model: torch.nn.Module, optimizer: torch.optim.Adam, identity: dict, vocabularies: str, position: Position
) -> Checkpoint:
    """Take a checkpoint of a run; `vocabularies` is the text of their file."""
    tensors = {MODEL + name: tensor for name, tensor in model.named_parameters()}
    if position.iteration:
        tensors |= {ADAM + name: tensor for name, tensor in moments_of(model, optimizer).items()}
    arrays = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    return Checkpoint(Description(identity=identity, vocabularies=hashed(vocabularies), position=position), arrays)


def hashed(text: str) -> str:
    """Give the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; at any moment the file is the old one or the new one, whole."""
    write_sealed(path, KEY, checkpoint.description.model_dump(), checkpoint.tensors)


def read(path: Path, identity: dict, vocabularies: str) -> Checkpoint:
    """Read a checkpoint of a run.

    Raises
    ------
    CheckpointError
        If it is missing, damaged or of another run; the message names the file, and what is wrong.
    """
    description, tensors = read_sealed(path, KEY, FORMAT, "checkpoint of a translation model")
    checked = check(Description, description, path, CheckpointError)
    check_identity(path, checked.identity, identity)
    if checked.vocabularies != hashed(vocabularies):
        raise CheckpointError(f"{path}: of another run: its vocabularies are not those here")
    for name, array in tensors.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name} must be float32 and finite")
    return Checkpoint(checked, tensors)
