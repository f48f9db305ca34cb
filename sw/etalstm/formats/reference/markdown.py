"""The contract as a page."""

import re
from collections.abc import Iterable


def markdown(described: dict, command: str) -> str:
    """Write the page from what :func:`~etalstm.formats.reference.contract.describe` gives; it names the `command`."""
    return "\n".join(
        [
            "# Registers and programs",
            "",
            f"Written by `{command}` from `etalstm_hw.contract`; do not edit.",
            "",
            *_registers(described),
            *_instructions(described),
            *_values(described),
        ]
    )


def _registers(described: dict) -> Iterable[str]:
    registers = [
        [f"`{entry['offset']:#05x}`", f"`{entry['name']}`", "yes" if entry["kept"] else "", _plain(entry["text"])]
        for entry in described["registers"]
    ]
    counters = [
        [f"`{entry['offset']:#05x}`", f"`{entry['name']}`", str(entry["count"]), _plain(entry["text"])]
        for entry in described["counters"]
    ]
    yield from _section("Registers", "AXI4-Lite, 32 bits each. *Kept*: all bits of a write are kept and read back.")
    yield from _table(("offset", "register", "kept", "meaning"), registers)
    yield from _section("Counters", "64 bits each, the low half first.")
    yield from _table(("offset of the first", "counter", "how many", "meaning"), counters)


def _instructions(described: dict) -> Iterable[str]:
    yield from _section("Instructions", described["header"]["text"])
    yield from _fields(described["header"]["fields"])
    for entry in described["instructions"]:
        engine = f", engine {entry['engine']}" if entry["engine"] else ""
        yield from _section(f"{entry['name']} (opcode {entry['opcode']}{engine})", entry["text"], 3)
        if entry["fields"]:
            yield from _fields(entry["fields"])


def _values(described: dict) -> Iterable[str]:
    yield from _section("Values", "")
    for enum in described["enums"]:
        yield from _section(enum["name"], enum["text"], 3)
        members = [
            [f"`{member['value']:#x}`" if member["value"] > 255 else str(member["value"]), f"`{member['name']}`",
             _plain(member["text"])]
            for member in enum["members"]
        ]  # fmt: skip
        yield from _table(("value", "name", "meaning"), members)
    constants = [
        [f"`{entry['name']}`", f"`{entry['value']:#x}`" if entry["value"] > 4096 else str(entry["value"]),
         _plain(entry["text"])]
        for entry in described["constants"]
    ]  # fmt: skip
    yield from _section("Constants", "", 3)
    yield from _table(("name", "value", "meaning"), constants)
    lists = [
        [f"`{entry['name']}`", ", ".join(f"`{value}`" for value in entry["values"]), _plain(entry["text"])]
        for entry in described["lists"]
    ]
    yield from _table(("list", "entries", "meaning"), lists)


def _section(title: str, text: str, level: int = 2) -> list[str]:
    return ["#" * level + " " + title, "", *([_plain(text), ""] if text else [])]


def _fields(fields: list[dict]) -> list[str]:
    rows = [[_bits(field), f"`{field['name']}`", _plain(field["text"])] for field in fields]
    return _table(("bits", "field", "meaning"), rows)


def _bits(field: dict) -> str:
    last = field["offset"] + field["width"] - 1
    return f"{last}:{field['offset']}" if field["width"] > 1 else str(last)


def _table(head: Iterable[str], rows: list[list[str]]) -> list[str]:
    lines = [list(head), ["---"] * len(rows[0]), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]


def _plain(text: str) -> str:
    """Turn the roles and quotes of docstrings into Markdown, and lines into one."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    return " ".join(text.split())
