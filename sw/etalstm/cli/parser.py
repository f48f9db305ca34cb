"""Reads a command line: commands whose help has panels, and groups that import a command when it is asked for."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from etalstm.cli import Group
from etalstm.cli.catalogue import summary, unknown_command

OTHERS = "Options"  # the panel of options without one
ANY_WIDTH = 10_000  # the help is as wide as the terminal
FIRST = "the first argument"


def _write_options(command: TyperCommand | TyperGroup, ctx, formatter) -> None:
    """Write options under their ``rich_help_panel``, in the order of the first of each, and arguments above them."""
    panels: dict[str, list] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or OTHERS, []).append(record)
    for name, records in panels.items():
        with formatter.section(name):
            formatter.write_dl(records)


class Command(TyperCommand):
    """A command whose options stand in panels of the help."""

    def format_options(self, ctx, formatter) -> None:
        """Write the options."""
        _write_options(self, ctx, formatter)

    def parse_args(self, ctx, args: list[str]) -> list[str]:
        """Read the options and arguments; raises as :func:`refuse_empty`."""
        refuse_empty(self, ctx, args)
        return super().parse_args(ctx, args)


class Commands(Mapping):
    """The commands of a :class:`Group` by name; one is imported when it is asked for."""

    def __init__(self, group: Group):
        self._entries = group.commands

    def __getitem__(self, name: str):
        return load(name, self._entries[name])

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class CommandGroup(TyperGroup):
    """Reads the name of a command of a :class:`Group`, and hands the rest to the command."""

    group = Group({})

    def format_options(self, ctx, formatter) -> None:
        """Write the options of the group itself, and its commands."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx, formatter) -> None:
        """Write the commands, each with a sentence."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(name, entry)) for name, entry in self.group.commands.items()])

    def parse_args(self, ctx, args: list[str]) -> list[str]:
        """Read the group's own options; raises as :func:`refuse_empty`."""
        refuse_empty(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx, args: list[str]):
        """Find the command that the first argument names; raises ``ValueError`` if there is none."""
        if not args[0]:
            raise ValueError(f"{FIRST} must not be empty")
        if args[0] not in self.commands:
            raise ValueError(unknown_command(args[0], ctx.command_path, self.group))
        return super().resolve_command(ctx, args)


def load(name: str, entry: str | Group):
    """Import a command, or make a group of commands; give its parser."""
    if isinstance(entry, Group):
        alone = _unless_invoked(_function(entry.module, name)) if entry.module else help_unless_invoked
        return load_group(name, entry, alone)
    app = _typer()
    app.command(name, cls=Command)(_function(entry, name))
    return typer.main.get_command(app)


def _typer(**options: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)


def load_group(name: str, group: Group, function: Callable, **context_settings) -> CommandGroup:
    """Make a group of commands; its name alone runs the function."""
    app = _typer(
        name=name, cls=CommandGroup, invoke_without_command=True, help=group.help or function.__doc__,
        context_settings=context_settings,
    )  # fmt: skip
    if group.module:
        app.info.subcommand_metavar = "[COMMAND [ARGS]...]"
    app.callback()(function)
    found = cast("CommandGroup", typer.main.get_command(app))  # by `cls`
    found.group, found.commands = group, cast("dict", Commands(group))  # a mapping that is only read
    return found


def refuse_empty(command, context: typer.Context, arguments: Sequence[str]) -> None:
    """Raise ``ValueError`` for an empty value: as a path it would be the current folder, and else a default."""
    values = command.make_parser(context).parse_args(args=[*arguments])[0]
    for parameter in command.get_params(context):
        value = values.get(parameter.name)
        if value == "":
            written = [name for word in arguments if (name := word.partition("=")[0]) in parameter.opts]
            raise ValueError(f"{_label(parameter, written)} must not be empty")
        if isinstance(value, list | tuple) and "" in value:
            raise ValueError(f"{_label(parameter, [])} must not be empty, got {', '.join(map(repr, value))}")


def _label(parameter, written: Sequence[str]) -> str:
    if written:
        return written[-1]
    return parameter.name.upper() if parameter.param_type_name == "argument" else parameter.opts[-1]


def _function(module: str, name: str) -> Callable:
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


def _unless_invoked(function: Callable) -> Callable:
    """Wrap a group's function: where a command of the group runs, it does nothing, and refuses options of the group."""

    @wraps(function)
    def run(context: typer.Context, **options):
        if context.invoked_subcommand is None:
            return function(context=context, **options)
        written = given(context)
        for parameter in context.command.params:
            if parameter.name in written:
                name = context.invoked_subcommand
                raise ValueError(f"{parameter.opts[-1]} stands before {name}: options stand behind the command")
        return None

    return run


def given(context: typer.Context) -> dict:
    """Give the options that stand on the command line, by the names of the command's parameters."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name: context.params[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def help_unless_invoked(context: typer.Context) -> None:
    """End with a group's help, on standard error, where no command of it runs."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)
