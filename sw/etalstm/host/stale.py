"""Numba's caches of machine code, kept honest."""

import inspect
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


def drop_older_code(modules: Iterable[Path], others: Iterable[ModuleType] = ()) -> None:
    """Remove the cached machine code of some modules that is older than any of them or than any of `others`.

    Numba looks only at the file of the cached function itself. But the machine code holds the functions that it calls
    and the constants that it reads, too: after a change of one of those it would silently do what it did before.

    Parameters
    ----------
    modules : paths
        Of the modules with cached functions.
    others : modules
        What these take functions or constants from.
    """
    modules = list(modules)
    sources = [*modules, *(Path(inspect.getfile(other)) for other in others)]
    newest = max(source.stat().st_mtime for source in sources)
    for module in modules:
        for index in (module.parent / "__pycache__").glob(f"{module.stem}.*.nbi"):
            try:
                if index.stat().st_mtime < newest:
                    index.unlink()
            except FileNotFoundError:
                continue  # another process was faster
