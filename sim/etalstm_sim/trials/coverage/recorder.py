"""A simulated machine that records which instructions it has executed, and in which situation."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice

from etalstm.errors import DeviceError
from etalstm.plan.program.walk import locate, walk
from etalstm_hw import contract
from etalstm_hw.config import PRESETS, Config
from etalstm_hw.contract import Engine, Opcode, Register, Status, is_known
from etalstm_hw.contract.image import INSTRUCTION_BYTES, words_of
from etalstm_sim.compiled.library import Library
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.coverage.bins import (
    ANY,
    FIXED_SHARES,
    FLOATS,
    NO_OPCODE,
    SENDS_ZEROS,
    SKIPS_ZEROS,
    STALLS,
    TWO_GROUPS,
    Bin,
)
from etalstm_sim.trials.coverage.variants import seen, variants_of

_OPCODE_MASK = (1 << contract.OPCODE_BITS) - 1
BLAMED = frozenset(
    {
        Status.BAD_OPCODE,
        Status.BAD_FIELD,
        Status.BAD_ADDRESS,
        Status.READ_ERROR,
        Status.WRITE_ERROR,
        Status.OVERFLOW,
        Status.BAD_STREAM,
        Status.BAD_CHECK,
    }
)
"""With these statuses the machine names an instruction, which alone counts; with others all dispatched ones count."""


class RecordingTransport(SimTransport):
    """A simulated machine that counts, in bins, the instructions of each program that has ended.

    A program is read from the machine's memory when it is started. Its end is noticed when its status is read. Then the
    simulator tells how many instructions the sequencer has dispatched. The settings are those of the registers.

    Parameters
    ----------
    preset : str
        Name of the machine's configuration.
    library : Library
        A simulator of it that was built for coverage.
    hits : Counter of Bin
        The counts are added here.
    stall, reorder, seed, latency, memory_bytes
        As for :class:`SimTransport`.

    Members
    -------
    recording : bool
        False: programs are not counted.
    programs : int
        That have been counted.
    """

    def __init__(self, preset: str, library: Library, hits: Counter[Bin], **options):
        self._preset, self._config, self._hits = preset, PRESETS[preset], hits
        self._stall = STALLS[2 if options.get("reorder") else 1 if options.get("stall") else 0]
        self._registers: dict[int, int] = {}
        self._words: list[int] | None = None
        self.recording, self.programs = True, 0
        super().__init__(self._config, library=library, **options)

    def write_register(self, register: int, value: int) -> None:
        """Write a register; one that starts a program begins a record."""
        self._registers[register] = value
        if self.recording and register == Register.CONTROL and value & contract.CONTROL_START:
            self._words = self._program()
            self.simulation.observed()  # forget what was dispatched before this program
        super().write_register(register, value)

    def read_register(self, register: int) -> int:
        """Read a register; a status that tells a program's end completes its record."""
        value = super().read_register(register)
        if register == Register.STATUS and value != Status.RUNNING and self._words is not None:
            words, self._words = self._words, None
            self._record(words, Status(value))
        return value

    def reset(self) -> None:
        """Reset the machine; a program that runs then is not recorded."""
        self._words = None
        super().reset()

    @property
    def architecture(self) -> str:
        """One of :attr:`etalstm_sim.trials.coverage.bins.Kind.architectures`, by the preset and the registers."""
        if self._preset != FLOATS.preset:
            return f"preset {self._preset}"
        if self._registers.get(Register.GROUPS, 0) > 1:
            return TWO_GROUPS
        if self._registers.get(Register.SHARES):
            return FIXED_SHARES
        return SENDS_ZEROS if self._registers.get(Register.SEND_ZEROS) else SKIPS_ZEROS

    def _program(self) -> list[int]:
        low, high, length = (
            self._registers[name] for name in (Register.PROGRAM_LOW, Register.PROGRAM_HIGH, Register.PROGRAM_LENGTH)
        )
        address = high << 32 | low
        return words_of(self.simulation.memory[address : address + length * INSTRUCTION_BYTES].tobytes())

    def _record(self, words: list[int], status: Status) -> None:
        self.programs += 1
        dispatched, halted = self.simulation.observed()
        if status in BLAMED:
            registers = Register.ERROR_ENGINE, Register.ERROR_INSTRUCTION
            engine, number = (super(RecordingTransport, self).read_register(register) for register in registers)
            self._count(blamed(words, status, engine, number, self._config), ANY, status)
            return
        for opcode, variants in executed(words, dispatched, halted, self._config):
            for variant in {ANY} | (variants if status == Status.DONE else set()):
                self._count(opcode.name, variant, status)

    def _count(self, opcode: str, variant: str, status: Status) -> None:
        self._hits[Bin(opcode, variant, status.name, self._stall, self.architecture)] += 1


def blamed(words: Sequence[int], status: Status, engine: int, number: int, config: Config) -> str:
    """Name the opcode of the instruction that ended a program.

    Parameters
    ----------
    words : sequence of int
    status : Status
    engine, number : int
        Registers ERROR_ENGINE and ERROR_INSTRUCTION.
    config : Config
        Of the machine.

    Raises
    ------
    DeviceError
        If the program has no such instruction.
    """
    of_sequencer = engine not in set(Engine)
    found = (number, ()) if of_sequencer else locate(words, Engine(engine), number)
    if found is None or found[0] >= len(words):
        name = "the sequencer" if of_sequencer else Engine(engine).name
        raise DeviceError(
            f"the program ended with {status.name}; the machine names instruction {number} of {name}, counted from 0, "
            "and the program has none such"
        )
    opcode = words[found[0]] & _OPCODE_MASK
    unread = of_sequencer and status == Status.READ_ERROR and opcode != Opcode.LOAD_ROWS
    return NO_OPCODE if unread or not _is_known(words[found[0]], config) else Opcode(opcode).name


def _is_known(word: int, config: Config) -> bool:
    return word & _OPCODE_MASK in set(Opcode) and is_known(Opcode(word & _OPCODE_MASK), config.integers)


def executed(words: Sequence[int], dispatched: int, halted: bool, config: Config) -> Iterator[tuple[Opcode, set[str]]]:
    """Give the instructions that a program has reached, each once, with its variants.

    Parameters
    ----------
    words : sequence of int
    dispatched : int
        Instructions that went to engines, counted in each turn of a loop.
    halted : bool
        The program came to its HALT.
    config : Config
        Of the machine.
    """
    known = [_is_known(word, config) for word in words]
    words = words[: known.index(False)] if False in known else words
    reached = {step.number for step in islice(walk(words), dispatched)}
    opcodes = [Opcode(word & _OPCODE_MASK) for word in words]
    end = opcodes.index(Opcode.HALT) + 1 if halted else max(reached, default=-1)
    reached |= {number for number in range(end) if opcodes[number] in (Opcode.LOOP, Opcode.ADVANCE, Opcode.HALT)}
    depths, sent = list(_depths(words)), deque[dict[str, int]]()
    for number in sorted(reached):
        opcode, fields = contract.decode(words[number])
        if opcode == Opcode.SEND:
            sent.append(fields)
        its_own = sent.popleft() if opcode == Opcode.PRODUCT and sent else None
        of_instruction = seen(opcode, fields, depths[number], its_own, config)
        variants = variants_of(opcode, integers=config.integers)
        yield opcode, {name for name, holds in variants.items() if holds(of_instruction)}


def _depths(words: Sequence[int]) -> Iterator[int]:
    """Count the loops around each instruction."""
    ends: list[int] = []
    for number, word in enumerate(words):
        while ends and ends[-1] <= number:
            ends.pop()
        yield len(ends)
        opcode, fields = contract.decode(word)
        if opcode == Opcode.LOOP:
            ends.append(number + 1 + fields["length"])
