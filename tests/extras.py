"""Hides from other processes what an installation with some extras does not have."""

import os
import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

_HIDE = """\
import sys


class Hiding:
    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {names!r} else self._finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self._finder, name)


sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_with(distribution: str, extras: set[str], found: set[tuple[str, frozenset[str]]]) -> None:
    """Add to `found` a distribution with its extras, and all that it requires, as far as that is installed."""
    key = _canonical(distribution), frozenset(extras)
    if key in found:
        return
    found.add(key)
    try:
        requirements = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            _installed_with(requirement.name, requirement.extras, found)


def hide_all_but(extras: set[str], folder: Path, also: tuple[str, ...] = ()) -> str:
    """Write a ``sitecustomize.py`` into a new folder that hides modules, and give a ``PYTHONPATH`` that leads to it.

    Hidden are the modules of installed distributions that neither ``etalstm`` with these extras requires, nor one of
    the distributions `also`.
    """
    folder.mkdir()
    found: set[tuple[str, frozenset[str]]] = set()
    _installed_with("etalstm", extras, found)
    for name in also:
        _installed_with(name, set(), found)
    there = {name for name, _ in found}
    hidden = {
        module
        for module, distributions in metadata.packages_distributions().items()
        if not there & set(map(_canonical, distributions))
    }
    (folder / "sitecustomize.py").write_text(_HIDE.format(names=hidden), encoding="utf-8")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
