"""The contract as plain data: every constant, enumeration, register and field with its value and its explanation."""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterable
from enum import IntEnum, IntFlag
from itertools import pairwise
from types import ModuleType
from typing import Any

from etalstm_hw import contract
from etalstm_hw.contract import FIELDS, HEADER, Counter, Opcode, Register


class Comments:
    """The comments of a Python source, with its syntax tree `tree`.

    A comment belongs to the statement that begins its line, or the line below it.
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
        """Read the concatenated sources of modules."""
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
        """Give the assignments to single names, by name."""
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

        Raises ``TypeError`` if the source is no dict's.
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


def describe() -> dict:
    """Describe the contract as plain values, equal for equal contracts.

    Gives a dict: ``constants``: name, value, text of each. ``lists``: name, values, text. ``enums``: name, text,
    members (name, value, text). ``registers``: name, offset, kept (whether a write is kept and read back), text.
    ``counters``: name, offset of the low half, how many, text. ``instructions``: name, opcode, engine, text, fields
    (name, offset, width in bits, text), without the fields of ``header``.
    """
    comments = Comments.of(contract.PARTS)
    enums = {
        name: value
        for part in contract.PARTS
        for name, value in vars(part).items()
        if inspect.isclass(value) and issubclass(value, (IntEnum, IntFlag)) and value.__module__ == part.__name__
    }
    return {
        "constants": _values(comments, int, "value"),
        "lists": _values(comments, tuple, "values"),
        "enums": [_enum(comments, enum) for enum in enums.values() if enum not in (Register, Counter)],
        "registers": _registers(comments),
        "counters": _counters(comments),
        "header": _header(comments),
        "instructions": [_instruction(comments, opcode) for opcode in Opcode],
    }


def _values(comments: Comments, kind: type, key: str) -> list[dict]:
    """List the public assignments of a type."""
    found = []
    for name, node in comments.assignments().items():
        value: Any = None if name.startswith("_") else getattr(contract, name)
        if isinstance(value, kind):
            plain = [getattr(entry, "name", entry) for entry in value] if isinstance(value, tuple) else value
            found.append({"name": name, key: plain, "text": comments.text(node)})
    return found


def _enum(comments: Comments, enum: type[IntEnum] | type[IntFlag]) -> dict:
    texts = comments.members(enum.__name__)
    members = [{"name": name, "value": int(enum[name]), "text": texts[name]} for name in enum.__members__]
    return {"name": enum.__name__, "text": inspect.getdoc(enum), "members": members}


def _registers(comments: Comments) -> list[dict]:
    texts = comments.members(Register.__name__)
    kept = contract.KEPT_REGISTERS
    return [{"name": r.name, "offset": int(r), "kept": r in kept, "text": texts[r.name]} for r in Register]


def _counters(comments: Comments) -> list[dict]:
    """List the counters; the number of counters under one name reaches to the next name."""
    texts = comments.members(Counter.__name__)
    return [
        {"name": first.name, "offset": Register.COUNTER + 8 * first, "count": next_ - first, "text": texts[first.name]}
        for first, next_ in pairwise(Counter)
    ]


def _header(comments: Comments) -> dict:
    text, texts = _explained(comments, "HEADER")
    return {"text": text, "fields": _fields(Opcode.HALT, HEADER, texts)}


def _instruction(comments: Comments, opcode: Opcode) -> dict:
    text, node = comments.keys(comments.assignments()["FIELDS"].value)[f"Opcode.{opcode.name}"]
    more, texts = _merged(comments, node)
    engine = contract.ENGINE_OF.get(opcode)
    return {
        "name": opcode.name,
        "opcode": int(opcode),
        "engine": engine.name if engine is not None else None,
        "text": " ".join([text, *more]),
        "fields": _fields(opcode, FIELDS[opcode], texts),
    }


def _explained(comments: Comments, name: str) -> tuple[str, dict[str, str]]:
    """Give the text of a dict of fields, and the texts of its fields."""
    assignment = comments.assignments()[name]
    more, texts = _merged(comments, assignment.value)
    return " ".join(text for text in (comments.text(assignment), *more) if text), texts


def _merged(comments: Comments, node: ast.expr) -> tuple[list[str], dict[str, str]]:
    """Give the texts of the dicts that a dict includes, and the texts of all its fields."""
    more: list[str] = []
    texts: dict[str, str] = {}
    for name, (text, _) in comments.keys(node).items():
        if name.startswith("**"):
            shared, fields = _explained(comments, name[2:])
            more += [shared] if shared else []
            texts |= fields
        else:
            texts[name] = text
    return more, texts


def _fields(opcode: Opcode, names: Iterable[str], texts: dict[str, str]) -> list[dict]:
    layout = contract.layout(opcode)
    return [{"name": name, "offset": layout[name][0], "width": layout[name][1], "text": texts[name]} for name in names]
