"""A program as the parts that it is executed in: what lies between two boundaries, and the ends of loops' turns.

Boundaries are the beginnings and ends of loops' bodies, and the LOADs behind something else: there the unrolled parts
of a program repeat.
"""

from math import prod

import numpy as np

from etalstm.hw.contract import ADDRESS_REGISTERS, ENGINE_OF, Opcode
from etalstm.model.latencies import PROGRAM_RING

_LEAST = 16  # instructions of a part that ends without a loop
_FETCHED = 2 * PROGRAM_RING  # instructions that are fetched ahead, at most
_BACK, _EXIT = -1, -2
_QUEUED = [int(code) for code in ENGINE_OF]


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
    queued : int
        Instructions that an engine may have waiting and under way, at most.

    Members
    -------
    index : int
        The next instruction.
    loops : list of [first instruction, end, turns to go, all turns], the innermost last
    section : int
        Number of the section at hand: what is executed from the end of an outermost loop to that of the next.
    """

    def __init__(self, table: np.ndarray, boundaries: np.ndarray, queued: int):
        self.index, self.loops = 0, []
        self._table, self._texts = table, table["text"].tolist()
        places = np.flatnonzero(boundaries).tolist()
        firsts = [0, *places]
        self._ends = dict(zip(firsts, [*places, len(table)], strict=True))
        self._ends[0] = next((place for place in places if place), len(table))
        self._parts: dict[int, tuple] = {}
        self._sections, self.section = _sections(table), 0
        self._numbers: dict[tuple, int] = {}
        self._filled: dict[int, int] = {}
        self._queued = queued

    @property
    def part(self) -> tuple:
        """What is executed next: equal parts have equal instructions, and as many behind them as may be fetched."""
        if self._ends_turn():
            first, end, turns, _ = self.loops[-1]
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
                self.section += not self.loops
            return
        self.index = self._ends[self.index]
        last = self._table[self.index - 1]
        if last["opcode"] == Opcode.LOOP:
            self.loops.append([self.index, self.index + int(last["length"]), int(last["turns"]), int(last["turns"])])

    @property
    def begins_section(self) -> bool:
        """The section at hand begins here."""
        return not self.loops and self.index == self._sections[self.section][0]

    @property
    def begins_turn(self) -> bool:
        """A turn of an outermost loop begins here."""
        return len(self.loops) == 1 and self.index == self.loops[0][0]

    def section_text(self, number: int) -> int:
        """Give a number that sections of equal instructions share; -1 if there is none or it may not be left out."""
        if number < 0 or self._sections[number][1] + _FETCHED > len(self._texts):
            return -1
        first, end = self._sections[number]
        loops = self._table["turns"][first:end]
        return self._number((*self._texts[first:end], *loops[loops > 0].tolist()))

    def turn_text(self) -> int:
        """Give the first instruction of the loop at hand; -1 if its turn may not be left out.

        That holds for the last turn, and as long as instructions from before the loop may wait in the queues: until
        then a turn takes what those take.
        """
        first, end, turns, all_turns = self.loops[0]
        if turns == 1 or end + _FETCHED > len(self._texts) or all_turns - turns < self._turns_until_filled(first, end):
            return -1
        return first

    def _turns_until_filled(self, first: int, end: int) -> int:
        """Count the turns of a loop after which every queue that it uses holds nothing else."""
        if first not in self._filled:
            rows = self._table[first:end]
            rows = rows[np.isin(rows["opcode"], _QUEUED)]
            counts = np.bincount(rows["engine"], minlength=1)
            self._filled[first] = max((-(-self._queued // int(count)) for count in counts[counts > 0]), default=0)
        return self._filled[first]

    def leave_out(self) -> tuple[int, np.ndarray]:
        """Go to the end of the section that begins here, or to the last turn of the loop at hand.

        Returns
        -------
        times : int
            How often what begins here is left out.
        advances : array, int64
            What is added to every address register on the way.
        """
        if self.loops:
            first, end, turns, _ = self.loops[0]
            self.loops[0][2] = 1
            return turns - 1, (turns - 1) * self._advances(first, end)
        first, self.index = self._sections[self.section]
        self.section += 1
        return 1, self._advances(first, self.index)

    def _advances(self, first: int, end: int) -> np.ndarray:
        """Add up what some instructions add to the address registers, as often as their loops execute them."""
        total, opcodes = np.zeros(ADDRESS_REGISTERS, np.int64), self._table["opcode"][first:end]
        loops = [first + int(place) for place in np.flatnonzero(opcodes == Opcode.LOOP)]
        for place in first + np.flatnonzero(opcodes == Opcode.ADVANCE):
            row = self._table[place]
            times = prod(int(self._table["turns"][loop]) for loop in loops if loop < place <= loop + self._length(loop))
            np.add.at(total, row["registers"], row["amounts"] * times)
        total[0] = 0  # which is no register
        return total

    def _length(self, loop: int) -> int:
        return int(self._table["length"][loop])

    def _number(self, text: tuple) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def _ends_turn(self) -> bool:
        return bool(self.loops) and self.index == self.loops[-1][1]


def _sections(table: np.ndarray) -> list[tuple[int, int]]:
    """Give where each section of a program begins and ends; the last has no loop."""
    sections, first, index = [], 0, 0
    for loop in np.flatnonzero(table["opcode"] == Opcode.LOOP).tolist():
        if loop >= index:  # no loop inside the one before
            index = loop + 1 + int(table["length"][loop])
            sections.append((first, index))
            first = index
    return [*sections, (first, len(table))]
