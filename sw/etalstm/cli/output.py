"""Prints results and remarks of commands, and imports modules whose packages an extra installs."""

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

from rich.console import Console
from rich.table import Table

from etalstm.errors import DeviceError

ANY_WIDTH = 10_000  # characters: more than any table has
BUSY = 0.6  # load above which another program is at work; the start of a command is less


def say(text: str) -> None:
    """Print a remark on standard error."""
    print(text, file=sys.stderr, flush=True)


def announce_compilation(package: ModuleType) -> None:
    """Tell a user who may be waiting that a package's loops are about to be compiled, if they are not yet."""
    if sys.stderr.isatty():
        importlib.import_module("etalstm.host.machine_code").announce(package, say)


def warn_if_busy() -> None:
    """Say that figures of speed will be wrong, if other programs have used this computer in the last minute."""
    load = os.getloadavg()[0]
    if load > BUSY:
        say(f"other programs use this computer (load {load:.1f}): speeds will be too low, and ratios may be wrong")


def print_rows(
    title: str, columns: Sequence[str], rows: Iterable[Iterable[str]], left: Sequence[int] = (0,), justify="left"
) -> None:
    """Print texts as a table whose columns are aligned to the right, but for some; `justify` places the title."""
    table = Table(title=title, title_justify=justify)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in left else "right")
    for row in rows:
        table.add_row(*row)
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table on standard output, in the width that it needs, where a terminal or a file offers less."""
    console = Console()
    needed = console.measure(table, options=console.options.update(max_width=ANY_WIDTH)).maximum
    Console(width=max(console.width, needed)).print(table)


def print_result(result: dict, as_json: bool, show: Callable[[dict], object]) -> None:
    """Print a result: as one JSON object, or as `show` does."""
    if as_json:
        print(json.dumps(result))
    else:
        show(result)


PACKAGE_NAMES = {"torch": "PyTorch"}


def with_extra(module: str, extra: str = "torch", needed: tuple[str, ...] = ("torch",)) -> ModuleType:
    """Import a module of the package that needs others, which an extra installs.

    Raises :class:`DeviceError`, naming the first that is missing, and the extra.
    """
    for name in needed:
        if importlib.util.find_spec(name) is None:
            raise DeviceError(
                f"{PACKAGE_NAMES.get(name, name)} is not installed; install the extra: pip install 'etalstm[{extra}]'"
            )
    return importlib.import_module(module)
