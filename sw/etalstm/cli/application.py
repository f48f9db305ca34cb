"""Puts the commands together, and runs the one that is asked for.

What a user can cause ends in one line and exit code 2, here and nowhere else. A tool that failed has its log shown
before that line.
"""

import ast
import importlib
import importlib.metadata
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from etalstm.cli import BENCHES, COMMANDS, PROFILES, REPORT, REPORTS, STUDIES, TRANSLATIONS
from etalstm.cli.grouped import GroupedCommand
from etalstm.errors import EtaLstmError
from etalstm.host.mpi.process import as_rank
from etalstm.host.mpi.world import World

USAGE_ERROR = typer.BadParameter.__base__  # of the parser inside typer, whose module differs between its versions
BAD_INPUT, INTERRUPTED = 2, 130
DEBUG = "--debug"
_STYLE = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
_STYLE["context_settings"] = {"help_option_names": ["-h", "--help"]}


def application(asked: Sequence[str]) -> typer.Typer:
    """Put the commands together; modules of commands whose names are not among the words `asked` are not imported."""
    app = typer.Typer(help="Train LSTMs on the η-LSTM accelerator.", invoke_without_command=True, **_STYLE)
    bench = typer.Typer(help="Measure.", **_STYLE)
    study = typer.Typer(help="Train many times and compare.", **_STYLE)
    report = typer.Typer(invoke_without_command=True, **_STYLE)
    profile = typer.Typer(help="Find out what a machine does with a network of a size.", **_STYLE)
    translate = typer.Typer(help="Train a model that translates sentences, and use it.", **_STYLE)
    groups = (app, COMMANDS), (bench, BENCHES), (report, REPORTS), (study, STUDIES), (profile, PROFILES)
    groups += ((translate, TRANSLATIONS),)
    for group, commands in groups:
        for name, module in commands.items():
            group.command(name, cls=GroupedCommand, help=_help(module, name, asked))(_function(module, name, asked))
    app.callback()(_main)
    for group in (bench, study, profile, translate):
        group.callback(invoke_without_command=True)(_help_unless_invoked)
    report.callback(help=_help(REPORT, REPORT, asked))(_function(REPORT, REPORT, asked))
    named = {"bench": bench, "report": report, "study": study, "profile": profile, "translate": translate}
    for name, group in named.items():
        app.add_typer(group, name=name)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command and give the exit code.

    Of several processes that mpiexec has started, the first one runs the command, and the others serve it.

    Parameters
    ----------
    arguments : list of str
        Without the program's name.
    """
    try:
        return as_rank(lambda: _run(arguments), _serve)
    except EtaLstmError as error:  # mpiexec's processes cannot work together
        return _fail(str(error))


def _serve(world: World) -> None:
    """Serve rank 0. The devices are imported only here: the command line itself needs none."""
    importlib.import_module("etalstm.device.ranks.worker").serve(world)


def _run(arguments: Sequence[str]) -> int:
    try:
        _refuse_empty(arguments)
        return application(arguments)(list(arguments), prog_name="eta-lstm", standalone_mode=False) or 0
    except USAGE_ERROR as error:
        return _fail(_with_value(error, arguments))
    except (EtaLstmError, ValueError, OSError) as error:
        if DEBUG in arguments[:1]:
            traceback.print_exc()
        return _fail(str(error), getattr(error, "log", ""))
    except MemoryError as error:
        return _fail(f"this computer's memory is too small{f': {error}' if str(error) else ''}")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED


def _main(
    context: typer.Context,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where an error comes from; to be given first")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version")] = False,
) -> None:
    if version:
        print(f"eta-lstm {importlib.metadata.version('etalstm')}")
        raise typer.Exit
    _help_unless_invoked(context)


def _help_unless_invoked(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(BAD_INPUT)


def _function(module: str, name: str, asked: Sequence[str]) -> Callable:
    """Import a command's function, or give one in its place that is not going to be called."""
    return getattr(importlib.import_module(f"{__package__}.{module}"), name) if name in asked else lambda: None


def _help(module: str, name: str, asked: Sequence[str]) -> str | None:
    """Read a command's help from its source; None if it is going to be imported."""
    if name in asked:
        return None
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return next(ast.get_docstring(function) for function in functions if function.name == name)


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raise ``ValueError`` for an empty value: as a path it would be the current folder, and else a default."""
    for before, word in zip(["the first argument", *arguments], arguments, strict=False):
        if not word or (word.startswith("--") and word.endswith("=")):
            raise ValueError(f"{word.rstrip('=') or before} must not be empty")


def _with_value(error: Exception, arguments: Sequence[str]) -> str:
    """Give a usage error's message, with the value that the named option was given."""
    message = error.format_message()
    names = getattr(getattr(error, "param", None), "opts", ())
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, joined, value = word.partition("=")
        if name in names:
            return f"{message}, got {value if joined else following!r}"
    return message


def _fail(message: str, log: str = "") -> int:
    if log:
        print(log, file=sys.stderr)
    print("eta-lstm: " + " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT
