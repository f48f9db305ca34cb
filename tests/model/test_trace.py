"""Programs in parts."""

import numpy as np

from etalstm.model.machine.table import INSTRUCTION
from etalstm.model.repeats import Trace, boundaries_of
from etalstm_hw.contract import Opcode


def program(*instructions):
    """Make a table of opcodes, or of (length, turns) of loops; what follows the opcode is its text."""
    table = np.zeros(len(instructions), INSTRUCTION)
    for row, instruction in zip(table, instructions, strict=True):
        if isinstance(instruction, tuple):
            row["opcode"], (row["length"], row["turns"]) = Opcode.LOOP, instruction
        else:
            row["opcode"] = row["text"] = instruction
    return table


def executed(table):
    """Give the first instruction of every part that is executed, and the part."""
    trace, found = Trace(table, boundaries_of(table)), []
    while trace.number < len(table):
        found.append((trace.number, trace.section))
        trace.advance()
    return found


NESTED = program(Opcode.MAC, (4, 2), Opcode.CAST, (1, 3), Opcode.MAC, Opcode.CAST, Opcode.HALT)


def test_loops_are_gone_through_turn_by_turn():
    indices = [index for index, _ in executed(NESTED)]
    inner = [4, 5, 4, 5, 4, 5]
    assert indices == [0, *(2 * [2, *inner, 5, 6]), 6]


def test_the_end_of_a_turn_differs_from_the_end_of_the_loop():
    ends = [part for index, part in executed(NESTED) if index == 5]
    assert len(set(ends)) == 3  # back, exit, and the CAST behind


def test_equal_instructions_are_equal_parts_except_near_the_end():
    table = program(*(10 * [Opcode.LOAD, *15 * [Opcode.VECTOR]]), *200 * [Opcode.VECTOR], Opcode.HALT)
    parts = [part for _, part in executed(table)]
    assert len(parts) == 10
    assert len(set(parts[:9])) == 1
    near = program(*(10 * [Opcode.LOAD, *15 * [Opcode.VECTOR]]), Opcode.HALT)
    assert len({part for _, part in executed(near)}) > 2
