"""Reads flat tables of TOML, and checks values read from any file; messages name file, line and field."""

import json
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from etalstm.errors import EtaLstmError, RunError


class TomlFile:
    """A TOML file that was read: its table, and the line of each key.

    Raises ``FileNotFoundError`` if it does not exist, ``ValueError`` or ``RecursionError`` if it is not TOML.
    """

    def __init__(self, path: Path):
        self.path = path
        self._text = path.read_text(encoding="utf-8")
        self.table = tomllib.loads(self._text)

    def __str__(self) -> str:
        return str(self.path)

    def where(self, key: str) -> str:
        """Name the file, and the line of a key if the file has it."""
        found = re.search(rf"^[ \t]*([\"']?){re.escape(key)}\1[ \t]*[=.]", self._text, re.MULTILINE)
        return f"{self.path}, line {self._text.count(chr(10), 0, found.start()) + 1}" if found else str(self.path)

    def where_named(self, message: str) -> str:
        """Name the file, and the line of the first of its keys that a message names."""
        words = re.findall(r"\w+", message)
        return self.where(next((word for word in words if word in self.table), ""))


def dump(table: dict, heading: str) -> str:
    """Write a table of numbers, texts, booleans and lists of them as TOML, below a heading as a comment.

    Each key has a line; keys whose value is None are left out.
    """
    lines = [f"{key} = {_value(value)}\n" for key, value in table.items() if value is not None]
    return f"# {heading}\n" + "".join(lines)


def _value(value) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # TOML's basic strings are those of JSON, except that TOML wants the character DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def read_json(path: Path, missing: str = "there is no such file") -> Any:
    """Read a file of JSON; :class:`RunError` names it if it does not exist (`missing` says so) or is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{path}: {missing}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: no JSON: {error}") from error


Checked = TypeVar("Checked")


def check(kind: type[Checked], value: Any, source: object, error: type[EtaLstmError], name: str = "") -> Checked:
    """Give `value` as a `kind`, no type converted into another.

    `kind` is a pydantic model or any other annotation. Raises `error` if the value does not fit: the message names the
    source, the first field that is wrong, and its value. `name` is the value's name if the value is a field itself.
    """
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as found:
        first = found.errors(include_url=False)[0]
        field = ".".join(str(key) for key in ([name] if name else first["loc"]))
        if first["type"] == "missing":
            raise error(f"{source}: {field} is missing") from found
        if first["type"] == "extra_forbidden":
            raise error(f"{source}: {field} is unknown here") from found
        got = repr(first["input"])
        raise error(f"{source}: {field or 'all of it'}: {first['msg']}, got {got[:80]}") from found


def check_fields(kind: type, table: Any, origin: object, error: type[EtaLstmError]) -> dict:
    """Give a table of some fields of a dataclass, each checked as :func:`check` does; lists stand for tuples.

    If `origin` is a :class:`TomlFile`, messages name the line of a field.
    """
    check(dict[str, Any], table, origin, error)
    kinds, checked = get_type_hints(kind), {}
    for name, value in table.items():
        source = origin.where(name) if isinstance(origin, TomlFile) else origin
        if name not in kinds:
            near = "".join(f"; is it {other}?" for other in get_close_matches(name, kinds, 1))
            raise error(f"{source}: {name} is unknown here{near}")
        checked[name] = check(kinds[name], tuple(value) if isinstance(value, list) else value, source, error, name)
    return checked
