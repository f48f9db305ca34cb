"""A card without its vendor's controllers: behavioural memory and host around the shell, for cocotb."""

import time

import numpy as np
from cocotb import start_soon
from cocotb.clock import Clock
from cocotb.task import resume
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster, AxiResp

from etalstm.device.cards.transfers import whole_beats
from etalstm.device.transport import Transport
from etalstm_boards.clocking import SHARED_PORT_MHZ
from etalstm_boards.ports import MEMORY_BYTES
from etalstm_boards.shell import hbm_name
from etalstm_hw.contract import BoardRegister, BoardStatus
from etalstm_sim.benches.axi_memory import AxiMemory
from etalstm_sim.benches.unkindness import pauses
from etalstm_sim.benches.watch import BRIDGED, HOST, LITE, rules_of, start_watch
from etalstm_sim.protocol import ADDRESS_FIRST, ALL_PROMISES

PERIODS_PS = {"board": 10_000, "pcie": 4_020, "hbm": 4_000, "accelerator": 5_000}  # the last slower than the others
SHARED_PERIODS_PS = {"hbm": 2 * round(500_000 / SHARED_PORT_MHZ)}  # even, as a clock has two halves


class CardTransport(Transport):
    """The shell of a card under cocotb: memory over the host's DMA bus, registers and interrupts as XDMA has them.

    Members
    -------
    memory : AxiMemory
        Behind the memory's ports.
    dma : AxiMaster
        On the host's way into the memory.
    interrupts : list of int
        How often each interrupt was requested.
    """

    memory_bytes = MEMORY_BYTES

    def __init__(self, dut, ports, *, stall=0.0, seed=1):
        self._dut = dut
        self.ports = ports
        names = [hbm_name(port) for port in self.ports.used]
        side = {"clock": dut.hbm_clk, "reset": dut.hbm_rst}
        # An address and its data cross to the memory's clock independently.
        rules = {name: {"promises": ALL_PROMISES & ~ADDRESS_FIRST} for name in names}
        rules[hbm_name(self.ports.host)] = BRIDGED
        self.memory = AxiMemory(dut, names, MEMORY_BYTES, stall=stall, seed=seed, rules=rules, **side)
        start_watch(dut, "dma", rules_of(dut, "dma", **HOST), dut.pcie_clk, dut.pcie_rst)
        start_watch(dut, "host", LITE, dut.pcie_clk, dut.pcie_rst)
        self.dma = AxiMaster(AxiBus.from_prefix(dut, "dma_"), dut.pcie_clk, dut.pcie_rst)
        self._registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "host_"), dut.pcie_clk, dut.pcie_rst)
        for master in (self.dma, self._registers):
            reads, writes = master.read_if, master.write_if
            channels = (reads.ar_channel, reads.r_channel, writes.aw_channel, writes.w_channel, writes.b_channel)
            for number, channel in enumerate(channels if stall else ()):
                channel.set_pause_generator(pauses(stall, f"{seed} {number}"))
        self.interrupts = [0, 0]

    @classmethod
    async def open(cls, dut, ports, *, calibrated=True, **options):
        """Start the clocks and go through the resets of a card that is switched on."""
        for pin in (dut.locked, dut.calibrated, dut.trip, dut.acknowledges, dut.temperature, dut.bit_errors):
            pin.value = 0
        for reset in (dut.board_rst, dut.pcie_rst, dut.hbm_rst, dut.accelerator_rst):
            reset.value = 1
        transport = cls(dut, ports, **options)
        for name, period in (PERIODS_PS | (SHARED_PERIODS_PS if ports.shared else {})).items():
            start_soon(Clock(getattr(dut, f"{name}_clk"), period, "ps").start())
        await ClockCycles(dut.board_clk, 8)
        dut.board_rst.value = 0
        dut.locked.value = 1
        await ClockCycles(dut.board_clk, 8)
        dut.hbm_rst.value = 0
        dut.pcie_rst.value = 0
        for number in range(2):
            start_soon(transport._acknowledge(number))
        await ClockCycles(dut.board_clk, 8)
        if calibrated:
            await transport.calibrate()
        return transport

    async def calibrate(self):
        """The memory is ready; wait for the machine."""
        self._dut.calibrated.value = 1
        while not await self.read(BoardRegister.STATUS) & BoardStatus.UP:
            await ClockCycles(self._dut.board_clk, 20)

    async def read(self, register):
        """Read a register."""
        answer = await self._registers.read(register, 4)
        assert answer.resp == AxiResp.OKAY, answer
        return int.from_bytes(answer.data, "little")

    async def write(self, register, value):
        """Write a register."""
        answer = await self._registers.write(register, int(value).to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY, answer

    async def _acknowledge(self, number):
        """Do what XDMA does: take a request, acknowledge it some cycles later, expect it to stay until then."""
        request, clock = self._dut.requests, self._dut.pcie_clk
        while True:
            while not int(request.value) >> number & 1:
                await RisingEdge(clock)
            for _ in range(5):
                await RisingEdge(clock)
                assert int(request.value) >> number & 1, f"request {number} fell before its acknowledgement"
            self.interrupts[number] += 1
            self._dut.acknowledges.value = int(self._dut.acknowledges.value) | 1 << number
            await RisingEdge(clock)
            self._dut.acknowledges.value = int(self._dut.acknowledges.value) & ~(1 << number)
            while int(request.value) >> number & 1:
                await RisingEdge(clock)

    def read_register(self, register):
        return resume(self.read)(register)

    def write_register(self, register, value):
        resume(self.write)(register, value)

    def wait(self, seconds):
        return resume(self._wait)(0, self.interrupts[0] + 1, time.monotonic() + seconds)

    def wait_for(self, number, count, seconds=5.0):
        """Wait until an interrupt has come so often; say whether it has."""
        return resume(self._wait)(number, count, time.monotonic() + seconds)

    async def _wait(self, number, count, deadline):
        while self.interrupts[number] < count and time.monotonic() < deadline:
            await Timer(1, "us")
        return self.interrupts[number] >= count

    def reset(self):
        raise AssertionError("the driver resets a card through its registers")

    def close(self):
        pass

    def _read_memory(self, address, size):
        return np.frombuffer(resume(self._dma_read)(address, size), np.uint8)

    def _write_memory(self, address, data):
        address, data = whole_beats(address, data, self._read_memory)
        resume(self._dma_write)(address, data.tobytes())

    async def _dma_read(self, address, size):
        answer = await self.dma.read(address, size)
        assert answer.resp == AxiResp.OKAY, answer.resp
        return answer.data

    async def _dma_write(self, address, data):
        answer = await self.dma.write(address, data)
        assert answer.resp == AxiResp.OKAY, answer.resp
