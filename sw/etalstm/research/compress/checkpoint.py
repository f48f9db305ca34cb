"""Checkpoints of a run: weights, masks, what Adam remembers, the sequences' states, and where the run is."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from pydantic import NonNegativeInt
from torch import nn

from etalstm.nn.training import state_of
from etalstm.research.compress.network import States
from etalstm.research.module_run import ModuleCheckpoint, ModuleDescription, ModulePosition

STATE = "state."  # beginning of the names of the sequences' states
PARTS = ("h", "c")


class CompressPosition(ModulePosition):
    """Where a run is.

    Members
    -------
    iteration, epoch, batch            as of a :class:`ModulePosition`; `epoch` counts those of all rounds
    phase : int                        number of the step; 0 is the dense start
    round : int                        of the step
    begun : bool                       the round's change was made
    taken : int                        iterations since then
    epoch_of_round : int               the next one's number, from 0
    ratio : float or None              of pruning
    failed : list of int or None       counts of the last attempt, if accuracy was lost
    dense_score : float or None        of the dense start, on validation
    dense_parameters : int             LSTM parameters of the dense start
    ended : dict                       why steps ended, by name
    """

    phase: NonNegativeInt = 0
    round: NonNegativeInt = 0
    begun: bool = False
    taken: NonNegativeInt = 0
    epoch_of_round: NonNegativeInt = 0
    ratio: float | None = None
    failed: list[int] | None = None
    dense_score: float | None = None
    dense_parameters: NonNegativeInt = 0
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
    """What a run needs to go on."""

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
                arrays |= {f"{STATE}{part}.{number}": array.numpy() for part, array in zip(PARTS, state, strict=True)}
        return cls(CompressDescription(identity=identity, position=position), arrays)

    def states(self, layers: int) -> States:
        """Give the sequences' states, None for zeros."""
        if f"{STATE}h.0" not in self.tensors:
            return [None] * layers
        h, c = ([torch.from_numpy(self.tensors[f"{STATE}{part}.{n}"]) for n in range(layers)] for part in PARTS)
        return list(zip(h, c, strict=True))
