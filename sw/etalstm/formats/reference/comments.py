"""Reads the comments of modules, so that what they explain is explained once."""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterable
from types import ModuleType


class Comments:
    """The comments of a Python source. A comment belongs to what begins its line, or the line below it.

    Parameters
    ----------
    source : str

    Members
    -------
    tree : ast.Module
        The source's syntax tree.
    """

    def __init__(self, source: str):
        self.tree = ast.parse(source)
        self._lines = source.splitlines()
        self._beside: dict[int, str] = {}
        self._alone: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                alone = not token.line[: token.start[1]].strip()
                (self._alone if alone else self._beside)[token.start[0]] = token.string.lstrip("#:").strip()

    @classmethod
    def of(cls, modules: Iterable[ModuleType]) -> "Comments":
        """Read the sources of modules, one behind the other."""
        return cls("\n".join(inspect.getsource(module) for module in modules))

    def text(self, node: ast.stmt | ast.expr) -> str:
        """Give the comment above a node and the one at the end of its line; empty if there is none."""
        if self._lines[node.lineno - 1].encode()[: node.col_offset].strip():
            return ""
        above: list[str] = []
        line = node.lineno - 1
        while line in self._alone:
            above.insert(0, self._alone[line])
            line -= 1
        return " ".join([*above, *([self._beside[node.lineno]] if node.lineno in self._beside else [])])

    def assignments(self) -> dict[str, ast.Assign]:
        """Find what the module assigns to single names."""
        return {
            node.targets[0].id: node
            for node in self.tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    def members(self, name: str) -> dict[str, str]:
        """Give the texts of a class's assignments."""
        (found,) = (node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        return {
            node.targets[0].id: self.text(node)
            for node in found.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    def keys(self, node: ast.expr) -> dict[str, tuple[str, ast.expr]]:
        """Give text and value of each key of a dict's source, as it is written; ``**other`` is a key of that name.

        Raises
        ------
        TypeError
            If the source is no dict's.
        """
        if not isinstance(node, ast.Dict):
            raise TypeError(f"{ast.unparse(node)} is no dict")
        found = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found[f"**{ast.unparse(value)}"] = ("", value)
            else:
                name = key.value if isinstance(key, ast.Constant) else None
                found[name if isinstance(name, str) else ast.unparse(key)] = (self.text(key), value)
        return found
