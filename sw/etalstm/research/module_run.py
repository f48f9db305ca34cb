"""Runs that train a module of PyTorch: their checkpoints, and how they go on, are interrupted and logged."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

import torch
from pydantic import NonNegativeInt
from torch import nn

from etalstm.nn.training import load_adam, load_module
from etalstm.train.declared import RunSettings
from etalstm.train.folder import RunFolder
from etalstm.train.loop import Interrupt
from etalstm.train.metrics import MetricsLog
from etalstm.train.sealed import Progress, Record, Sealed, check_same

Report = Callable[[dict], None]


class ModulePosition(Progress):
    """The position of a run of a module; it begins at 0."""

    iteration: NonNegativeInt = 0
    epoch: NonNegativeInt = 0
    batch: NonNegativeInt = 0

    @property
    def adam_steps(self) -> int:
        """Steps of Adam since it began."""
        return self.iteration


class ModuleDescription(Record):
    """All of a module's checkpoint but its tensors."""

    identity: dict
    position: ModulePosition


Described = TypeVar("Described", bound=ModuleDescription)
Positioned = TypeVar("Positioned", bound=ModulePosition)
Chosen = TypeVar("Chosen", bound=RunSettings)


@dataclass(frozen=True)
class ModuleCheckpoint(Sealed[Described]):
    """A module, the state of Adam, and the position of the run."""

    @classmethod
    def of_run(cls, path: Path, identity: dict) -> Self:
        """Read the checkpoint of a run; raises as :meth:`read`, and if it is of another run."""
        found = cls.read(path)
        check_same(path, found.description.identity, identity)
        return found

    def load(self, path: Path, module: nn.Module, optimizer: torch.optim.Adam | None = None) -> None:
        """Load parameters and buffers, and the state of Adam; :class:`CheckpointError` if names or shapes differ."""
        load_module(path, self.tensors, module)
        if optimizer is not None:
            load_adam(path, self.tensors, module, optimizer, self.description.position.adam_steps)


class ModuleRun(Generic[Chosen, Positioned]):
    """A run of a module in an open folder. A subclass trains, and yields the entries of its log.

    `position` is where a run begins. If the run goes on, the subclass takes the checkpoint's position instead.
    """

    def __init__(self, settings: Chosen, folder: RunFolder, position: Positioned, resume: bool):
        self._settings, self._folder, self._resume = settings, folder, resume
        self.position, self._seconds = position, time.monotonic()

    def run(self, report: Report = lambda entry: None) -> dict:
        """Run to the end, or until a signal; give the last entry of the log. `report` gets every one."""
        self._folder.write_settings(self._settings)
        self._write_first()
        with MetricsLog(self._folder.metrics, self.position if self._resume else None) as log, Interrupt() as interrupt:
            last = {}
            for last in self._entries(interrupt):
                log.write(last)
                report(last)
        return last

    def _write_first(self) -> None:
        """Write what belongs to the folder from the beginning, beside the settings."""
        raise NotImplementedError

    def _entries(self, interrupt: Interrupt) -> Iterator[dict]:
        """Train, and give the entries; after a signal the last one is :meth:`_interrupted`."""
        raise NotImplementedError

    def _take_checkpoint(self) -> ModuleCheckpoint:
        """Take a checkpoint."""
        raise NotImplementedError

    def _save(self) -> None:
        self._take_checkpoint().write(self._folder.checkpoint)

    def _interrupted(self, interrupt: Interrupt) -> dict:
        self._save()
        return {"kind": "interrupted", **self._counts(), "signal": interrupt.requested}

    def _counts(self) -> dict:
        """Give iteration and epoch for an entry of the log."""
        return {"iteration": self.position.iteration, "epoch": self.position.epoch}

    def _move(self, **changed) -> None:
        """Change some fields of the position."""
        self.position = self.position.model_copy(update=changed)

    def _timed(self, entry: dict) -> dict:
        """Give an entry with the seconds since the last such one."""
        seconds, self._seconds = time.monotonic() - self._seconds, time.monotonic()
        return entry | {"seconds": round(seconds, 1)}
