"""What commands print: tables in which no number is cut, and remarks that are no part of a result."""

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

_ANY = 10_000  # columns: more than any table has


def say(text: str) -> None:
    """Print a remark on standard error."""
    print(text, file=sys.stderr, flush=True)


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
    needed = console.measure(table, options=console.options.update(max_width=_ANY)).maximum
    Console(width=max(console.width, needed)).print(table)
