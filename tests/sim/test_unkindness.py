"""cocotb's memory under a manager that keeps the protocol, and the watch over managers that do not."""

from pathlib import Path

import cocotb
import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from etalstm.hw.axi import AXI4
from etalstm.sim.axi_memory import AxiMemory
from etalstm.sim.bench import run_bench
from etalstm.sim.unkindness import check_stability

BUS = AXI4(20, 32, 1)
BEATS, BURSTS = 4, 100
LIMIT_CYCLES = 40 * BEATS * BURSTS


class Wire(wiring.Component):
    """Passes what the test drives on to the port behind which the memory lies."""

    manager: In(BUS)
    port0: Out(BUS)
    cycles: Out(8)  # gives the design a clock

    def elaborate(self, _platform):
        m = Module()
        m.d.sync += self.cycles.eq(self.cycles + 1)
        wiring.connect(m, wiring.flipped(self.manager), wiring.flipped(self.port0))
        return m


async def begin(dut):
    """Start the clock and reset; the manager shows nothing."""
    Clock(dut.clk, 4, unit="ns").start()
    for name in ("arvalid", "awvalid", "wvalid", "rready", "bready"):
        getattr(dut, f"manager__{name}").value = 0
    for name in ("ar", "aw"):
        for field, value in {"addr": 0, "len": BEATS - 1, "size": 2, "burst": 1, "id": 0}.items():
            getattr(dut, f"manager__{name}{field}").value = value
    dut.manager__wstrb.value, dut.manager__wdata.value, dut.manager__wlast.value = 0xF, 0, 0
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


class Handshakes:
    """Counts the cycles of the handshakes of a channel while the manager shows one thing after the other."""

    def __init__(self, dut, channel):
        self.cycles = []
        self._valid, self._ready = (getattr(dut, f"manager__{channel}{end}") for end in ("valid", "ready"))

    def count(self, cycle):
        """Call at every clock edge; says whether there was one."""
        happened = self._valid.value == 1 and self._ready.value == 1
        self.cycles += [cycle] * happened
        return happened


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def takes_addresses_and_data_in_every_order(dut):
    await begin(dut)
    memory = AxiMemory(dut, ["port0"], 1 << 16, stall=0.5, seed=3)
    dut.manager__bready.value = 1
    address, data, answer = (Handshakes(dut, channel) for channel in ("aw", "w", "b"))
    for cycle in range(LIMIT_CYCLES):
        dut.manager__awvalid.value = len(address.cycles) < BURSTS
        dut.manager__awaddr.value = 4 * BEATS * len(address.cycles)
        dut.manager__wvalid.value = len(data.cycles) < BURSTS * BEATS
        dut.manager__wdata.value = len(data.cycles)
        dut.manager__wlast.value = len(data.cycles) % BEATS == BEATS - 1
        await RisingEdge(dut.clk)
        for each in (address, data, answer):
            each.count(cycle)
        if len(answer.cycles) == BURSTS:
            break
    assert len(answer.cycles) == BURSTS, f"{len(address.cycles)} addresses, {len(data.cycles)} beats"
    words = memory.bytes[: 4 * BURSTS * BEATS].view(np.uint32)
    np.testing.assert_array_equal(words, np.arange(BURSTS * BEATS))
    first, last = np.array(data.cycles[::BEATS]), np.array(data.cycles[BEATS - 1 :: BEATS])
    addressed = np.array(address.cycles)
    assert (addressed < first).sum() > BURSTS // 20
    assert (last < addressed).sum() > BURSTS // 20


async def breach(dut):
    """Give the message of the first breach; a task that fails would fail the test."""
    with pytest.raises(AssertionError) as found:
        await check_stability(dut, "port0", dut.clk, dut.rst)
    return str(found.value)


FAULTS = {
    "AW changed": {"awvalid": 1, "then": {"awaddr": 64}},
    "AW vanished": {"awvalid": 1, "then": {"awvalid": 0}},
    "AR changed": {"arvalid": 1, "then": {"arlen": 0}},
    "W changed": {"wvalid": 1, "then": {"wdata": 1}},
    "W vanished": {"wvalid": 1, "then": {"wvalid": 0}},
}


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(what=list(FAULTS))
async def names_what_changed(dut, what):
    await begin(dut)
    for name in ("arready", "awready", "wready"):
        getattr(dut, f"port0__{name}").value = 0
    watch = cocotb.start_soon(breach(dut))
    shown = dict(FAULTS[what])
    then = shown.pop("then")
    for values in (shown, {}, then, {}):
        for name, value in values.items():
            getattr(dut, f"manager__{name}").value = value
        await RisingEdge(dut.clk)
    assert f"in cycle 3: port0: {what} before it was accepted" in await watch


def test_the_memory_is_unkind_and_watches(tmp_path):
    report = run_bench(Wire(), "wire", Path(__file__), tmp_path)
    assert report.read_text().count("<testcase") == 1 + len(FAULTS)
