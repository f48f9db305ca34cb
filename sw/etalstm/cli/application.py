"""Puts the commands together, and runs the one that is asked for.

An error that a user can cause becomes one line and exit code 2, here and nowhere else. If a tool has failed, its log is
printed before that line.
"""

import importlib.metadata
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from etalstm.cli import SIGNAL_EXIT, TREE
from etalstm.cli.catalogue import NEW_NAMES, PROGRAM, renamed, unknown_option
from etalstm.cli.parser import ANY_WIDTH, CommandGroup, help_unless_invoked, load_group
from etalstm.errors import EtaLstmError
from etalstm.host.mpi import World, as_rank

USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]  # its module's name differs between versions of typer
BAD_INPUT, INTERRUPTED = 2, 130
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
DEBUG = "--debug"


class Ended(BaseException):
    """A signal wants the process to end; ``args`` has its number."""


def application() -> CommandGroup:
    """Make the parser of the command line. A command's module is imported when its name is read."""
    return load_group(PROGRAM, TREE, _main, help_option_names=["-h", "--help"], max_content_width=ANY_WIDTH)


def run(arguments: Sequence[str]) -> int:
    """Run a command and give the exit code.

    Of several processes that mpiexec has started, the first one runs the command, and the others serve it.

    `arguments`: without the program's name.
    """
    try:
        return as_rank(lambda: _run(arguments), _serve)
    except EtaLstmError as error:  # mpiexec's processes cannot work together
        return _fail(str(error))


def _serve(world: World) -> None:
    """Serve rank 0. The devices are imported only here: the command line itself needs none."""
    importlib.import_module("etalstm.device.ranks.team").serve(world)


def _run(arguments: Sequence[str]) -> int:
    first = [word for word in arguments[:1] if word == DEBUG]
    words, old = renamed(arguments[len(first) :])
    if old is not None:
        print(f"{PROGRAM} {old} is {PROGRAM} {NEW_NAMES[old]} now", file=sys.stderr, flush=True)
    arguments = [*first, *words]
    try:
        with _ending_in_order():
            return application()(arguments, prog_name=PROGRAM, standalone_mode=False) or 0
    except USAGE_ERROR as error:
        return _fail(_usage_message(error, arguments))
    except (EtaLstmError, ValueError, OSError) as error:
        if DEBUG in arguments[:1]:
            traceback.print_exc()
        return _fail(str(error), getattr(error, "log", ""))
    except MemoryError as error:
        return _fail(f"this computer's memory is too small{f': {error}' if str(error) else ''}")
    except Ended as ended:
        return SIGNAL_EXIT + ended.args[0]
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP raise :class:`Ended`, so that a command leaves no processes and files.

    A signal that the process ignores stays ignored. Python delivers signals to the main thread only.
    """
    previous = {}
    if threading.current_thread() is threading.main_thread():
        default = [number for number in END_SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
        previous = {number: signal.signal(number, _raise_ended) for number in default}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _raise_ended(number: int, _) -> None:
    raise Ended(number)


def _main(
    context: typer.Context,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where an error comes from; to be given first")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version")] = False,
) -> None:
    if version:
        print(f"eta-lstm {importlib.metadata.version('etalstm')}")
        raise typer.Exit
    help_unless_invoked(context)


def _usage_message(error: Any, arguments: Sequence[str]) -> str:
    """Give a usage error's message, with the value that the option was given, or the option that was probably meant."""
    context, message = error.ctx, error.format_message()
    if option := getattr(error, "option_name", None):
        own = [name for parameter in context.command.get_params(context) for name in parameter.opts]
        return message if option in own else unknown_option(option, context.command_path, own)
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
