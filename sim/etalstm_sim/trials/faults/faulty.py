"""A simulated machine with one fault, whose kind, moment and target are drawn."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from etalstm.device.transport import Transport
from etalstm_hw import contract
from etalstm_hw.contract import PAGE_BYTES, Register, kept_words
from etalstm_sim.simulation import Fault, Glitch, Stop
from etalstm_sim.transport import SimTransport

PATIENCE_CYCLES = 1_000_000  # of a case; many times what its programs take
POLL_CYCLES = 10_000  # after which the driver may look at the machine
ANSWERS = 12  # a glitch hits one of so many beats of read data,
RESPONSES = 3  # or of so many responses to writes, which are fewer


class Kind(StrEnum):
    """Kinds of faults."""

    BIT = "a bit of the memory turns over"
    REGISTER = "a bit of a register turns over"
    ERROR = "a part of the memory answers with an error, in one program"
    SILENCE = "a part of the memory never answers, in one program"
    LOST_DATA = "a beat of read data does not come"
    DOUBLED_DATA = "a beat of read data comes twice"
    TURNED_DATA = "a bit of read data turns over on its way"
    LOST_RESPONSE = "the response of a write does not come"
    DOUBLED_RESPONSE = "the response of a write comes twice"
    LOST = "half of a transfer of the host's never arrives"
    ABORT = "the program is aborted"
    RESET = "the machine is reset"


class Hang(Exception):
    """The machine went on for far longer than its programs take: nothing has stopped it."""


@dataclass(frozen=True)
class Moment:
    """When a fault happens.

    Members
    -------
    program, cycle : int
        The fault happens so many cycles after the start of the program with this number, from 0.
    transfer : int
        Number of the transfer to the machine, for :attr:`Kind.LOST`.
    """

    program: int
    cycle: int
    transfer: int


@dataclass(frozen=True)
class Targets:
    """Memory and ports that a fault can hit.

    Members
    -------
    addresses : list of range
        Of the memory.
    readers, writers : list of int
        Ports over which the machine reads and writes.
    """

    addresses: list[range]
    readers: list[int]
    writers: list[int]


@dataclass(frozen=True)
class _Armed:
    """A fault that will happen; its details are drawn when it does."""

    kind: Kind
    moment: Moment
    targets: Targets
    draw: np.random.Generator


class FaultyTransport(Transport):
    """A simulated machine with one fault in its life.

    Parameters
    ----------
    machine : SimTransport
        One whose buses are not checked.

    Members
    -------
    cycles : list of int
        Of each program since :meth:`arm`.
    transfers : int
        From the host to the machine's memory since then.
    struck : str
        The kind of the fault, or the register that it hit; empty if it has not happened.
    address : int or None
        The byte that it hit.
    """

    def __init__(self, machine: SimTransport):
        self._machine, self.memory_bytes = machine, machine.memory_bytes
        self.disarm()

    def disarm(self) -> None:
        """Set the counts to 0; no fault will happen."""
        self._armed: _Armed | None = None
        self.cycles: list[int] = []
        self.transfers, self._struck = 0, ""
        self.address: int | None = None
        self._port: int | None = None

    def arm(self, kind: Kind, moment: Moment, targets: Targets, draw: np.random.Generator) -> None:
        """Set the counts to 0; let a fault hit one of the targets."""
        self.disarm()
        self._armed = _Armed(kind, moment, targets, draw)

    @property
    def struck(self) -> str:
        """The kind of the fault, or the register that it hit; empty if it has not happened."""
        came = self._port is None or self._machine.simulation.was_upset(self._port)
        return self._struck if came else ""

    def ports(self, count: int) -> tuple[list[int], list[int]]:
        """List those of the machine's ports over which it has read, and has written."""
        beats = self._machine.simulation.beats
        read, written = ([port for port in range(count) if beats(port, writes)] for writes in (False, True))
        return read, written

    def read_register(self, register):
        """Read a register of the machine."""
        return self._machine.read_register(register)

    def write_register(self, register, value):
        """Write a register of the machine; one that starts a program is counted."""
        if register == Register.CONTROL and value & contract.CONTROL_START:
            self._machine.simulation.clear_faults()
            self.cycles.append(0)
        self._machine.write_register(register, value)

    def wait(self, seconds):
        """Clock the machine until its interrupt; the fault happens on the way."""
        done, armed = False, self._armed
        if armed and self._is_due(armed):
            done = self._run(armed.moment.cycle)
            self._strike(armed)
        return done or self._run(POLL_CYCLES)

    def reset(self):
        """Reset the machine."""
        self._machine.reset()

    def close(self):
        """Close the machine."""
        self._struck, self._port = self.struck, None
        self._machine.close()

    def _is_due(self, armed: _Armed) -> bool:
        happens = armed.kind is not Kind.LOST and not self._struck
        return happens and len(self.cycles) == armed.moment.program + 1

    def _run(self, cycles: int) -> bool:
        if sum(self.cycles) >= PATIENCE_CYCLES:
            raise Hang(f"{PATIENCE_CYCLES} cycles went by")
        simulation = self._machine.simulation
        began = simulation.cycle
        stop = simulation.run(max(cycles, 1))
        self.cycles[-1] += simulation.cycle - began
        return stop is Stop.INTERRUPT

    def _strike(self, armed: _Armed) -> None:
        kind = armed.kind
        self._struck = kind.name
        if kind is Kind.REGISTER:
            self._turn_register(armed.draw)
        elif kind is Kind.ABORT:
            self._machine.write_register(Register.CONTROL, contract.CONTROL_ABORT)
        elif kind is Kind.RESET:
            self._machine.reset()
        elif kind.name in Glitch.__members__:
            self._upset(armed, Glitch[kind.name])
        else:
            self._strike_memory(armed)

    def _upset(self, armed: _Armed, glitch: Glitch) -> None:
        writes = glitch in (Glitch.LOST_RESPONSE, Glitch.DOUBLED_RESPONSE)
        ports, answers = (armed.targets.writers, RESPONSES) if writes else (armed.targets.readers, ANSWERS)
        number, count, bit = map(int, armed.draw.integers((len(ports), answers, 1 << 12)))
        self._port = ports[number]
        self._machine.simulation.upset(self._port, glitch, count + 1, bit)

    def _turn_register(self, draw: np.random.Generator) -> None:
        words = kept_words()
        register = int(draw.choice(list(words)))
        self._struck = words[register]
        bit = 1 << int(draw.integers(32))
        self._machine.write_register(register, self._machine.read_register(register) ^ bit)

    def _strike_memory(self, armed: _Armed) -> None:
        simulation, address = self._machine.simulation, _drawn_address(armed)
        self.address = address
        if armed.kind is Kind.BIT:
            simulation.memory[address] ^= np.uint8(1 << int(armed.draw.integers(8)))
            return
        errors = Fault.SUBORDINATE_ERROR, Fault.DECODE_ERROR
        fault = Fault.NEVER if armed.kind is Kind.SILENCE else errors[armed.draw.integers(2)]
        begin = address // PAGE_BYTES * PAGE_BYTES
        simulation.inject(begin, begin + PAGE_BYTES, fault)

    def _read_memory(self, address, size):
        return self._machine.read_memory(address, size)

    def _write_memory(self, address, data):
        armed = self._armed
        if armed and armed.kind is Kind.LOST and self.transfers == armed.moment.transfer:
            self._struck, self.address = armed.kind.name, address
            data = data[: data.size // 8 * 4]
        self.transfers += 1
        if data.size:
            self._machine.write_memory(address, data)


def _drawn_address(armed: _Armed) -> int:
    ranges = armed.targets.addresses
    number = int(armed.draw.integers(sum(map(len, ranges))))
    for addresses in ranges:
        if number < len(addresses):
            return addresses[number]
        number -= len(addresses)
    raise AssertionError("a number below the sum lies in one of the ranges")
