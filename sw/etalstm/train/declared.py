"""Settings that are declared once. The command line, files and refusals take what they need from the declaration.

A setting is a field of a frozen dataclass: its type, its default, and a :class:`Setting` in its annotation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_type_hints


class Unused(NamedTuple):
    """A condition on which a run does not use some settings.

    Members
    -------
    reason : str
        Goes on after "--option is ".
    applies : callable
        Of settings and data set; a true value if the settings are not used.
    """

    reason: str
    applies: Callable[[Any, Any], object]


@dataclass(frozen=True)
class Setting:
    """What is known of a setting beside its type and default.

    Members
    -------
    help : str
        For the command line.
    panel : str
        The group of the help that it stands in.
    bound : callable, optional
        Takes the setting's name and value, and raises ``ValueError`` for one that cannot be. None is within the
        bound of an optional setting. Bounds that depend on other settings are not declared; the dataclass checks them.
    unused : tuple of Unused
        A user who gives it on one of these conditions is told so.
    option : str
        Its option's name, where that is another one.
    typed : type, optional
        What the command line takes, if not a value of the setting's type.
    read : callable, optional
        Takes the setting's name and what was typed; gives the value.
    shown : str, optional
        The default as a user would type it, where that is not the setting's.
    depends : bool
        The default depends on other settings; the help's text tells it.
    may_differ : bool
        It may be another one where a run goes on.
    """

    help: str
    panel: str
    bound: Callable[[str, Any], object] | None = None
    unused: tuple[Unused, ...] = ()
    option: str = ""
    typed: type | None = None
    read: Callable[[str, Any], object] | None = None
    shown: str | None = None
    depends: bool = False
    may_differ: bool = False


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
        _KNOWN[kind] = _read(kind)
    return _KNOWN[kind]


def _read(kind: type) -> dict[str, Declared]:
    found = {}
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        setting = next((extra for extra in get_args(annotation)[1:] if isinstance(extra, Setting)), None)
        if setting is not None:
            found[name] = Declared(name, get_args(annotation)[0], getattr(kind, name, None), setting)
    return found


def check_bounds(settings: object) -> None:
    """Raise ``ValueError``, naming setting and value, if one is out of its bounds."""
    for name, one in declared(type(settings)).items():
        value = getattr(settings, name)
        if one.setting.bound is not None and not (value is None and one.is_optional):
            one.setting.bound(name, value)


def refuse_unused(given: Iterable[str], settings: object, data: object) -> None:
    """Raise ``ValueError``, naming the option, if one of the settings that a user gave is not used.

    Parameters
    ----------
    given : iterable of str
        Names of settings.
    settings : dataclass
        All of the run.
    data : DataSet
        That of the settings.
    """
    names = set(given)
    for name, one in declared(type(settings)).items():
        for condition in one.setting.unused if name in names else ():
            if condition.applies(settings, data):
                raise ValueError(f"{one.option} is {condition.reason}")


def one_of(names: Iterable[str]) -> Callable[[str, Any], None]:
    """Give a bound: the value is one of these."""
    names = (*names,)

    def check(name: str, value: Any) -> None:
        if value not in names:
            raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")

    return check
