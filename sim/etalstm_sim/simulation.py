"""One running simulation: the Verilated design, its clock and its memory."""

import ctypes
import mmap
from enum import IntEnum
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from etalstm.device.access import Access, exclusive
from etalstm.errors import DeviceError
from etalstm_sim.compiled.library import Library, Options
from etalstm_sim.protocol import error_of

ALL_CYCLES = (0, (1 << 64) - 1)
_NO_ANSWER, _FAILED = -1, -2
_KINDS: dict[type, str] = {Integral: "an integer", Real: "a number"}


class SimulationError(DeviceError):
    """A register did not answer, or the simulated machine cannot go on: a fault of the hardware, not of its use."""


class Stop(IntEnum):
    """Why :meth:`Simulation.run` returned."""

    INTERRUPT = 0
    LIMIT = 1


class Fault(IntEnum):
    """Answers of a faulty address range."""

    SUBORDINATE_ERROR = 2
    DECODE_ERROR = 3
    NEVER = 4  #: nothing: a burst there is accepted and stays open


class Glitch(IntEnum):
    """A single error of an answer of the memory, on its way to the machine."""

    LOST_DATA = 1  #: a beat of read data does not come
    DOUBLED_DATA = 2  #: a beat of read data comes twice
    TURNED_DATA = 3  #: a bit of a beat of read data turns over
    LOST_RESPONSE = 4  #: the response of a write does not come
    DOUBLED_RESPONSE = 5  #: the response of a write comes twice


class Simulation:
    """A Verilated accelerator with its memory; its clock runs only during calls.

    Parameters
    ----------
    library : Library
        What :func:`etalstm_sim.compiled.library.build_library` gives.
    memory_bytes : int
        Memory behind all ports, from address 0; pages that are never touched take no space.
    latency : int
        Cycles from an address (or a write's last data) to the response, at least 1.
    outstanding : int
        Bursts in flight per port and direction.
    bandwidth : float, optional
        Beats per cycle of a port, reads and writes together; None: one each.
    stall : float
        Probability that a steady channel puts off a handshake by a cycle; 0 to 0.99. Above 0 the memory is as unkind as
        AXI allows (memory.h).
    seed : int
        Of all random choices.
    reorder : bool
        Answer bursts of different ids out of order, reads interleaved beat by beat.
    checked : bool
        False switches the AXI checkers off: for memories that break AXI, and to measure the checkers' cost.
    strobes : bool
        The memory writes only bytes that have a strobe. False: it writes whole beats, as the card's does, whose mask
        pins carry check bits. Then a write that was broken off leaves any words at its addresses.
    in_flight : (int, int)
        Reads and writes that each port has in flight at most, by its promise; 0: it promises nothing.
    waveform : Path, optional
        File to write; its suffix must be the kind that the library was built for.
    waveform_cycles : (int, int)
        First and last clock cycle that is written, see :attr:`cycle`.

    Members
    -------
    access : Access
        Every call raises :class:`BusyError` while another thread is inside one, and :class:`DeviceError` once the
        simulation is closed.

    Raises
    ------
    ValueError
        If a parameter is of the wrong type, or outside its range.
    ProtocolError
        From every call once a bus has broken AXI, until the next reset.
    """

    def __init__(
        self,
        library: Library,
        memory_bytes: int,
        *,
        latency: int = 1,
        outstanding: int = 16,
        bandwidth: float | None = None,
        stall: float = 0.0,
        seed: int = 1,
        reorder: bool = False,
        checked: bool = True,
        strobes: bool = False,
        in_flight: tuple[int, int] = (0, 0),
        waveform: Path | None = None,
        waveform_cycles: tuple[int, int] = ALL_CYCLES,
    ):
        _check("memory_bytes", memory_bytes, Integral, 4096, 1 << 48)
        _check("latency", latency, Integral, 1, 1 << 30)
        _check("outstanding", outstanding, Integral, 1, 1 << 16)
        _check("stall", stall, Real, 0, 0.99)
        _check("bandwidth", 1.0 if bandwidth is None else bandwidth, Real, 0.001, 2.0)
        _check("seed", seed, Integral, 0, (1 << 64) - 1)
        for name, value in (("reorder", reorder), ("checked", checked), ("strobes", strobes)):
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        self._calls, self._observed = library.calls, library.observed
        self._handle = self._memory = None
        self.access = Access("the simulation")
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
            self._memory = np.frombuffer(mmap.mmap(-1, memory_bytes, flags=flags), np.uint8)
        except (OSError, ValueError, OverflowError) as error:
            raise DeviceError(f"cannot reserve {memory_bytes} bytes for the simulated memory: {error}") from None
        options = Options(latency, outstanding, bandwidth or 0.0, stall, seed, reorder, *in_flight, checked, strobes)
        self._handle = self._calls.simulation_create(self._memory.ctypes.data, memory_bytes, ctypes.byref(options))
        if waveform is not None:
            self._trace(waveform, *waveform_cycles)
        self.reset()

    @exclusive
    def reset(self) -> None:
        """Pulse the reset, drop what was in flight; the memory keeps its bytes, faults stay."""
        self._check(self._calls.simulation_reset(self._handle))

    @exclusive
    def write(self, register: int, value: int) -> None:
        """Write a register over AXI4-Lite, cycle by cycle.

        Raises
        ------
        SimulationError
            If the answer is an error or does not come.
        """
        answer = self._calls.simulation_write(self._handle, register, value)
        self._check_answer(answer, f"a write to register {register:#05x}")

    @exclusive
    def read(self, register: int) -> int:
        """Read a register; like :meth:`write`."""
        value = ctypes.c_uint32()
        answer = self._calls.simulation_read(self._handle, register, ctypes.byref(value))
        self._check_answer(answer, f"a read of register {register:#05x}")
        return value.value

    @exclusive
    def run(self, cycles: int) -> Stop:
        """Clock until the interrupt is high, at most so many cycles."""
        stop = self._calls.simulation_run(self._handle, cycles)
        self._check(stop)
        return Stop(stop)

    @exclusive
    def inject(self, begin: int, end: int, fault: Fault) -> None:
        """Make the addresses from `begin` up to `end` faulty, for reads and writes that are accepted from now on."""
        self._calls.simulation_fault(self._handle, begin, end, fault)

    @exclusive
    def clear_faults(self) -> None:
        """Make every address good again."""
        self._calls.simulation_clear_faults(self._handle)

    @exclusive
    def upset(self, port: int, glitch: Glitch, count: int, bit: int = 0) -> None:
        """Inject a glitch into the `count`th answer of a port, from 1. The port's bus must not be checked.

        `bit` is the bit of a beat that turns over.
        """
        self._calls.simulation_upset(self._handle, port, glitch, count, bit)

    @exclusive
    def was_upset(self, port: int) -> bool:
        """Tell whether the last :meth:`upset` of a port has happened."""
        return bool(self._calls.simulation_was_upset(self._handle, port))

    @exclusive
    def beats(self, port: int, writes: bool = False) -> int:
        """Count the beats that a port has read or written since the simulation began."""
        return self._calls.simulation_beats(self._handle, port, writes)

    @exclusive
    def observed(self) -> tuple[int, bool]:
        """Tell how many instructions went to engines since the last call, and whether a program came to its HALT.

        Raises
        ------
        ValueError
            If the library was not built for coverage.
        """
        self._check_observed()
        halted = ctypes.c_uint32()
        dispatched = self._calls.simulation_observed(self._handle, ctypes.byref(halted))
        return dispatched, bool(halted.value)

    @exclusive
    def write_coverage(self, path: Path) -> None:
        """Write Verilator's counts of toggles since the simulation began; raises like :meth:`observed`."""
        self._check_observed()
        self._check(self._calls.simulation_write_coverage(self._handle, str(path).encode()))

    @property
    @exclusive
    def cycle(self) -> int:
        """Clock cycles since the simulation began."""
        return self._calls.simulation_cycle(self._handle)

    @exclusive
    def flush(self) -> None:
        """Write the waveform up to the current cycle."""
        self._calls.simulation_flush(self._handle)

    @property
    def memory(self) -> np.ndarray:
        """The memory itself, uint8, not a copy; threads may share it."""
        memory = self._memory
        if memory is None:
            raise DeviceError("memory: the simulation is closed")
        return memory

    def close(self) -> None:
        """End the simulation once no call is running, and release its memory. Closing twice does nothing."""
        self.access.close(self._release)

    def __del__(self):
        if hasattr(self, "access"):  # not if a parameter was refused
            self.close()

    def _trace(self, path: Path, first: int, last: int) -> None:
        _check("the first cycle of a waveform", first, Integral, *ALL_CYCLES)
        _check("the last cycle of a waveform", last, Integral, first, ALL_CYCLES[1])
        if self._calls.simulation_trace(self._handle, str(path).encode(), first, last):
            raise DeviceError(f"cannot write the waveform {path}")

    def _release(self) -> None:
        if self._handle is not None:
            self._calls.simulation_destroy(self._handle)
        self._handle = self._memory = None

    def _check(self, code: int) -> None:
        breach = self._calls.simulation_breach(self._handle).decode()
        if breach:
            self._calls.simulation_flush(self._handle)
            raise error_of(breach)
        if code == _FAILED:
            raise SimulationError(self._calls.simulation_failure(self._handle).decode())

    def _check_observed(self) -> None:
        if not self._observed:
            raise ValueError("this simulation counts no coverage: its library must be built with coverage=True")

    def _check_answer(self, answer: int, access: str) -> None:
        self._check(answer)
        if answer == _NO_ANSWER:
            raise SimulationError(f"{access} was not answered")
        if answer:
            raise SimulationError(f"{access} was answered with error {answer}")


def _check(name: str, value: Any, kind: type, low: float, high: float) -> None:
    is_kind = isinstance(value, kind) and not isinstance(value, bool)
    if not is_kind or not low <= value <= high:
        raise ValueError(f"{name} must be {_KINDS[kind]} from {low} to {high}, got {value!r}")
