"""Makes our docstrings what mkdocstrings reads, without a change of what they say.

- Several names of one entry, ``device, preset : str``, become an entry each: mkdocstrings would give all of them the
  default of the first.
- The section ``Members`` is called ``Attributes``.
"""

import re
from collections.abc import Iterator

import griffe

_GROUP = re.compile(r"(\w+(?:, \w+)+)( :.*)?")


class OurDocstrings(griffe.Extension):
    """Rewrites each docstring before it is read."""

    def on_object(self, *, obj, **kwargs) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring and not obj.is_alias:
            obj.docstring.value = "\n".join(_rewritten(obj.docstring.value.split("\n")))


def _rewritten(lines: list[str]) -> Iterator[str]:
    number = 0
    while number < len(lines):
        group, text = _GROUP.fullmatch(lines[number]), list(_indented(lines[number + 1 :]))
        if lines[number : number + 2] == ["Members", "-------"]:
            yield from ("Attributes", "----------")
            number += 2
        elif group and text:
            for name in group[1].split(", "):
                yield from (f"{name}{group[2] or ''}", *text)
            number += 1 + len(text)
        else:
            yield lines[number]
            number += 1


def _indented(lines: list[str]) -> Iterator[str]:
    """Give the lines of an entry's text, the first of `lines`."""
    for line in lines:
        if not line.startswith("    "):
            return
        yield line
