"""Imports what an extra of the package brings; the rest of the program works without it."""

import importlib
import importlib.util
from types import ModuleType

from etalstm.errors import DeviceError

NAMES = {"torch": "PyTorch"}


def with_extra(module: str, extra: str = "torch", needed: tuple[str, ...] = ("torch",)) -> ModuleType:
    """Import a module of the package that needs others, which an extra installs.

    Raises
    ------
    DeviceError
        Naming the first that is missing, and the extra.
    """
    for name in needed:
        if importlib.util.find_spec(name) is None:
            raise DeviceError(
                f"{NAMES.get(name, name)} is not installed; install the extra: pip install 'etalstm[{extra}]'"
            )
    return importlib.import_module(module)
