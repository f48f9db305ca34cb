"""Reads and writes one flat table of TOML: numbers, texts, truths and lists of them."""

import json
import re
import tomllib
from pathlib import Path


class TomlFile:
    """A file that was read, whose keys have lines.

    Members
    -------
    path : Path
    table : dict

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError, RecursionError
        If it is not TOML.
    """

    def __init__(self, path: Path):
        self.path = path
        self._text = path.read_text(encoding="utf-8")
        self.table = tomllib.loads(self._text)

    def __str__(self) -> str:
        return str(self.path)

    def place(self, key: str) -> str:
        """Name the file, and the line on which a key stands where there is one."""
        found = re.search(rf"^[ \t]*([\"']?){re.escape(key)}\1[ \t]*[=.]", self._text, re.MULTILINE)
        return f"{self.path}, line {self._text.count(chr(10), 0, found.start()) + 1}" if found else str(self.path)

    def blamed(self, message: str) -> str:
        """Name the file, and the line of the first of its keys that a message names."""
        words = re.findall(r"\w+", message)
        return self.place(next((word for word in words if word in self.table), ""))


def dump(table: dict, heading: str) -> str:
    """Write a table, a line for each key; keys whose value is None are left out.

    Parameters
    ----------
    table : dict from str to bool, int, float, str, None, or a sequence of these
    heading : str
        A comment above the first line.
    """
    lines = [f"{key} = {_value(value)}\n" for key, value in table.items() if value is not None]
    return f"# {heading}\n" + "".join(lines)


def _value(value) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # A basic string of TOML is one of JSON, but for the character DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value).lower() if isinstance(value, bool) else repr(value)
