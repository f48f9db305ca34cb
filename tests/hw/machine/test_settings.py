"""Registers whose paths have more than a cycle are those that the host sets before a program, and no others."""

import re

from etalstm_hw import generate
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, encode, kept_words
from etalstm_hw.contract.distance import STAGES
from etalstm_hw.machine.settings import MARK, SETTLING_CYCLES
from tests.hw.program.machine import Run

MARKED = re.compile(r"^((?:  \(\*.*\*\)\n)*)(?:  output .*;\n)?  reg (?:\[\d+:0\] )?(\S+) *(?:= .*)?;", re.MULTILINE)


def marked(text):
    """The marked registers of each module of a Verilog text."""
    found = {}
    for name, body in re.findall(r"^module (\S+?)(?:\$\d+)? ?\((.*?)^endmodule", text, re.MULTILINE | re.DOTALL):
        registers = {register for attributes, register in MARKED.findall(body) if MARK in attributes}
        if registers:
            found.setdefault(name.removeprefix("\\"), set()).update(registers)
    return found


def test_settings_and_nothing_else_are_marked():
    config, found = preset("test"), marked(generate.verilog(preset("test")))
    assert set(found) == {"top.registers", "top.groups", "top.branch0", "top.branch1"}
    assert found["top.groups"] == {"branches", "broadcasters"}
    assert found["top.branch0"] == found["top.branch1"] == {"setting0_0"}
    assert len(found["top.registers"]) == len(kept_words()) + 1  # and whether the windows are outside of the memory
    assert config.channels == 2


def test_settings_have_arrived_when_the_first_instruction_can_use_them():
    """Windows pass two more registers and the tree on their way; a START comes two cycles after the last setting."""
    halt = Run([encode(Opcode.HALT), encode(Opcode.HALT)], latency=1)
    first = Run([encode(Opcode.LOAD, outer=1, inner=1), encode(Opcode.HALT)], latency=1).taken[0][0]
    assert halt.taken == []
    longest = SETTLING_CYCLES + 2 + SETTLING_CYCLES + (STAGES - 1) + SETTLING_CYCLES
    assert SETTLING_CYCLES + first + STAGES >= longest, f"the first instruction leaves after {first} cycles"
