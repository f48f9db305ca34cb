"""The simulated machine, as the driver sees it."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from etalstm.device.transport import Transport
from etalstm_hw.config import Config
from etalstm_hw.dma.store import OUTSTANDING
from etalstm_sim.compiled.library import Library, build_library, design
from etalstm_sim.simulation import ALL_CYCLES, Simulation, Stop

MEMORY_BYTES = 1 << 30
LATENCY_CYCLES = 32  # 128 ns at 250 MHz; HBM answers after 107 ns (Shuhai, FCCM 2020, page hit)
# Of :class:`Simulation`.
MEMORY_OPTIONS = {"outstanding", "bandwidth", "stall", "seed", "reorder", "checked", "strobes"}
OPTIONS = MEMORY_OPTIONS | {"memory_bytes", "trace", "trace_cycles", "log", "library", "latency"}
_FIRST_CYCLES = 1000
_CHUNK_SECONDS = 0.1  # how long Ctrl-C may have to wait


class SimTransport(Transport):
    """A Verilated machine in this process. Time only passes in register accesses and in :meth:`wait`.

    Parameters
    ----------
    config : Config
        The machine; built on first use, then taken from the cache.
    memory_bytes : int, optional
        Size of the memory. Default: 1 GiB, or all that the machine can address if that is less, or if each port has a
        range of its own. Memory that is never written takes no space.
    trace : str or Path, optional
        Waveform to write: ``.fst`` or ``.vcd``.
    trace_cycles : (int, int)
        First and last clock cycle of the waveform, counted from the start of the simulation.
    log : function
        Told how far a build is.
    library : Library, optional
        A simulator to use instead of the configuration's own.
    memory : latency, outstanding, bandwidth, stall, seed, reorder, checked, strobes of :class:`Simulation`

    Members
    -------
    simulation : Simulation
        The simulation itself: faults, cycles, beats per port.
    build_seconds : float
        What the build took; 0 if it was in the cache.

    Raises
    ------
    ToolchainError
        If the simulator cannot be built.
    ValueError
        If there is no such option, or it is of the wrong type or outside its range.
    """

    # Asking takes clock cycles of the machine. With stalls their number changes the cycles of later programs, so it
    # must not depend on how fast the host simulates. No interrupt is lost here.
    poll_seconds = math.inf

    def __init__(
        self,
        config: Config,
        *,
        memory_bytes: int | None = None,
        trace: str | Path | None = None,
        trace_cycles: tuple[int, int] = ALL_CYCLES,
        log: Callable[[str], None] = lambda _: None,
        library: Library | None = None,
        latency: int = LATENCY_CYCLES,
        **memory,
    ):
        waveform = _waveform(trace)
        unknown = sorted(set(memory) - MEMORY_OPTIONS)
        if unknown:
            raise ValueError(f"a simulation has no option {unknown[0]!r}; there are: {', '.join(sorted(OPTIONS))}")
        if library is None:
            library = build_library(design(config), waveform.suffix.lstrip(".") if waveform else None, log)
        self.build_seconds = library.seconds
        addressed = 1 << config.address_bits
        default = addressed if config.port_bytes else min(MEMORY_BYTES, addressed)
        self.memory_bytes = default if memory_bytes is None else memory_bytes
        self.simulation = Simulation(
            library,
            self.memory_bytes,
            latency=latency,
            in_flight=(config.outstanding_bursts, config.channels_per_port * OUTSTANDING),
            waveform=waveform,
            waveform_cycles=trace_cycles,
            **memory,
        )
        self._chunk_cycles = _FIRST_CYCLES

    def read_register(self, register: int) -> int:
        """Read a register in a few clock cycles."""
        return self.simulation.read(register)

    def write_register(self, register: int, value: int) -> None:
        """Write a register in a few clock cycles."""
        self.simulation.write(register, value)

    def wait(self, seconds: float) -> bool:
        """Clock the machine until its interrupt is high, at most so many seconds of the host's time."""
        deadline = time.monotonic() + seconds
        while True:
            start = time.monotonic()
            if self.simulation.run(self._chunk_cycles) is Stop.INTERRUPT:
                return True
            now = time.monotonic()
            self._chunk_cycles = max(_FIRST_CYCLES, int(self._chunk_cycles * min(_CHUNK_SECONDS / (now - start), 2)))
            if now >= deadline:
                return False

    def reset(self) -> None:
        """Pulse the reset."""
        self.simulation.reset()

    def close(self) -> None:
        """End the simulation and its waveform."""
        self.simulation.close()

    def _read_memory(self, address: int, size: int) -> np.ndarray:
        return self.simulation.memory[address : address + size].copy()

    def _write_memory(self, address: int, data: np.ndarray) -> None:
        self.simulation.memory[address : address + data.size] = data


def _waveform(trace) -> Path | None:
    """Give the path of a waveform; the build checks its suffix."""
    if trace is not None and not isinstance(trace, (str, Path)):
        raise ValueError(f"trace must be the path of a waveform, got {trace!r}")
    return None if trace is None else Path(trace)
