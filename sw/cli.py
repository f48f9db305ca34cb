"""The command line: ``eta-lstm``. What a user can cause ends in one line and exit code 2, here and nowhere else.

A tool that failed has its log shown before that line.
"""

import sys
from collections.abc import Sequence

import typer

from etalstm.commands import BENCHES, COMMANDS, REPORT, REPORTS, STUDIES
from etalstm.commands.grouped import GroupedCommand
from etalstm.errors import EtaLstmError

USAGE_ERROR = typer.BadParameter.__base__  # of the parser inside typer, whose module differs between its versions
BAD_INPUT, INTERRUPTED = 2, 130


def application() -> typer.Typer:
    """Put the commands together."""
    options = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
    app = typer.Typer(help="Train LSTMs on the η-LSTM accelerator.", no_args_is_help=True, **options)
    bench = typer.Typer(help="Measure.", no_args_is_help=True, **options)
    study = typer.Typer(help="Train many times and compare.", no_args_is_help=True, **options)
    report = typer.Typer(invoke_without_command=True, callback=REPORT, **options)
    for group, commands in ((app, COMMANDS), (bench, BENCHES), (report, REPORTS), (study, STUDIES)):
        for name, command in commands.items():
            group.command(name, cls=GroupedCommand)(command)
    for group in (bench, study):
        group.callback()(lambda: None)  # keeps a group of one command a group
    app.callback()(lambda: None)
    app.add_typer(bench, name="bench")
    app.add_typer(report, name="report")
    app.add_typer(study, name="study")
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give the exit code.

    Parameters
    ----------
    arguments : list of str, optional
        Those of the process if not given.
    """
    try:
        return application()(arguments, standalone_mode=False) or 0
    except USAGE_ERROR as error:
        return _fail(error.format_message())
    except (EtaLstmError, ValueError, OSError) as error:
        return _fail(str(error), getattr(error, "log", ""))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED


def _fail(message: str, log: str = "") -> int:
    if log:
        print(log, file=sys.stderr)
    print("eta-lstm: " + " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT


def main() -> None:
    """Enter from the console script."""
    sys.exit(run())
