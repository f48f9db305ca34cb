"""Prints tables so that no number is cut."""

from rich.console import Console
from rich.table import Table

_ANY = 10_000  # columns: more than any table has


def print_table(table: Table) -> None:
    """Print a table on standard output, in the width that it needs, where a terminal or a file offers less."""
    console = Console()
    needed = console.measure(table, options=console.options.update(max_width=_ANY)).maximum
    Console(width=max(console.width, needed)).print(table)
