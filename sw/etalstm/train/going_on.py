"""A run that goes on: where it is, what must agree with its checkpoint, and which settings may differ."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import NonNegativeInt

from etalstm.errors import CheckpointError, RunError
from etalstm.host.strict import check_fields
from etalstm.host.toml import TomlFile, dump
from etalstm.train.declared import declared
from etalstm.train.sealed import Part


class Place(Part):
    """Where a run is.

    Members
    -------
    iteration : int         done since the start
    epoch, batch : int      the next one's numbers, from 0
    """

    iteration: NonNegativeInt
    epoch: NonNegativeInt
    batch: NonNegativeInt


def check_same(
    path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any], may_differ: Collection[str] = ()
) -> None:
    """Refuse to go on from a checkpoint of another run.

    Parameters
    ----------
    path : Path
        Of the checkpoint, for the message.
    theirs, ours : mapping from str
        What defines the checkpoint's run, and the run that is to go on.
    may_differ : collection of str
        Names that are not compared.

    Raises
    ------
    CheckpointError
        Naming the first entry that differs, and both values.
    """
    for name in {**ours, **theirs}:
        if name not in may_differ and theirs.get(name) != ours.get(name):
            raise CheckpointError(
                f"{path}: of another run: its {name} is {theirs.get(name)}, here it is {ours.get(name)}"
            )


@dataclass(frozen=True)
class RunSettings:
    """What the settings of different kinds of runs have in common. Those of a kind are a frozen dataclass.

    Members
    -------
    COMMAND : str
        That makes such runs.
    """

    COMMAND: ClassVar[str]

    @classmethod
    def may_differ(cls) -> tuple[str, ...]:
        """Name the settings that may differ where a run goes on: those that are declared so."""
        return tuple(name for name, one in declared(cls).items() if one.setting.may_differ)

    @property
    def identity(self) -> dict:
        """What must agree for a run to go on with the same bits."""
        return {name: value for name, value in self.table().items() if name not in self.may_differ()}

    def table(self) -> dict:
        """Give all of them, tuples as lists."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def going_on(self, given: dict) -> Self:
        """Give the settings of a run that goes on with others for some; ``ValueError`` if one must not differ."""
        for name, value in given.items():
            if name not in self.may_differ() and value != getattr(self, name):
                raise ValueError(
                    f"{name} may not differ where a run goes on: it was {getattr(self, name)!r}, got {value!r}"
                )
        return dataclasses.replace(self, **given)

    def text_of_file(self) -> str:
        """Give the TOML that :meth:`load` reads."""
        return dump(self.table(), f"Settings of a run of {self.COMMAND}")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a run's settings.

        Raises
        ------
        RunError
            If there is no such file, or a setting is missing, unknown, of another type, or cannot be.
        """
        try:
            file = TomlFile(path)
        except FileNotFoundError as error:
            raise RunError(f"{path}: there is no such file; is it the folder of {cls.COMMAND}?") from error
        except ValueError as error:
            raise RunError(f"{path}: {error}") from error
        try:
            return cls(**check_fields(cls, file.table, file, RunError))
        except (ValueError, TypeError) as error:
            raise RunError(f"{file.blamed(str(error))}: {error}") from error
