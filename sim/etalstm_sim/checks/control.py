"""The sequencer's work on a program: loops, address registers, and refusals of its own."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from etalstm_hw import contract
from etalstm_hw.contract import Engine, Opcode, Status
from etalstm_sim.checks.instruction import Instruction, decoded

_MODULUS = 1 << contract.ADDRESS_BITS


class Refusal(NamedTuple):
    """A refused instruction, which ends a program before its HALT.

    Members
    -------
    status : Status
    engine : Engine, or None for the sequencer
    number : int
        Of the refused instruction in the program.
    before : int
        Instructions that the engine completes before it.
    is_late : bool
        The engine refuses it while other instructions are in flight. Then it may have completed fewer, or have counted
        this one, too.
    """

    status: Status
    engine: Engine | None
    number: int
    before: int = 0
    is_late: bool = False


class Issued(NamedTuple):
    """An instruction that goes to an engine.

    Members
    -------
    number : int
        Of the instruction in the program.
    instruction : Instruction
    engine : Engine
    address : int
        Effective: with its register added.
    """

    number: int
    instruction: Instruction
    engine: Engine
    address: int


class Control:
    """Gives the instructions that go to engines, in order.

    Parameters
    ----------
    words : iterable of int
    most_steps : int
        Executed instructions after which the walk ends, because a loop may have 2^32 turns.
    integers : bool
        The machine's products are integers, else float32: which opcodes there are.

    Members
    -------
    refusal : Refusal or None
        After the walk: what the sequencer refused.
    is_cut : bool
        After the walk: it ended after `most_steps`.
    end : int
        After the walk: number of the instruction that ended it.
    """

    def __init__(self, words: Iterable[int], most_steps: int, *, integers: bool):
        self._program = [decoded(word, integers) for word in words]
        self._most_steps = most_steps
        self._loops: list[list[int]] = []  # first instruction, end, turns that are left
        self._registers = [0] * contract.ADDRESS_REGISTERS
        self.refusal: Refusal | None = None
        self.is_cut, self.end = False, 0

    def __iter__(self) -> Iterator[Issued]:
        program, registers, loops, at = self._program, self._registers, self._loops, 0
        for _ in range(self._most_steps):
            while loops and at == loops[-1][1]:
                at = self._turn(at)
            self.end = at
            if at == len(program):
                self.refusal = Refusal(Status.TRUNCATED, None, at)
                return
            instruction = program[at]
            if instruction.refusal:
                self.refusal = Refusal(instruction.refusal, None, at)
                return
            if instruction.engine is not None:
                address = instruction.fields.get("address", 0)
                if instruction.register:
                    address = (address + registers[instruction.register]) % _MODULUS
                yield Issued(at, instruction, instruction.engine, address)
            elif not self._executes(at, instruction):
                return
            at += 1
        self.is_cut = True

    def _turn(self, at: int) -> int:
        """End a turn of the innermost loop; give the instruction that follows."""
        loop = self._loops[-1]
        loop[2] -= 1
        if loop[2]:
            return loop[0]
        self._loops.pop()
        return at

    def _executes(self, at: int, instruction: Instruction) -> bool:
        """Execute HALT, LOOP or ADVANCE; tell whether the program goes on."""
        if instruction.opcode == Opcode.ADVANCE:
            for register, amount in instruction.advances:
                self._registers[register] = (self._registers[register] + amount) % _MODULUS
            return True
        if instruction.opcode == Opcode.LOOP and self._enters(at, **_of_loop(instruction)):
            return True
        if instruction.opcode == Opcode.LOOP or self._loops:
            self.refusal = Refusal(Status.BAD_FIELD, None, at)
        return False

    def _enters(self, at: int, turns: int, length: int) -> bool:
        """Begin a loop; False if it is malformed."""
        end, limit = at + 1 + length, self._loops[-1][1] if self._loops else len(self._program)
        if not turns or not length or end > limit or len(self._loops) == contract.LOOP_DEPTH:
            return False
        self._loops.append([at + 1, end, turns])
        return True


def _of_loop(instruction: Instruction) -> dict[str, int]:
    return {name: instruction.fields[name] for name in ("turns", "length")}
