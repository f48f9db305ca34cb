"""A program's cycles, where what repeats is gone through once.

A program is cut into sections at boundaries: the beginnings and ends of loops' bodies, and the LOADs behind something
else, where the unrolled sections of a program repeat. What the machine does in a section depends only on its state at
the boundary and on the section. So the effect of a section in a state is remembered. Where the same section comes in
the same state again, the effect is applied: cycles and counters are added, and the state behind is the one found
before. This is exact: whatever is left out would have taken these cycles (memoized simulation, as in Schnarr and Larus,
"Fast Out-Of-Order Processor Simulation Using Memoization", ASPLOS 1998).

How far the program was fetched ahead belongs to the state only if the sequencer runs out of instructions: else it has
no influence. Only the beats that are fetched in vain, where a loop goes back, are counted as they came when the section
was gone through.
"""

from typing import NamedTuple

import numpy as np

from etalstm.model.fingerprint import Fingerprints, State
from etalstm.model.machine.latencies import PROGRAM_RING
from etalstm.model.machine.machine import Machine
from etalstm.model.machine.state import Sizes
from etalstm.model.machine.table import Tables
from etalstm.model.run import AT_BOUNDARY, STUCK, run
from etalstm_hw.contract import Counter, Opcode

_LEAST = 16  # instructions of a section that ends without a loop
_FETCHED = 2 * PROGRAM_RING  # instructions that are fetched ahead, at most
_BACK, _EXIT = -1, -2


def boundaries_of(table: np.ndarray) -> np.ndarray:
    """Tell before which instructions of a program a section begins, bool; the last entry is behind the program."""
    opcodes = table["opcode"]
    loops = np.flatnonzero(opcodes == Opcode.LOOP)
    of_loops = {*(loops + 1).tolist(), *(loops + 1 + table["length"][loops]).tolist()}
    loads = (np.flatnonzero((opcodes[1:] == Opcode.LOAD) & (opcodes[:-1] != Opcode.LOAD)) + 1).tolist()
    found, since = np.zeros(len(table) + 1, np.bool_), 0
    for boundary in sorted(of_loops.union(loads)):
        if boundary in of_loops or boundary - since >= _LEAST:
            found[boundary], since = True, boundary
    return found


class Trace:
    """Where the execution of a program stands: always at a boundary, or at its first instruction.

    `number` is that of the next instruction. `loops` are lists [first instruction, end, turns to go], the innermost
    last.
    """

    def __init__(self, table: np.ndarray, boundaries: np.ndarray):
        self.number = 0
        self.loops: list[list[int]] = []
        self._table, self._texts = table, table["text"].tolist()
        starts = np.flatnonzero(boundaries).tolist()
        firsts = [0, *starts]
        self._ends = dict(zip(firsts, [*starts, len(table)], strict=True))
        self._ends[0] = next((n for n in starts if n), len(table))
        self._sections: dict[int, tuple] = {}

    @property
    def section(self) -> tuple:
        """What is executed next: equal sections have equal instructions, and as many behind them as may be fetched."""
        if self._ends_turn():
            first, end, turns = self.loops[-1]
            return (_BACK, end - first, self._behind(end)) if turns > 1 else (_EXIT, self._behind(end))
        if self.number not in self._sections:
            end = self._ends[self.number]
            self._sections[self.number] = (*self._texts[self.number : end], self._behind(end))
        return self._sections[self.number]

    def _behind(self, number: int) -> int:
        return min(len(self._texts) - number, _FETCHED)

    def advance(self) -> None:
        """Go to the next boundary."""
        if self._ends_turn():
            loop = self.loops[-1]
            loop[2] -= 1
            if loop[2]:
                self.number = loop[0]
            else:
                self.loops.pop()
            return
        self.number = self._ends[self.number]
        last = self._table[self.number - 1]
        if last["opcode"] == Opcode.LOOP:
            self.loops.append([self.number, self.number + int(last["length"]), int(last["turns"])])

    def _ends_turn(self) -> bool:
        return bool(self.loops) and self.number == self.loops[-1][1]


class _Effect(NamedTuple):
    """What a section of a program did: the state behind it, and what was counted."""

    state: State
    cycles: int
    counted: np.ndarray


class _Saved(NamedTuple):
    """A machine as it was in a state that it may have to go on from, and where its program stood."""

    words: np.ndarray
    instruction: int  # the next one


class Repeats:
    """Runs a program and leaves out what was gone through before; nothing in its tables was counted from data.

    `machine` is as it was made. ``walked`` counts the cycles that were gone through.
    """

    def __init__(self, machine: Machine, tables: Tables, sizes: Sizes):
        boundaries = boundaries_of(tables.table)
        self._machine, self._sizes = machine, sizes
        self._tables = tables._replace(boundaries=boundaries)
        self._trace = Trace(tables.table, boundaries)
        self._fingerprints = Fingerprints(machine, sizes)
        self._saved: dict[bytes, _Saved] = {}
        self._effects: dict[tuple, _Effect] = {}
        self._counted = np.zeros_like(machine.counted)
        self._cycles = self.walked = 0

    def run(self) -> bool:
        """Run the program to its end; tell whether it came there. The machine's counters are the program's then."""
        state, status, left_out = self._save(), AT_BOUNDARY, False
        while status == AT_BOUNDARY:
            known = self._known(state)
            if known is not None:
                self._cycles += known.cycles
                self._counted += known.counted
                self._trace.advance()
                state, left_out = known.state, True
                continue
            if left_out:
                self._restore(state)
            status, state = self._walk(state)
            left_out = False
        self._machine.counted[:] = self._counted
        self._machine.counted[Counter.CYCLES] = self._cycles
        return status != STUCK

    def _known(self, state: State) -> _Effect | None:
        """Give what the next section does in a state, if it was gone through."""
        section = self._trace.section
        return self._effects.get((state.supplied, section)) or self._effects.get((state.exact, section))

    def _walk(self, state: State) -> tuple[int, State]:
        """Go through the next section of the program; give how it ended, and the state behind it."""
        machine, section = self._machine, self._trace.section
        begun, counted = int(machine.sequencer["cycle"][0]), self._count_taken()
        status = run(machine, self._tables, self._sizes)
        cycles = int(machine.sequencer["cycle"][0]) - begun
        counted = (self._count_taken() if status == AT_BOUNDARY else machine.counted) - counted
        self._cycles += cycles
        self.walked += cycles
        self._counted += counted
        if status == AT_BOUNDARY:
            self._trace.advance()
            behind = self._save()
            starved = machine.sequencer["starved"][0]
            self._effects[state.exact if starved else state.supplied, section] = _Effect(behind, cycles, counted)
            state = behind
        return status, state

    def _count_taken(self) -> np.ndarray:
        """Give the machine's counters, less the beats of the program whose instruction has not been taken yet."""
        counted, engine = self._machine.counted.copy(), self._machine.sequencer[0]
        counted[Counter.PROGRAM_BEATS] -= engine["ready"] * self._sizes.instruction_beats + engine["beats"]
        return counted

    def _save(self) -> State:
        """Give the fingerprint of the machine's state; a machine that was not in it before is saved."""
        state = self._fingerprints.take(self._tables.table)
        if state.exact not in self._saved:
            self._saved[state.exact] = _Saved(self._machine.words.copy(), self._trace.number)
        return state

    def _restore(self, state: State) -> None:
        """Put the machine into a state, at the instruction that comes next."""
        saved, machine = self._saved[state.exact], self._machine
        machine.words[:] = saved.words
        engine, loops = machine.sequencer[0], self._trace.loops
        engine["number"] += self._trace.number - saved.instruction
        engine["following"] += self._trace.number - saved.instruction
        engine["depth"] = len(loops)
        for level, loop in enumerate(loops):
            machine.stack[level] = tuple(loop)
