"""Checkpoints of a run, and the file of the network that it kept.

A checkpoint has weights, masks, the state of Adam, the sequences' states, and the position of the run. The network is
small, without masks. Its tensors are those of the state dict of :class:`etalstm.research.compress.network.Network`:
``embedding.weight`` of a language model, ``layers.N.weight_ih_l0`` and so on of each layer, ``output.weight`` and
``output.bias``. So ``torch.nn.LSTM`` can load the tensors of a layer. The metadata say how to make the network.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from pydantic import NonNegativeInt
from torch import nn

from etalstm.device import Device
from etalstm.errors import CheckpointError
from etalstm.nn.training import load_module, state_of
from etalstm.research.compress.network import Network, Sizes, States
from etalstm.research.compress.task import TASKS
from etalstm.research.module_run import ModuleCheckpoint, ModuleDescription, ModulePosition
from etalstm.train.sealed import Record, Sealed

PREFIX = "state."  # of the names of the sequences' states
STATES = ("h", "c")


class CompressPosition(ModulePosition):
    """The position of a run; `epoch` counts the epochs of all rounds."""

    phase: NonNegativeInt = 0  # number of the step; 0 is the dense start
    round: NonNegativeInt = 0  # of the step
    begun: bool = False  # the round's change was made
    taken: NonNegativeInt = 0  # iterations since then
    epoch_of_round: NonNegativeInt = 0  # the next one's number, from 0
    ratio: float | None = None  # of pruning
    failed: list[int] | None = None  # counts of the last attempt, if accuracy was lost
    dense_score: float | None = None  # of the dense start, on validation
    dense_parameters: NonNegativeInt = 0  # LSTM parameters of the dense start
    # Why steps ended, by name.
    ended: dict[str, str] = {}  # noqa: RUF012  a field's default, which pydantic copies

    @property
    def adam_steps(self) -> int:
        """Steps of Adam since it began, at a round's change."""
        return self.taken


class CompressDescription(ModuleDescription):
    """All of a checkpoint but its tensors."""

    position: CompressPosition


@dataclass(frozen=True)
class CompressCheckpoint(ModuleCheckpoint[CompressDescription]):
    """Everything that a run needs to go on."""

    KEY, FORMAT, WHAT = "etalstm-compress", 4, "checkpoint of eta-lstm research compress"
    DESCRIPTION = CompressDescription
    TENSORS = np.float32, np.bool_  # weights, and masks

    @classmethod
    def of(
        cls, model: nn.Module, optimizer: torch.optim.Adam, states: States, identity: dict, position: CompressPosition
    ) -> Self:
        """Take the checkpoint of a run."""
        arrays = state_of(model, optimizer, position.adam_steps)
        for number, state in enumerate(states):
            if state is not None:
                arrays |= {f"{PREFIX}{name}.{number}": array.numpy() for name, array in zip(STATES, state, strict=True)}
        return cls(CompressDescription(identity=identity, position=position), arrays)

    def states(self, layers: int) -> States:
        """Give the sequences' states by layer; None stands for zeros."""
        if f"{PREFIX}h.0" not in self.tensors:
            return [None] * layers
        h, c = ([torch.from_numpy(self.tensors[f"{PREFIX}{name}.{n}"]) for n in range(layers)] for name in STATES)
        return list(zip(h, c, strict=True))


class NetworkDescription(Record):
    """All that makes the network, but its weights."""

    task: str
    dropout: float
    outputs: int
    inputs: int
    units: list[int]
    directions: int
    cell: str


@dataclass(frozen=True)
class NetworkFile(Sealed[NetworkDescription]):
    """The file of a network: its description and its weights."""

    KEY, FORMAT, WHAT = "etalstm-network", 1, "network of eta-lstm research compress"
    DESCRIPTION = NetworkDescription


def write_network(path: Path, network: Network, sizes: Sizes, task: str) -> None:
    """Write a network without masks; at any moment the file is the old one or the new one, whole."""
    described = {**asdict(sizes), "units": list(sizes.units)}
    description = NetworkDescription(task=task, dropout=network.dropout.p, **described)
    tensors = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    NetworkFile(description, tensors).write(path)


def load_network(path: Path | str, engine: str | Device = "golden") -> Network:
    """Load the network that a run of ``eta-lstm research compress`` kept, ``network.safetensors`` in its folder.

    The network is in evaluation mode and can be trained further. `engine` computes the LSTMs, as in
    :class:`etalstm.nn.LSTM`; the run's own does not matter. :class:`CheckpointError`, naming the file and what is
    wrong, if it is missing, damaged, or no such network.
    """
    path = Path(path)
    found = NetworkFile.read(path)
    described = found.description.model_dump()
    task, dropout = described.pop("task"), described.pop("dropout")
    if task not in TASKS:
        raise CheckpointError(f"{path}: task must be {' or '.join(TASKS)}, got {task!r}")
    try:
        sizes = Sizes(**described | {"units": tuple(described["units"])})
        network = TASKS[task].NETWORK.PLAIN(sizes, dropout, engine=engine)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    load_module(path, found.tensors, network, "")
    return network.eval()
