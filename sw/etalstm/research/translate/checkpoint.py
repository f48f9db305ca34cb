"""Checkpoints of translation models."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from pydantic import Field

from etalstm.errors import CheckpointError
from etalstm.nn.training import state_of
from etalstm.research.module_run import ModuleCheckpoint, ModuleDescription, ModulePosition
from etalstm.train.control import LEAST, MOST


class TranslationPosition(ModulePosition):
    """Where a run is.

    Members
    -------
    iteration, epoch, batch            as of a :class:`ModulePosition`
    best : float or None               lowest validation loss
    delta_threshold : float or None    of the next iteration, where δ has a target
    """

    best: float | None = None
    delta_threshold: float | None = Field(default=None, ge=LEAST, le=MOST)


class TranslationDescription(ModuleDescription):
    """All of a checkpoint but its tensors; `vocabularies` is the digest of their file."""

    vocabularies: str
    position: TranslationPosition


@dataclass(frozen=True)
class TranslationCheckpoint(ModuleCheckpoint[TranslationDescription]):
    """A model, what Adam remembers, and where the run is."""

    KEY, FORMAT, WHAT = "etalstm-translate", 2, "checkpoint of a translation model"
    DESCRIPTION = TranslationDescription

    @classmethod
    def of(
        cls, model: torch.nn.Module, optimizer: torch.optim.Adam, identity: dict, vocabularies: str,
        position: TranslationPosition,
    ) -> Self:  # fmt: skip
        """Take the checkpoint of a run; `vocabularies` is the text of their file."""
        found = TranslationDescription(identity=identity, vocabularies=_hashed(vocabularies), position=position)
        return cls(found, state_of(model, optimizer, position.adam_steps))

    @classmethod
    def of_translation(cls, path: Path, identity: dict, vocabularies: str) -> Self:
        """Read the checkpoint of a run; raises as :meth:`of_run`, and if the vocabularies are others."""
        found = cls.of_run(path, identity)
        if found.description.vocabularies != _hashed(vocabularies):
            raise CheckpointError(f"{path}: of another run: its vocabularies are not those here")
        return found


def _hashed(text: str) -> str:
    """Give the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
