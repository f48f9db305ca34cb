"""Imports the hardware with some of its source text replaced: small parameters, and deliberate faults."""

import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader

PACKAGES = ("etalstm", "etalstm_hw", "etalstm_sim", "etalstm_boards")


@dataclass(frozen=True)
class Change:
    """A text of a module and what stands in its place; it must occur exactly once.

    Members
    -------
    module : its full name, as in ``etalstm_hw.program.queue``
    """

    module: str
    old: str
    new: str

    def __call__(self, text: str) -> str:
        """Give the module's text after the change."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.module} has {found} times, expected once: {self.old!r}")
        return text.replace(self.old, self.new)


class _Loader(SourceFileLoader):
    """Loads a module whose text has been changed."""

    def __init__(self, name, path, changes):
        super().__init__(name, path)
        self._changes = changes

    def get_code(self, fullname):
        text = self.get_source(fullname)
        for change in self._changes:
            text = change(text)
        return compile(text, self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds the changed modules before anybody else does."""

    def __init__(self, changes):
        self._changes = changes

    def find_spec(self, name, path=None, target=None):
        changes = [change for change in self._changes if change.module == name]
        if not changes:
            return None
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(spec for spec in found if spec)
        spec.loader = _Loader(name, spec.origin, changes)
        return spec


def _ours():
    return [name for name in sys.modules if name.partition(".")[0] in PACKAGES]


@contextmanager
def variant(changes):
    """Import the packages anew, with changes; afterwards everything is as it was.

    Gives a function from a module's name to the module.

    Raises
    ------
    ValueError
        At import, if a text does not occur exactly once.
    """
    before = {name: sys.modules.pop(name) for name in _ours()}
    finder = _Finder(tuple(changes))
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module
    finally:
        sys.meta_path.remove(finder)
        for name in _ours():
            del sys.modules[name]
        sys.modules.update(before)
