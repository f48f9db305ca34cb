"""The machine code that Numba keeps: where it lies, and when it is too old."""

import hashlib
import inspect
import os
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from numba.core import config as numba_config

import etalstm
from etalstm.host.cached_build import cache_directory


def keep_code(modules: Iterable[Path], others: Iterable[ModuleType] = ()) -> None:
    """Have machine code kept, and remove that of `modules` which is older than any of them or than any of `others`.

    To be called before the first function of `modules` is declared. Numba checks only the file of the cached function
    itself. But the machine code contains the functions that it calls and the constants that it reads. After a change of
    one of those, the old code would still run. `modules` are paths of modules with cached functions; these import
    functions or constants from `others`.
    """
    modules = list(modules)
    _find_a_place(modules[0].parent)
    newest = _newest((*modules, *(Path(inspect.getfile(other)) for other in others)))
    for module in modules:
        for index in (module.parent / "__pycache__").glob(f"{module.stem}.*.nbi"):
            try:
                if index.stat().st_mtime < newest:
                    index.unlink()
            except FileNotFoundError:
                continue  # another process was faster


def announce(package: ModuleType, tell: Callable[[str], None]) -> None:
    """Tell that the loops of a package are about to be compiled, if they are not yet."""
    if not is_kept(package):
        tell(f"compiling the loops of {package.__name__}, once for this installation: about a minute of one processor")


def is_kept(package: ModuleType) -> bool:
    """Tell whether machine code of a package is kept already; else the first call of its functions compiles them."""
    folder = Path(package.__path__[0])
    indexes = Path(vars(numba_config)["CACHE_DIR"] or folder).rglob("*.nbi")
    return not {path.stem for path in folder.rglob("*.py")}.isdisjoint(path.name.partition(".")[0] for path in indexes)


def _find_a_place(folder: Path) -> None:
    """Where nothing can be kept beside the modules, take a folder of the cache for what is installed."""
    config = vars(numba_config)  # its names are made when it is imported
    if config["CACHE_DIR"] or os.access(folder, os.W_OK):
        return
    package = Path(etalstm.__path__[0])
    installed = f"{package} {version('etalstm')} {_newest(package.rglob('*.py'))}"
    config["CACHE_DIR"] = str(cache_directory() / "numba" / hashlib.sha256(installed.encode()).hexdigest()[:24])


def _newest(sources: Iterable[Path]) -> float:
    return max(source.stat().st_mtime for source in sources)
