"""A machine that runs under cocotb, as the driver sees it."""

import math
import time

import numpy as np
from cocotb.clock import Clock
from cocotb.task import resume
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from etalstm.device.transport import Transport
from etalstm.errors import DeviceError
from etalstm_hw.config import Config
from etalstm_hw.dma.store import OUTSTANDING
from etalstm_sim.benches.axi_memory import AxiMemory
from etalstm_sim.benches.unkindness import pauses
from etalstm_sim.benches.watch import LITE, start_watch

MEMORY_BYTES = 1 << 24
PERIOD_NS = 4
_CHUNK_CYCLES = 1000
_RESET_CYCLES = 4


class CocotbTransport(Transport):
    """The Verilog of a machine under cocotb. Time only passes in register accesses, resets, and :meth:`wait`.

    The driver is ordinary blocking code: a test calls it through :func:`cocotb.task.bridge`. The transport itself is
    made in the test, by :meth:`open`.

    Parameters
    ----------
    dut : cocotb's handle of an :class:`etalstm_sim.benches.identified.Identified` machine
    config : Config
        Which machine it is.
    memory_bytes : int
    stall : float
        Probability of a pause, of every channel of every port in every cycle; 0 to less than 1.
    seed : int
        Of the stalls.

    Members
    -------
    memory : AxiMemory
        The simulated memory, which can inject faults.
    """

    poll_seconds = math.inf  # see SimTransport

    def __init__(self, dut, config: Config, *, memory_bytes: int = MEMORY_BYTES, stall: float = 0.0, seed: int = 1):
        self.memory_bytes = memory_bytes
        ports = [f"port{n}" for n in range(config.ports)]
        in_flight = {"reads": config.outstanding_bursts, "writes": config.channels_per_port * OUTSTANDING}
        rules = dict.fromkeys(ports, in_flight)
        self.memory = AxiMemory(dut, ports, memory_bytes, stall=stall, seed=seed, rules=rules)
        start_watch(dut, "control", LITE)
        self._dut = dut
        self._registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "control_"), dut.clk, dut.rst)
        reads, writes = self._registers.read_if, self._registers.write_if
        channels = (reads.ar_channel, reads.r_channel, writes.aw_channel, writes.w_channel, writes.b_channel)
        for number, channel in enumerate(channels if stall else ()):
            channel.set_pause_generator(pauses(stall, f"{seed} control {number}"))

    @classmethod
    async def open(cls, dut, config: Config, **options) -> "CocotbTransport":
        """Start the clock, connect memory and registers, reset."""
        Clock(dut.clk, PERIOD_NS, "ns").start()
        transport = cls(dut, config, **options)
        await transport._reset()
        return transport

    def read_register(self, register: int) -> int:
        """Read a register, in a few clock cycles."""
        return resume(self._read)(register)

    def write_register(self, register: int, value: int) -> None:
        """Write a register, in a few clock cycles."""
        resume(self._write)(register, value)

    def wait(self, seconds: float) -> bool:
        """Clock the machine until its interrupt is high, at most so many seconds of the host's time."""
        return resume(self._wait)(time.monotonic() + seconds)

    def reset(self) -> None:
        """Pulse the reset."""
        resume(self._reset)()

    def close(self) -> None:
        """Let go of the simulation, which ends with its test."""
        self._dut = None

    def _check_open(self):
        if self._dut is None:
            raise DeviceError("the simulation is closed")

    async def _read(self, register):
        self._check_open()
        answer = await self._registers.read(register, 4)
        self._check_answer(answer.resp, f"a read of register {register:#05x}")
        return int.from_bytes(answer.data, "little")

    async def _write(self, register, value):
        self._check_open()
        answer = await self._registers.write(register, int(value).to_bytes(4, "little"))
        self._check_answer(answer.resp, f"a write to register {register:#05x}")

    @staticmethod
    def _check_answer(answer, access):
        if answer != AxiResp.OKAY:
            raise DeviceError(f"{access} was answered with {answer.name}")

    async def _wait(self, deadline):
        self._check_open()
        interrupt = self._dut.interrupt
        chunk_ns = _CHUNK_CYCLES * PERIOD_NS
        while not interrupt.value:
            if time.monotonic() >= deadline:
                return False
            await First(RisingEdge(interrupt), Timer(chunk_ns, "ns"))
        return True

    async def _reset(self):
        self._check_open()
        dut = self._dut
        dut.rst.value = 1
        await ClockCycles(dut.clk, _RESET_CYCLES)
        dut.rst.value = 0
        await ClockCycles(dut.clk, _RESET_CYCLES)

    def _read_memory(self, address: int, size: int) -> np.ndarray:
        self._check_open()
        return self.memory.bytes[address : address + size].copy()

    def _write_memory(self, address: int, data: np.ndarray) -> None:
        self._check_open()
        self.memory.bytes[address : address + data.size] = data
