"""Adds to a waveform what its instructions say: beside each signal that holds one, its text."""

from collections.abc import Callable
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from etalstm.host.durable import replacing
from etalstm_hw.contract import INSTRUCTION_BITS

_ESCAPED = str.maketrans({"\\": "\\\\", " ": "\\x20"})  # in a string of a .vcd; a blank would end it
_UNKNOWN = "?"  # the word is no instruction


def name_instructions(path: Path, text_of: Callable[[int], str]) -> int:
    """Put a text beside each signal of a ``.vcd`` that is an instruction's word, and count these signals.

    The text beside ``o__payload.word`` is the string ``o__payload.word_text``, which changes with the word.

    Parameters
    ----------
    path : Path
        The waveform, as Verilator writes it. It is replaced once the new one is whole.
    text_of : callable
        Gives the text of an instruction from its word, or raises ``ValueError``.

    Raises
    ------
    OSError
        If the file cannot be read or written; then it is as before.
    """
    with open(path, encoding="ascii") as old, replacing(path) as file:
        new = TextIOWrapper(file, encoding="ascii")
        texts = _copy_declarations(old, new)
        _copy_changes(old, new, texts, text_of)
        new.detach()
    return len(texts)


def _copy_declarations(old: TextIO, new: TextIO) -> dict[str, str]:
    """Copy what stands before the first change, with a string behind each word; give the strings' ids by the words'."""
    lines = []
    for line in old:
        lines.append(line)
        if line.startswith("$enddefinitions"):
            break
    declared = [line.split() for line in lines]
    longest = max((len(parts[3]) for parts in declared if parts[:1] == ["$var"]), default=0)
    texts = {}
    for line, parts in zip(lines, declared, strict=True):
        new.write(line)
        if parts[:1] == ["$var"] and parts[2] == str(INSTRUCTION_BITS) and parts[4].endswith(".word"):
            texts[parts[3]] = parts[3].rjust(longest + 1, "~")
            new.write(f"$var string 1 {texts[parts[3]]} {parts[4]}_text $end\n")
    return texts


def _copy_changes(old: TextIO, new: TextIO, texts: dict[str, str], text_of: Callable[[int], str]) -> None:
    @cache
    def escaped(value: str) -> str:
        try:
            return " ".join(text_of(int(value, 2)).split()).translate(_ESCAPED)
        except ValueError:
            return _UNKNOWN

    for line in old:
        new.write(line)
        if line.startswith("b"):
            value, _, signal = line[1:].rstrip("\n").partition(" ")
            if signal in texts:
                new.write(f"s{escaped(value)} {texts[signal]}\n")
