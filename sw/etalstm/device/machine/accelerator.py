"""Drives the machine: checks that it is the expected one, gives it programs, tells how they ended."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from etalstm.device.machine.faults import (
    DamagedRegisterError,
    DeviceTimeoutError,
    IncompatibleError,
    LostWordsError,
    StuckError,
    program_error,
)
from etalstm.device.transport import Transport
from etalstm.errors import BusyError, DeviceError
from etalstm.formats.counters import named_counters
from etalstm.network.architecture import SWING, Architecture
from etalstm_hw import contract
from etalstm_hw.config import PRESETS, Config
from etalstm_hw.contract import PAGE_BYTES, Counter, Register, Status
from etalstm_hw.contract.image import INSTRUCTION_BYTES, words_of

WATCHDOG_CYCLES = 1_000_000  # far above what a memory may take to answer
_DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class LoadedProgram:
    """A program in the machine's memory: the address of its first byte, and its length in instructions."""

    address: int
    instructions: int


class Accelerator:
    """A machine behind a transport; :class:`IncompatibleError` if it is not the one of `config`.

    `watchdog_cycles` are the cycles without progress until a program counts as stuck; 0: never.
    """

    def __init__(self, transport: Transport, config: Config):
        self.transport, self.config = transport, config
        self.watchdog_cycles = WATCHDOG_CYCLES
        self._windows = (0, 0, 0)  # base, stride, size
        self._parameters = np.zeros(contract.PARAMETERS, np.float32)
        self._architecture, self._groups = SWING, 1
        self._written: dict[int, int] = {}  # registers, as the last start left them
        self._check_identity()

    def load(self, program: bytes, address: int) -> LoadedProgram:
        """Copy a program into memory.

        ``ValueError`` if it is empty, no whole number of instructions, not at a multiple of 4096, or outside the
        memory.
        """
        if not program or len(program) % INSTRUCTION_BYTES:
            raise ValueError(f"a program must be some times {INSTRUCTION_BYTES} bytes, got {len(program)}")
        if address % PAGE_BYTES:
            raise ValueError(f"a program's address must be a multiple of {PAGE_BYTES}, got {address:#x}")
        self.transport.write_memory(address, program)
        return LoadedProgram(address, len(program) // INSTRUCTION_BYTES)

    def set_windows(self, base: int, stride: int, size: int | None = None) -> None:
        """Put the channels' windows, each of `size` bytes, at distances of `stride`, the first at `base`.

        Without `size` they lie one right after the other. ``ValueError`` if one is not a multiple of 4096, or the
        windows overlap or are not all in memory.
        """
        size = stride if size is None else size
        if any(number % PAGE_BYTES for number in (base, stride, size)) or base < 0 or not 0 < size <= stride:
            raise ValueError(
                f"windows must be multiples of {PAGE_BYTES} and apart, got base {base:#x}, stride {stride:#x}, "
                f"size {size:#x}"
            )
        end = base + stride * (self.config.channels - 1) + size
        if end > self.transport.memory_bytes:
            raise ValueError(
                f"{self.config.channels} windows of {size} bytes at {base:#x} end at {end:#x}, "
                f"beyond the memory of {self.transport.memory_bytes} bytes"
            )
        self._windows = (base, stride, size)

    def set_architecture(self, architecture: Architecture) -> None:
        """Choose how the programs run that start from now on."""
        self._architecture = architecture

    def set_groups(self, count: int) -> None:
        """Divide the channels into so many equal groups, for the programs that start from now on.

        ``ValueError`` if the machine has not as many broadcasters, or the groups would not be equal.
        """
        if count not in self.config.group_counts:
            counts = ", ".join(map(str, self.config.group_counts))
            raise ValueError(f"groups must be one of {counts}, got {count}")
        self._groups = count

    def set_parameter(self, number: int, value: float | np.float32) -> None:
        """Set an operand of vector instructions, rounded to float32, for the programs that start from now on.

        ``ValueError`` if there is no such parameter, or its value is fixed.
        """
        fixed = (contract.PARAMETER_ONE, contract.PARAMETER_ZERO, contract.PARAMETER_MINUS_ZERO)
        if not 0 <= number < contract.PARAMETERS or number in fixed:
            raise ValueError(f"parameter must be 0 to {contract.PARAMETERS - 1} and none of {fixed}, got {number}")
        self._parameters[number] = value

    def run(self, program: LoadedProgram, timeout_seconds: float | None = None) -> None:
        """Run a program to its end: :meth:`running` around nothing."""
        with self.running(program, timeout_seconds):
            pass

    @contextmanager
    def running(self, program: LoadedProgram, timeout_seconds: float | None = None) -> Iterator[None]:
        """Run a program while the block does something else, and wait for its end at the end of the block.

        The block may read and write memory that the program does not touch; if it fails, the program is stopped.

        Raises
        ------
        BusyError               a program runs already
        DeviceTimeoutError      `timeout_seconds` were not enough; the program is stopped
        ProgramError            the machine stopped the program, the message has the instruction; it takes the next one
        DamagedRegisterError    at the end a register was not what was written there at the start
        LostWordsError          the memory has lost words since the last program

        The last two are raised however the program has ended: they may be the reason.
        """
        self.start(program)
        try:
            yield
            self._wait(timeout_seconds)
        except BaseException:  # also Ctrl-C: the machine must not be left running
            self._stop()
            raise
        status = self._read(Register.STATUS)
        damage = self._lost_words() or self._damaged_register(status)
        error = None if status == Status.DONE else self._error(program, status)
        if isinstance(error, StuckError):
            self.transport.reset()  # a memory that never answers holds its port
        if damage:
            raise damage from error
        if error:
            raise error

    def start(self, program: LoadedProgram) -> None:
        """Start a program and come back: :meth:`running` without the wait. :class:`BusyError` if one runs already."""
        if self._read(Register.STATUS) == Status.RUNNING:
            raise BusyError("a program runs already; wait for its end or abort it")
        self._written = self._settings(program)
        for register, value in self._written.items():
            self._write(register, value)
        refused = self._read(Register.REFUSED)
        self._write(Register.CONTROL, contract.CONTROL_START)
        if self._read(Register.REFUSED) != refused:
            raise BusyError("a program was started by somebody else; wait for its end or abort it")

    def abort(self) -> None:
        """Stop what runs; if the machine does not stop, reset it. Nothing happens when nothing runs."""
        if self._read(Register.STATUS) != Status.RUNNING:
            return
        self._write(Register.CONTROL, contract.CONTROL_ABORT)
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._read(Register.STATUS) == Status.RUNNING:
            if time.monotonic() > deadline:
                self.transport.reset()
                return
            self.transport.wait(min(self.transport.poll_seconds, _DRAIN_SECONDS))

    def counters(self) -> dict:
        """Read what the machine counted since the last program's start: see
        :func:`etalstm.formats.counters.named_counters`.
        """
        return named_counters([self._counter(number) for number in range(Counter.COUNT)], self.config.beat_bytes)

    def _settings(self, program: LoadedProgram) -> dict[int, int]:
        """Give what the registers must hold while a program runs."""
        base, stride, size = self._windows
        division = self._architecture.division
        return {
            Register.PROGRAM_LOW: program.address & 0xFFFFFFFF,
            Register.PROGRAM_HIGH: program.address >> 32,
            Register.PROGRAM_LENGTH: program.instructions,
            Register.WATCHDOG: self.watchdog_cycles,
            Register.WINDOW_LOW: base & 0xFFFFFFFF,
            Register.WINDOW_HIGH: base >> 32,
            Register.WINDOW_STRIDE: stride // PAGE_BYTES,
            Register.WINDOW_SIZE: size // PAGE_BYTES,
            Register.SHARES: division.register if division else 0,
            Register.SEND_ZEROS: int(not self._architecture.skips),
            Register.GROUPS: self._groups,
        } | {Register.PARAMETER + 4 * n: int(word) for n, word in enumerate(self._parameters.view(np.uint32))}

    def _lost_words(self) -> LostWordsError | None:
        count = self.transport.lost_words()
        if not count:
            return None
        return LostWordsError(
            f"the memory has found {count} words with more wrong bits than it can correct: "
            "what it holds, and what the program computed, may be wrong"
        )

    def _damaged_register(self, status: int) -> DamagedRegisterError | None:
        """Give the error of the first register that is not what was written there when the program was started."""
        if status == Status.IDLE:  # a reset clears registers
            return None
        for register, value in self._written.items():
            found = self._read(register)
            if found != value:
                return DamagedRegisterError(
                    f"register {contract.kept_words()[register]} is {found:#010x} after a program that was started "
                    f"with {value:#010x}: what the program computed may be wrong"
                )
        return None

    def _wait(self, timeout_seconds: float | None) -> None:
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self._read(Register.STATUS) == Status.RUNNING:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeviceTimeoutError(f"the program did not end within {timeout_seconds} seconds and was stopped")
            self.transport.wait(min(left, self.transport.poll_seconds))

    def _stop(self) -> None:
        try:
            self.abort()
        except DeviceError:
            self.transport.reset()

    def _error(self, program: LoadedProgram, status: int):
        def words(first: int, count: int) -> list[int]:
            address = program.address + first * INSTRUCTION_BYTES
            image = self.transport.read_memory(address, count * INSTRUCTION_BYTES).tobytes()
            return words_of(image)

        engine, instruction = self._read(Register.ERROR_ENGINE), self._read(Register.ERROR_INSTRUCTION)
        return program_error(status, engine, instruction, words, program.instructions)

    def _check_identity(self) -> None:
        config = self.config
        expected = {
            Register.MAGIC: contract.MAGIC,
            Register.VERSION: contract.VERSION,
            Register.SHAPE: config.channels | config.lanes << 16 | config.integer_pes << 24,
            Register.PRESET: config.digest,
        }
        found = {register: self._read(register) for register in expected}
        for register, value in expected.items():
            if found[register] != value:
                raise IncompatibleError(
                    f"the machine's {register.name} is {found[register]:#010x}, expected {value:#010x} "
                    f"({config.channels} channels of {config.lanes} lanes, contract version {contract.VERSION}); "
                    f"it is {_identity(found)}"
                )

    def _counter(self, number: int) -> int:
        low, high = (self._read(Register.COUNTER + 8 * number + half) for half in (0, 4))  # low latches high
        return high << 32 | low

    def _read(self, register: int) -> int:
        return self.transport.read_register(register)

    def _write(self, register: int, value: int) -> None:
        self.transport.write_register(register, value)


def _identity(found: dict[Register, int]) -> str:
    """Say what a machine is by its own registers."""
    if found[Register.MAGIC] != contract.MAGIC:
        return "no η-LSTM accelerator"
    names = [name for name, config in PRESETS.items() if config.digest == found[Register.PRESET]]
    channels, lanes = found[Register.SHAPE] & 0xFFFF, found[Register.SHAPE] >> 16 & 0xFF
    return (
        f"contract version {found[Register.VERSION]}, {channels} channels of {lanes} lanes, "
        f"{'preset ' + ' or '.join(names) if names else 'a preset that is not known here'}"
    )
