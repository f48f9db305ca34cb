"""Makes options of a command from the settings that a dataclass declares."""

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
    panels of the help, in their order. `names` have spaces between. `defaults` replace the settings' own.
    """

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        wanted = [
            each._replace(default=defaults.get(each.name, each.default))
            for each in declared(kind).values()
            if not names or each.name in names.split()
        ]
        settings = sorted(wanted, key=lambda each: panels.index(each.setting.panel))
        written = signature.replace(parameters=[*own, *map(_parameter, settings)])
        setattr(function, "__signature__", written)  # noqa: B010 - callables in general have no such attribute
        return function

    return decorate


def chosen(context: Context, kind: type) -> dict:
    """Give the values of the settings whose options stand on the command line, by the settings' names."""
    written, settings = given(context), declared(kind)
    return {name: _value(settings[name], value) for name, value in written.items() if name in settings}


def _value(declaration: Declared, typed):
    read = declaration.setting.read
    return typed if read is None else read(declaration.name, typed)


def _parameter(declaration: Declared) -> inspect.Parameter:
    setting = declaration.setting
    kind: Any = setting.typed or declaration.kind
    default = declaration.default if setting.shown is None else setting.shown
    if setting.depends:
        default = None
    if default is None and not (declaration.is_optional and setting.typed is None):
        kind = kind | None
    annotation: Any = Annotated[kind, option(setting.help, setting.panel, declaration.option)]
    return inspect.Parameter(declaration.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
