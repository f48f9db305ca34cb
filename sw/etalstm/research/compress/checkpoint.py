"""Checkpoints of a run: weights, masks, what Adam remembers, the sequences' states, and where the run is."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeInt
from torch import nn

from etalstm.errors import CheckpointError
from etalstm.host.strict import check
from etalstm.nn.moments import fresh_moments, load_tensors, moments_of
from etalstm.research.compress.network import States
from etalstm.train.checkpoint import Part
from etalstm.train.sealed import check_identity, read_sealed, write_sealed

KEY, FORMAT = "etalstm-compress", 4
MODEL, ADAM, STATE = "model.", "adam.", "state."  # beginnings of the tensors' names
PARTS = ("h", "c")


class Position(Part):
    """Where a run is.

    Members
    -------
    iteration, epoch : int             done since the start
    phase : int                        number of the step; 0 is the dense start
    round : int                        of the step
    begun : bool                       the round's change was made
    taken : int                        iterations since then
    epoch_of_round, batch : int        the next ones' numbers, from 0
    ratio : float or None              of pruning
    failed : list of int or None       counts of the last attempt, if accuracy was lost
    dense_score : float or None        of the dense start, on validation
    dense_parameters : int             LSTM parameters of the dense start
    ended : dict                       why steps ended, by name
    """

    iteration: NonNegativeInt = 0
    epoch: NonNegativeInt = 0
    phase: NonNegativeInt = 0
    round: NonNegativeInt = 0
    begun: bool = False
    taken: NonNegativeInt = 0
    epoch_of_round: NonNegativeInt = 0
    batch: NonNegativeInt = 0
    ratio: float | None = None
    failed: list[int] | None = None
    dense_score: float | None = None
    dense_parameters: NonNegativeInt = 0
    ended: dict[str, str] = {}  # noqa: RUF012  a field's default, which pydantic copies


class Description(Part):
    """All of a checkpoint but its tensors."""

    format: int = FORMAT
    identity: dict
    position: Position


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on."""

    description: Description
    tensors: dict[str, np.ndarray]

    def load_model(self, path: Path, model: nn.Module) -> None:
        """Load weights and masks; :class:`CheckpointError` if names or shapes are others."""
        load_tensors(path, self.tensors, MODEL, model.state_dict())

    def load_adam(self, path: Path, model: nn.Module, optimizer: torch.optim.Adam) -> None:
        """Load what Adam remembers, if it has taken a step; raises as :meth:`load_model`."""
        taken = self.description.position.taken
        if taken:
            load_tensors(path, self.tensors, ADAM, fresh_moments(model, optimizer, taken))

    def states(self, layers: int) -> States:
        """Give the sequences' states, None for zeros."""
        if f"{STATE}h.0" not in self.tensors:
            return [None] * layers
        return [tuple(torch.from_numpy(self.tensors[f"{STATE}{part}.{n}"]) for part in PARTS) for n in range(layers)]


def taken(model: nn.Module, optimizer: torch.optim.Adam, states: States, identity: dict, position: Position):
    """Take a checkpoint of a run."""
    tensors = {MODEL + name: tensor for name, tensor in model.state_dict().items()}
    if position.taken:
        tensors |= {ADAM + name: tensor for name, tensor in moments_of(model, optimizer).items()}
    for number, state in enumerate(states):
        if state is not None:
            tensors |= {f"{STATE}{part}.{number}": tensor for part, tensor in zip(PARTS, state, strict=True)}
    arrays = {name: tensor.detach().contiguous().numpy() for name, tensor in tensors.items()}
    return Checkpoint(Description(identity=identity, position=position), arrays)


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; at any moment the file is the old one or the new one, whole."""
    write_sealed(path, KEY, checkpoint.description.model_dump(), checkpoint.tensors)


def read(path: Path, identity: dict) -> Checkpoint:
    """Read a checkpoint of a run.

    Raises
    ------
    CheckpointError
        If it is missing, damaged or of another run; the message names the file, and what is wrong.
    """
    description, tensors = read_sealed(path, KEY, FORMAT, "checkpoint of eta-lstm research compress")
    checked = check(Description, description, path, CheckpointError)
    check_identity(path, checked.identity, identity)
    for name, array in tensors.items():
        if array.dtype not in (np.float32, np.bool_) or not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name} must be float32 and finite, or bool, got {array.dtype}")
    return Checkpoint(checked, tensors)
