"""Settings of a run that can go on: their file, and which of them may differ then."""

import dataclasses
import tomllib
from pathlib import Path
from typing import ClassVar, Self

from etalstm.errors import RunError
from etalstm.host.strict import check_fields
from etalstm.host.toml import dump


class RunSettings:
    """What the settings of different kinds of runs have in common. Those of a kind are a frozen dataclass.

    Members
    -------
    COMMAND : str
        That makes such runs.
    MAY_DIFFER : tuple of str
        Names of the settings that may differ where a run goes on.
    """

    COMMAND: ClassVar[str]
    MAY_DIFFER: ClassVar[tuple[str, ...]]

    @property
    def identity(self) -> dict:
        """What must agree for a run to go on with the same bits."""
        return {name: value for name, value in self.table().items() if name not in self.MAY_DIFFER}

    def table(self) -> dict:
        """Give all of them, tuples as lists."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def going_on(self, given: dict) -> Self:
        """Give the settings of a run that goes on with others for some; ``ValueError`` if one must not differ."""
        for name, value in given.items():
            if name not in self.MAY_DIFFER and value != getattr(self, name):
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
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(**check_fields(cls, table, path, RunError))
        except FileNotFoundError as error:
            raise RunError(f"{path}: there is no such file; is it the folder of {cls.COMMAND}?") from error
        except (ValueError, TypeError) as error:
            raise RunError(f"{path}: {error}") from error
