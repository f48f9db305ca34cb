"""Settings that are declared once: the command line, files, checks and resumed runs read the declaration.

A setting is a field of a frozen dataclass, made by :func:`setting`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast, get_args, get_type_hints

from etalstm.errors import RunError
from etalstm.host.strict import TomlFile, check_fields, dump
from etalstm.network.storage import check_threshold

Value = TypeVar("Value")
Bound = Callable[[str, Any], object]
REQUIRED: Any = MISSING  # instead of a default: there is none


class Differs(Enum):
    """When a resumed run's setting may differ from that of the checkpoint's run.

    Of a file the content is compared, not the path.
    """

    NEVER = "never"
    BETWEEN_EPOCHS = "between epochs"
    ALWAYS = "always"


NEVER, BETWEEN_EPOCHS, ALWAYS = Differs


class Unused(NamedTuple):
    """A condition under which a run does not use some settings."""

    reason: str  # goes on after "--option is "
    applies: Callable[[Any, Any], object]  # of settings and data set; a true value if the settings are not used


@dataclass(frozen=True)
class Setting:
    """What a setting declares besides its type and default."""

    help: str  # for the command line
    panel: str  # its panel of the help
    # Takes the setting's name and value; raises ``ValueError`` if the value is out of bounds. None is within the bound
    # of an optional setting. Bounds that depend on other settings are not declared; the dataclass checks them.
    bound: Bound | None = None
    unused: tuple[Unused, ...] = ()  # giving the option under one of these conditions is refused
    option: str = ""  # its option's name, if not the setting's
    typed: type | None = None  # the type of the option on the command line, if not the setting's
    read: Callable[[str, Any], object] | None = None  # makes the value of the setting's name and the option's value
    shown: str | None = None  # the default as a user would type it, if it differs from the setting's
    depends: bool = False  # the default depends on other settings; the help text says how
    may_differ: Differs | None = None  # what the class's ``MAY_DIFFER`` says if not given


def setting(
    default: Value, help: str, panel: str, bound: Bound | None = None, unused: tuple[Unused, ...] = (), **others: Any
) -> Value:
    """Make the field of a dataclass; parameters after the default are those of :class:`Setting`."""
    made: Any = dataclasses.field(default=default, metadata={"setting": Setting(help, panel, bound, unused, **others)})
    return cast(Value, made)  # the type that a type checker sees


class Declared(NamedTuple):
    """A setting with its name, type and default."""

    name: str
    kind: Any
    default: Any
    setting: Setting

    @property
    def option(self) -> str:
        """Its option on the command line."""
        return self.setting.option or f"--{self.name.replace('_', '-')}"

    @property
    def is_optional(self) -> bool:
        """Whether the setting may be None."""
        return type(None) in get_args(self.kind)


_KNOWN: dict[type, dict[str, Declared]] = {}  # reading the annotations takes time


def declared(kind: type) -> dict[str, Declared]:
    """Give the settings of a dataclass by name, in their order."""
    if kind not in _KNOWN:
        kinds, fields = get_type_hints(kind), dataclasses.fields(kind)
        _KNOWN[kind] = {
            field.name: Declared(
                field.name, kinds[field.name], getattr(kind, field.name, None), field.metadata["setting"]
            )
            for field in fields
            if "setting" in field.metadata
        }
    return _KNOWN[kind]


def may_differ(kind: "type[RunSettings]", between_epochs: bool = True) -> tuple[str, ...]:
    """Name the settings of a :class:`RunSettings` that may differ where a run goes on, between epochs or within one."""
    allowed = {ALWAYS, BETWEEN_EPOCHS} if between_epochs else {ALWAYS}
    settings = {name: entry.setting for name, entry in declared(kind).items()}
    return tuple(name for name, setting in settings.items() if (setting.may_differ or kind.MAY_DIFFER) in allowed)


def check_bounds(settings: object) -> None:
    """Raise ``ValueError``, naming setting and value, if a setting is out of its bounds."""
    for name, entry in declared(type(settings)).items():
        value = getattr(settings, name)
        if entry.setting.bound is not None and not (value is None and entry.is_optional):
            entry.setting.bound(name, value)


def refuse_unused(given: Iterable[str], settings: object, data: object) -> None:
    """Raise ``ValueError``, naming the option, if a setting that a user gave is not used in this run."""
    names = set(given)
    for name, entry in declared(type(settings)).items():
        for condition in entry.setting.unused if name in names else ():
            if condition.applies(settings, data):
                raise ValueError(f"{entry.option} is {condition.reason}")


def bound(words: str, holds: Callable[[Any], bool]) -> Bound:
    """Give a bound: the condition `holds` is true of the value; `words` put it into words for the message."""

    def check(name: str, value: Any) -> None:
        if not holds(value):
            raise ValueError(f"{name} must be {words}, got {value!r}")

    return check


def one_of(names: Iterable[str]) -> Bound:
    """Give a bound: the value is one of these."""
    names = (*names,)
    return bound(f"one of {', '.join(names)}", lambda value: value in names)


def number_bound(words: str, holds: Callable[[float], bool]) -> Bound:
    """Give a bound as :func:`bound` does, of a finite number of at least 0."""

    def check(name: str, value: Any) -> None:
        if not holds(check_threshold(name, value)):
            raise ValueError(f"{name} must be {words}, got {value}")

    return check


below_1 = number_bound("at least 0 and below 1", lambda value: value < 1)
up_to_1 = number_bound("0 to 1", lambda value: value <= 1)
above_0 = number_bound("above 0", lambda value: value > 0)
above_0_up_to_1 = number_bound("above 0 and at most 1", lambda value: 0 < value <= 1)
within_0_and_1 = number_bound("above 0 and below 1", lambda value: 0 < value < 1)


at_least_0 = bound(
    "an integer of at least 0", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0
)


def absolute(_: str, path: Path | str) -> str:
    """Give a path as an absolute one, so that a run resumed from another directory opens the same file."""
    return str(Path(path).absolute())


@dataclass(frozen=True)
class RunSettings:
    """Base of the settings of a run; the settings of each command are a frozen dataclass."""

    COMMAND: ClassVar[str]  # that makes such runs
    MAY_DIFFER: ClassVar[Differs] = NEVER  # for settings that do not declare it

    @property
    def identity(self) -> dict:
        """The settings that must agree for a run to go on with the same bits."""
        return {name: value for name, value in self.table().items() if name not in may_differ(type(self))}

    def table(self) -> dict:
        """Give all settings by name, tuples as lists."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def going_on(self, given: dict) -> Self:
        """Give a resumed run's settings, some of them replaced by `given`; ``ValueError`` if one must not differ."""
        for name, value in given.items():
            if name not in may_differ(type(self)) and value != getattr(self, name):
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

        Raises :class:`RunError` if there is no such file, or a setting is missing, unknown, of another type, or cannot
        be.
        """
        file = open_settings(path, f"; is it the folder of {cls.COMMAND}?")
        try:
            return cls(**check_fields(cls, file.table, file, RunError))
        except (ValueError, TypeError) as error:
            raise RunError(f"{file.where_named(str(error))}: {error}") from error


def open_settings(path: Path, hint: str = " of settings") -> TomlFile:
    """Open a file of settings; :class:`RunError` if it does not exist (the message ends in `hint`) or is no TOML."""
    try:
        return TomlFile(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: there is no such file{hint}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: not TOML: {error}") from error


@contextmanager
def naming_file(path: Path | None) -> Iterator[None]:
    """Context that turns a ``ValueError`` about settings of a file and options into a :class:`RunError`.

    The message names the file, and the line of the first setting that the error names. Without a file the error stays
    as it is.
    """
    try:
        yield
    except ValueError as error:
        if path is None:
            raise
        raise RunError(f"{open_settings(path).where_named(str(error))}, with the options on top: {error}") from error
