"""Errors of a machine that runs programs, one class for each reason."""

from collections.abc import Callable

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

    Members
    -------
    status : Status
    engine : str
        Name of the engine that met the error, or "SEQUENCER".
    instruction : int
        Number of instructions that the engine had completed, each turn of a loop counted. For the sequencer: number of
        the refused instruction in the program.
    """

    def __init__(self, message: str, status: Status, engine: str, instruction: int):
        super().__init__(message)
        self.status, self.engine, self.instruction = status, engine, instruction


class BadOpcodeError(ProgramError):
    """An instruction has an unknown opcode."""


class BadFieldError(ProgramError):
    """A field of an instruction has a value that it cannot have, or contradicts another, or its CAST's."""


class BadAddressError(ProgramError):
    """An instruction reaches outside its channel's window."""


class ReadError(ProgramError):
    """The memory answered a read with an error."""


class WriteError(ProgramError):
    """The memory answered a write with an error."""


class TruncatedError(ProgramError):
    """The program has no HALT."""


class StuckError(ProgramError):
    """Nothing moved for as many cycles as the watchdog allows."""


class AbortedError(ProgramError):
    """The host stopped the program."""


class LogFullError(ProgramError):
    """A compressed stream outgrew its log."""


class BadStreamError(ProgramError):
    """An index beat or a compressed stream is damaged."""


class DamagedProgramError(ProgramError):
    """An instruction is not the one that was written: its check does not fit."""


_ERRORS = {
    Status.BAD_OPCODE: BadOpcodeError,
    Status.BAD_FIELD: BadFieldError,
    Status.BAD_ADDRESS: BadAddressError,
    Status.READ_ERROR: ReadError,
    Status.WRITE_ERROR: WriteError,
    Status.TRUNCATED: TruncatedError,
    Status.STUCK: StuckError,
    Status.ABORTED: AbortedError,
    Status.OVERFLOW: LogFullError,
    Status.BAD_STREAM: BadStreamError,
    Status.BAD_CHECK: DamagedProgramError,
}


def program_error(status: int, engine: int, instruction: int, words: Callable[[int, int], list[int]], length: int):
    """Make the error of a status.

    Parameters
    ----------
    status, engine, instruction : int
        Registers STATUS, ERROR_ENGINE and ERROR_INSTRUCTION.
    words : function
        Gives so many of the program's instructions from a number on.
    length : int
        Instructions of the program.
    """
    if status not in _ERRORS:
        return DeviceError(f"the machine stopped with status {status}, which has no meaning")
    status = Status(status)
    kind, name = _ERRORS[status], Engine(engine).name if engine in set(Engine) else "SEQUENCER"
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
