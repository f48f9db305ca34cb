"""The contract as a page, and as a C header."""

import re
from collections.abc import Iterable


def markdown(described: dict, command: str) -> str:
    """Write the page from the result of :func:`~etalstm.formats.reference.contract.describe`; it names `command`."""
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
    yield from _section(
        "Registers",
        "AXI4-Lite, 32 bits each. *Kept*: all bits of a write are kept and read back. A kept register must not be "
        "written while a program runs: what the program computes, and where it writes, would be undefined.",
    )
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


_TOP = """\
/* What the η-LSTM accelerator and its host agree on. C99 or later, and C++.
 *
 * Written by `{command}` from etalstm_hw.contract; do not edit.
 */
#ifndef ETALSTM_CONTRACT_H
#define ETALSTM_CONTRACT_H

#include <stdint.h>
"""
_BOTTOM = """\
/* An instruction: 256 bits, the least significant word first, as it lies in memory. */
typedef struct {
    uint32_t words[ETALSTM_INSTRUCTION_BITS / 32];
} etalstm_instruction;

/* Set a field of an instruction, bit by bit; bits of `value` beyond `width` are dropped. */
static inline void etalstm_set(etalstm_instruction *instruction, unsigned offset, unsigned width, uint64_t value) {
    for (unsigned n = 0; n < width; ++n) {
        const uint32_t bit = UINT32_C(1) << ((offset + n) % 32);
        uint32_t *word = &instruction->words[(offset + n) / 32];
        *word = (value >> n & 1) ? (*word | bit) : (*word & ~bit);
    }
}

/* Read a field of an instruction. */
static inline uint64_t etalstm_get(const etalstm_instruction *instruction, unsigned offset, unsigned width) {
    uint64_t value = 0;
    for (unsigned n = 0; n < width; ++n)
        value |= (uint64_t)(instruction->words[(offset + n) / 32] >> ((offset + n) % 32) & 1) << n;
    return value;
}

/* Give an instruction its check, which covers its number in the program, too: the last thing before it is written. */
static inline void etalstm_seal(etalstm_instruction *instruction, uint32_t number) {
    uint32_t crc = 0xFFFF;
    for (unsigned byte = 0; byte < ETALSTM_CHECK_OFFSET / 8; ++byte) {
        crc ^= (instruction->words[byte / 4] >> byte % 4 * 8 & 0xFF) << 8;
        for (unsigned bit = 0; bit < 8; ++bit)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xFFFF;
    }
    etalstm_set(instruction, ETALSTM_CHECK_OFFSET, ETALSTM_CHECK_BITS, crc ^ (number & 0xFFFF));
}

#endif
"""


def header(described: dict, command: str) -> str:
    """Write the header from the result of :func:`~etalstm.formats.reference.contract.describe`; it names `command`."""
    lines = [_TOP.format(command=command)]
    lines += _defines("Constants", [(entry["name"], entry["value"], entry["text"]) for entry in described["constants"]])
    lines += _defines("Registers", [(f"REG_{e['name']}", e["offset"], e["text"]) for e in described["registers"]])
    counters = [(f"COUNTER_{e['name']}", e["offset"], e["text"]) for e in described["counters"]]
    lines += _defines("Counters: the register of the low half of the first", counters)
    for enum in described["enums"]:
        prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum["name"]).upper()
        members = [(f"{prefix}_{member['name']}", member["value"], member["text"]) for member in enum["members"]]
        lines += _defines(f"{enum['name']}: {enum['text']}", members)
    lines += _field_macros("HEADER", described["header"]["fields"])
    for entry in described["instructions"]:
        lines += _field_macros(entry["name"], entry["fields"]) if entry["fields"] else []
    return "\n".join([*lines, _BOTTOM])


def _field_macros(name: str, fields: list[dict]) -> list[str]:
    """Write each field as two arguments of ``etalstm_set`` and ``etalstm_get``."""
    lines = [f"/* Fields of {name}: offset and width in bits. */"]
    for field in fields:
        lines.append(f"#define ETALSTM_{name}_{field['name'].upper()} {field['offset']}u, {field['width']}u")
    return [*lines, ""]


def _defines(title: str, values: list[tuple[str, int, str]]) -> list[str]:
    lines = [_comment(title)]
    for name, value, text in values:
        number = f"{value:#x}u" if value > 255 else f"{value}u"
        lines.append(f"#define ETALSTM_{name} {number}" + (f" {_comment(text)}" if text else ""))
    return [*lines, ""]


def _comment(text: str) -> str:
    return f"/* {' '.join(text.replace('*/', '* /').split())} */"
