"""The contract as a C header."""

import re

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
    """Write the header from what :func:`~etalstm.formats.reference.contract.describe` gives; it names the `command`."""
    lines = [_TOP.format(command=command)]
    lines += _defines("Constants", [(entry["name"], entry["value"], entry["text"]) for entry in described["constants"]])
    lines += _defines("Registers", [(f"REG_{e['name']}", e["offset"], e["text"]) for e in described["registers"]])
    counters = [(f"COUNTER_{e['name']}", e["offset"], e["text"]) for e in described["counters"]]
    lines += _defines("Counters: the register of the low half of the first", counters)
    for enum in described["enums"]:
        prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum["name"]).upper()
        members = [(f"{prefix}_{member['name']}", member["value"], member["text"]) for member in enum["members"]]
        lines += _defines(f"{enum['name']}: {enum['text']}", members)
    lines += _fields("HEADER", described["header"]["fields"])
    for entry in described["instructions"]:
        lines += _fields(entry["name"], entry["fields"]) if entry["fields"] else []
    return "\n".join([*lines, _BOTTOM])


def _fields(name: str, fields: list[dict]) -> list[str]:
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
