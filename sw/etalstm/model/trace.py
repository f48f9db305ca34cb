"""A program as the parts that it is executed in: what lies between two boundaries, and the ends of loops' turns.

Boundaries are the beginnings and ends of loops' bodies, and the LOADs behind something else: there the unrolled parts
of a program repeat.
"""

import numpy as np

from etalstm.model.machine.latencies import PROGRAM_RING
from etalstm_hw.contract import Opcode

_LEAST = 16  # instructions of a part that ends without a loop
_FETCHED = 2 * PROGRAM_RING  # instructions that are fetched ahead, at most
_BACK, _EXIT = -1, -2


def boundaries_of(table: np.ndarray) -> np.ndarray:
    """Tell before which instructions of a program a part begins; the last entry is behind the program.

    Returns
    -------
    array of bool, one more than `table` has entries
    """
    opcodes = table["opcode"]
    loops = np.flatnonzero(opcodes == Opcode.LOOP)
    of_loops = {*(loops + 1).tolist(), *(loops + 1 + table["length"][loops]).tolist()}
    loads = (np.flatnonzero((opcodes[1:] == Opcode.LOAD) & (opcodes[:-1] != Opcode.LOAD)) + 1).tolist()
    found, since = np.zeros(len(table) + 1, np.bool_), 0
    for place in sorted(of_loops.union(loads)):
        if place in of_loops or place - since >= _LEAST:
            found[place], since = True, place
    return found


class Trace:
    """Where the execution of a program stands: always at a boundary, or at its first instruction.

    Parameters
    ----------
    table : array of INSTRUCTION
    boundaries : array of bool
        As :func:`boundaries_of` gives them.

    Members
    -------
    index : int
        The next instruction.
    loops : list of [first instruction, end, turns to go], the innermost last
    """

    def __init__(self, table: np.ndarray, boundaries: np.ndarray):
        self.index = 0
        self.loops: list[list[int]] = []
        self._table, self._texts = table, table["text"].tolist()
        places = np.flatnonzero(boundaries).tolist()
        firsts = [0, *places]
        self._ends = dict(zip(firsts, [*places, len(table)], strict=True))
        self._ends[0] = next((place for place in places if place), len(table))
        self._parts: dict[int, tuple] = {}

    @property
    def part(self) -> tuple:
        """What is executed next: equal parts have equal instructions, and as many behind them as may be fetched."""
        if self._ends_turn():
            first, end, turns = self.loops[-1]
            return (_BACK, end - first, self._behind(end)) if turns > 1 else (_EXIT, self._behind(end))
        if self.index not in self._parts:
            end = self._ends[self.index]
            self._parts[self.index] = (*self._texts[self.index : end], self._behind(end))
        return self._parts[self.index]

    def _behind(self, index: int) -> int:
        return min(len(self._texts) - index, _FETCHED)

    def advance(self) -> None:
        """Go to the next boundary."""
        if self._ends_turn():
            loop = self.loops[-1]
            loop[2] -= 1
            if loop[2]:
                self.index = loop[0]
            else:
                self.loops.pop()
            return
        self.index = self._ends[self.index]
        last = self._table[self.index - 1]
        if last["opcode"] == Opcode.LOOP:
            self.loops.append([self.index, self.index + int(last["length"]), int(last["turns"])])

    def _ends_turn(self) -> bool:
        return bool(self.loops) and self.index == self.loops[-1][1]
