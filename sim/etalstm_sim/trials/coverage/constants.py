"""Finds the bits that a design's Verilog ties to a constant: no run can toggle them."""

import re
from collections.abc import Iterator

from etalstm_sim.compiled.observed import MODULE_TEXT

_NAME = r"(?:\\\S+ |[A-Za-z_][\w$]*)"
_DECLARED = re.compile(rf"^ +(?:input|output|wire|reg) (?:\[(\d+):0\] )?({_NAME})(?: = [^;]*)?;", re.M)
_ASSIGNED = re.compile(r"^ +assign (.*?) = (.*);$", re.M)
_PART = re.compile(
    rf"(?P<width>\d+)'h(?P<value>[0-9a-f]+)|(?P<name>{_NAME})\s?(?:\[(?P<high>\d+)(?::(?P<low>\d+))?\])?"
)

Bit = tuple[str, int]


def constant_bits(verilog: str) -> dict[str, set[str]]:
    """Find the constant bits of each module, as ``signal`` or ``signal[bit]``.

    Within a module, assignments of constants and of part-selects are followed; logic is not. So not all are found.
    """
    return {match[1].removeprefix("\\"): set(_of_module(match[0])) for match in MODULE_TEXT.finditer(verilog)}


def _of_module(text: str) -> Iterator[str]:
    widths = {match[2].strip(): int(match[1] or 0) + 1 for match in _DECLARED.finditer(text)}
    sources: dict[Bit, Bit | int] = {}
    for match in _ASSIGNED.finditer(text):
        targets = [target for target in _bits(match[1], widths) if isinstance(target, tuple)]
        values = _bits(match[2], widths)
        if targets and values and len(targets) == len(values):
            sources |= dict(zip(targets, values, strict=True))
    for bit in sources:
        if _is_constant(bit, sources):
            name, number = bit
            name = name.removeprefix("\\")
            yield f"{name}[{number}]" if widths[bit[0]] > 1 else name


def _is_constant(bit: Bit, sources: dict[Bit, Bit | int]) -> bool:
    """Tell whether assignments lead from a bit to a constant."""
    source: Bit | int | None = bit
    for _ in range(len(sources)):
        if not isinstance(source, tuple):
            break
        source = sources.get(source)
    return isinstance(source, int)


def _bits(text: str, widths: dict[str, int]) -> list[Bit | int]:
    """Give the bits of a constant, a part-select or a concatenation, lowest first; none of anything else."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        operands = [_bits(operand, widths) for operand in text[1:-1].split(",")]
        return [bit for bits in reversed(operands) for bit in bits] if all(operands) else []
    match = _PART.fullmatch(text if text[:1] != "\\" or " " in text else f"{text} ")
    if match is None:
        return []
    if match["width"]:
        return [int(match["value"], 16) >> n & 1 for n in range(int(match["width"]))]
    name = match["name"].strip()
    if name not in widths:
        return []
    high = int(match["high"]) if match["high"] else widths[name] - 1
    low = int(match["low"] or match["high"] or 0)
    return [(name, number) for number in range(low, high + 1)]
