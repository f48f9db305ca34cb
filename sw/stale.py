"""Numba's caches of machine code, kept honest."""

from collections.abc import Iterable
from pathlib import Path


def drop_older_code(folder: Path, others: Iterable[Path] = ()) -> None:
    """Remove a folder's cached machine code that is older than any of its modules or than any of `others`.

    Numba looks only at the file of the cached function itself. But the machine code holds the functions that it calls,
    too: after a change of one of those it would silently do what it did before.
    """
    newest = max(source.stat().st_mtime for source in [*folder.glob("*.py"), *others])
    for index in (folder / "__pycache__").glob("*.nbi"):
        try:
            if index.stat().st_mtime < newest:
                index.unlink()
        except FileNotFoundError:
            continue  # another process was faster
