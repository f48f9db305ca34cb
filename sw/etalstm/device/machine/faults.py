"""Errors of a machine that runs programs, one class for each reason."""

from collections.abc import Callable
from typing import ClassVar

from etalstm.errors import DeviceError
from etalstm.plan.program.walk import line_of, locate
from etalstm_hw.contract import OPCODE_BITS, Engine, Status

_CHUNK = 4096  # instructions read from the machine at a time


class IncompatibleError(DeviceError):
    """What answers is not the machine that the configuration describes."""


class DeviceTimeoutError(DeviceError):
    """A program took longer than the host was willing to wait; it was stopped."""


class DamagedRegisterError(DeviceError):
    """A register of the machine has changed while a program ran."""


class LostWordsError(DeviceError):
    """The memory has found words with more wrong bits than it can correct."""


class ProgramError(DeviceError):
    """The machine stopped a program; it takes the next one.

    `engine` is the name of the engine that met the error, or "SEQUENCER". `instruction` is the number of instructions
    that the engine had completed, each turn of a loop counted; for the sequencer, where the refused one is in the
    program.
    """

    of_status: ClassVar[dict[Status, type["ProgramError"]]] = {}

    def __init_subclass__(cls, *, status: Status):
        ProgramError.of_status[status] = cls

    def __init__(self, message: str, status: Status, engine: str, instruction: int):
        super().__init__(message)
        self.status, self.engine, self.instruction = status, engine, instruction


class BadOpcodeError(ProgramError, status=Status.BAD_OPCODE):
    """An instruction has an unknown opcode."""


class BadFieldError(ProgramError, status=Status.BAD_FIELD):
    """A field of an instruction has a value that it cannot have, or contradicts another, or its CAST's."""


class BadAddressError(ProgramError, status=Status.BAD_ADDRESS):
    """An instruction reaches outside its channel's window."""


class ReadError(ProgramError, status=Status.READ_ERROR):
    """The memory answered a read with an error."""


class WriteError(ProgramError, status=Status.WRITE_ERROR):
    """The memory answered a write with an error."""


class TruncatedError(ProgramError, status=Status.TRUNCATED):
    """The program has no HALT."""


class StuckError(ProgramError, status=Status.STUCK):
    """Nothing moved for as many cycles as the watchdog allows."""


class AbortedError(ProgramError, status=Status.ABORTED):
    """The host stopped the program."""


class LogFullError(ProgramError, status=Status.OVERFLOW):
    """A compressed stream outgrew its log."""


class BadStreamError(ProgramError, status=Status.BAD_STREAM):
    """An index beat or a compressed stream is damaged."""


class DamagedProgramError(ProgramError, status=Status.BAD_CHECK):
    """An instruction is not the one that was written: its check does not fit."""


def program_error(status: int, engine: int, instruction: int, words: Callable[[int, int], list[int]], length: int):
    """Make the error of a status.

    `status`, `engine` and `instruction` are the registers STATUS, ERROR_ENGINE and ERROR_INSTRUCTION. `words` gives so
    many of the program's instructions from a number on; it has `length`.
    """
    if status not in ProgramError.of_status:
        return DeviceError(f"the machine stopped with status {status}, which has no meaning")
    status = Status(status)
    kind, name = ProgramError.of_status[status], Engine(engine).name if engine in set(Engine) else "SEQUENCER"
    reason = (kind.__doc__ or kind.__name__).rstrip(".").splitlines()[0]
    if status in (Status.ABORTED, Status.TRUNCATED):
        return kind(f"{status.name}: {reason}", status, name, instruction)
    where = _position(engine, instruction, words, length)
    return kind(f"{status.name}: {reason}; {name}, instruction {where}", status, name, instruction)


def _position(engine: int, count: int, words, length: int) -> str:
    """Name the instruction that an engine was at: its number in the program, its text, the turns of loops around it."""
    program = [word for first in range(0, length, _CHUNK) for word in words(first, min(_CHUNK, length - first))]
    found: tuple[int, tuple[int, ...]] | None
    if engine not in set(Engine):
        found = (count, ()) if count < length else None
    else:
        try:
            found = locate(program, Engine(engine), count)
        except ValueError as error:  # of a loop that the sequencer had not come to
            return f"{count} of its own; which that is cannot be told, for {error}"
    if found is None:
        return f"behind its last, number {count}" if count else "before its first"
    number, turns = found
    within = f" (turn {', '.join(map(str, turns))})" if turns else ""
    return f"{number}{within}: {describe(program[number])}"


def describe(word: int) -> str:
    """Write an instruction as text; one that is not valid as a number."""
    try:
        return line_of(word)
    except ValueError:
        return f"opcode {word & ((1 << OPCODE_BITS) - 1)} in {word:#066x}"
