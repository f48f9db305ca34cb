"""Checkpoints of translation models: one safetensors file, whole or not there, believed only if its digest agrees."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeInt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from etalstm.durable import write_whole
from etalstm.errors import CheckpointError
from etalstm.train.checkpoint import Part, digest
from etalstm.train.strict import check

KEY, FORMAT = "etalstm-translate", 1
MODEL, ADAM = "model.", "adam."  # beginnings of the tensors' names
MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam remembers of each parameter


class Position(Part):
    """Where a run is.

    Members
    -------
    iteration : int        done since the start
    epoch, batch : int     the next one's numbers, from 0
    best : float or None   lowest validation loss
    """

    iteration: NonNegativeInt = 0
    epoch: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    best: float | None = None


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
        self._load(path, MODEL, dict(model.named_parameters()))

    def load_adam(self, path: Path, model: torch.nn.Module, optimizer: torch.optim.Adam) -> None:
        """Load what Adam remembers; raises as :meth:`load_model`."""
        step = torch.tensor(float(self.description.position.iteration))
        for parameter in model.parameters():
            moments = {name: torch.zeros_like(parameter) for name in MOMENTS}
            optimizer.state[parameter] = {"step": step.clone(), **moments}
        self._load(path, ADAM, _moments(model, optimizer))

    def _load(self, path: Path, beginning: str, into: dict[str, torch.Tensor]) -> None:
        for name, tensor in into.items():
            array = self.tensors.get(beginning + name)
            if array is None or array.shape != tuple(tensor.shape):
                found = None if array is None else array.shape
                raise CheckpointError(
                    f"{path}: tensor {beginning + name} has shape {found}, expected {tuple(tensor.shape)}"
                )
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(array))


def taken(
    model: torch.nn.Module, optimizer: torch.optim.Adam, identity: dict, vocabularies: str, position: Position
) -> Checkpoint:
    """Take a checkpoint of a run; `vocabularies` is the text of their file."""
    tensors = {MODEL + name: tensor for name, tensor in model.named_parameters()}
    if position.iteration:
        tensors |= {ADAM + name: tensor for name, tensor in _moments(model, optimizer).items()}
    arrays = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    return Checkpoint(Description(identity=identity, vocabularies=hashed(vocabularies), position=position), arrays)


def hashed(text: str) -> str:
    """Give the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _moments(model: torch.nn.Module, optimizer: torch.optim.Adam) -> dict[str, torch.Tensor]:
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        for moment in MOMENTS
    }


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; at any moment the file is the old one or the new one, whole."""
    description = checkpoint.description.model_dump()
    description["sha256"] = digest(description, checkpoint.tensors)
    write_whole(path, save(checkpoint.tensors, {KEY: json.dumps(description, sort_keys=True)}))


def read(path: Path, identity: dict, vocabularies: str) -> Checkpoint:
    """Read a checkpoint of a run.

    Raises
    ------
    CheckpointError
        If it is missing, damaged or of another run; the message names the file, and what is wrong.
    """
    description, tensors = _parts(path)
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise CheckpointError(f"{path}: no checkpoint of a translation model in format {FORMAT}")
    expected = description.pop("sha256", None)
    if digest(description, tensors) != expected:
        raise CheckpointError(f"{path}: corrupted: its content does not match its digest")
    checked = check(Description, description, path, CheckpointError)
    for name in sorted(checked.identity.keys() | identity.keys()):
        theirs, ours = checked.identity.get(name), identity.get(name)
        if theirs != ours:
            raise CheckpointError(f"{path}: of another run: its {name} is {theirs!r}, here it is {ours!r}")
    if checked.vocabularies != hashed(vocabularies):
        raise CheckpointError(f"{path}: of another run: its vocabularies are not those here")
    for name, array in tensors.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name} must be float32 and finite")
    return Checkpoint(checked, tensors)


def _parts(path: Path) -> tuple[object, dict[str, np.ndarray]]:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint")
    try:
        tensors = load(path.read_bytes())
        with safe_open(path, framework="numpy") as file:
            return json.loads((file.metadata() or {}).get(KEY, "null")), tensors
    except (SafetensorError, ValueError, KeyError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file: {error}") from error
