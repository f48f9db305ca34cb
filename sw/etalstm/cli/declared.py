"""The options of a command that are settings of a run: made from what the settings declare."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from typer import Context

from etalstm.cli.options import option
from etalstm.cli.parser import given
from etalstm.train.declared import Declared, declared


def with_settings(
    kind: type, panels: Sequence[str], names: str = "", **defaults: Any
) -> Callable[[Callable], Callable]:
    """Give a command options for all settings of a dataclass, behind its own, or for those of some `names`.

    The function takes a ``context``, its own options, and the others as keywords; see :func:`chosen`. `panels` are
    groups of the help, in their order. `names` have spaces between. `defaults` stand in the place of the settings' own.
    """

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        wanted = [
            one._replace(default=defaults.get(one.name, one.default))
            for one in declared(kind).values()
            if not names or one.name in names.split()
        ]
        settings = sorted(wanted, key=lambda one: panels.index(one.setting.panel))
        written = signature.replace(parameters=[*own, *map(_parameter, settings)])
        setattr(function, "__signature__", written)  # noqa: B010 - callables in general have no such attribute
        return function

    return decorate


def chosen(context: Context, kind: type) -> dict:
    """Give the settings whose options stand on the command line, as their values."""
    written, settings = given(context), declared(kind)
    return {name: _value(settings[name], value) for name, value in written.items() if name in settings}


def _value(one: Declared, typed):
    return typed if one.setting.read is None else one.setting.read(one.name, typed)


def _parameter(one: Declared) -> inspect.Parameter:
    setting = one.setting
    kind: Any = setting.typed or one.kind
    default = one.default if setting.shown is None else setting.shown
    if setting.depends:
        default = None
    if default is None and not (one.is_optional and setting.typed is None):
        kind = kind | None
    annotation: Any = Annotated[kind, option(setting.help, setting.panel, one.option)]
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
