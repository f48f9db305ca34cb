"""A design that is nothing but a memory port, whose manager a cocotb test plays."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from etalstm_hw.axi.axi import AXI4

BUS = AXI4(20, 32, 1)
BEATS, BURSTS = 4, 100


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
