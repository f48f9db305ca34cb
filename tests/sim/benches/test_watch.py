"""A port that breaks AXI fails its cocotb bench, with cycle, port, channel and rule."""

from pathlib import Path

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from etalstm.errors import ProtocolError
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.watch import rules_of, start_watch, watch
from tests.sim.wire import Wire, begin

# What is driven in one cycle after the other, and the breach that it is: rule, channel, cycle of those.
READ = {"manager__arvalid": 1, "port0__arready": 1, "manager__arlen": 0}
NOTHING = {"manager__arvalid": 0, "manager__awvalid": 0, "manager__wvalid": 0, "port0__rvalid": 0, "port0__bvalid": 0}
FAULTS = {
    "AW changes": ("stable", "AW", 1, {"manager__awvalid": 1}, {"manager__awaddr": 64}),
    "AW falls": ("held", "AW", 1, {"manager__awvalid": 1}, NOTHING),
    "AR changes": ("stable", "AR", 1, {"manager__arvalid": 1}, {"manager__arlen": 1}),
    "W changes": ("stable", "W", 1, {"manager__wvalid": 1}, {"manager__wdata": 1}),
    "W falls": ("held", "W", 1, {"manager__wvalid": 1}, NOTHING),
    "R changes": ("stable", "R", 3, READ, NOTHING, {"port0__rvalid": 1, "port0__rlast": 1}, {"port0__rdata": 1}),
    "R unasked": ("unasked", "R", 0, {"port0__rvalid": 1}),
    "B unasked": ("unasked", "B", 1, {}, {"port0__bvalid": 1}),
    "4 KiB": ("boundary", "AR", 0, READ | {"manager__araddr": 4092, "manager__arlen": 1}),
    "narrow": ("size", "AR", 0, READ | {"manager__arsize": 1}),
    "reset": ("reset", "AR", 1, {"rst": 1}, {"manager__arvalid": 1}),
    "strobes": ("strobe", "W", 1, {"manager__awvalid": 1, "manager__awlen": 0, "port0__awready": 1},
                NOTHING | {"manager__wvalid": 1, "port0__wready": 1, "manager__wstrb": 1, "manager__wlast": 1}),
    "last": ("last", "W", 1, {"manager__awvalid": 1, "port0__awready": 1},
             NOTHING | {"manager__wvalid": 1, "port0__wready": 1, "manager__wlast": 1}),
}  # fmt: skip


async def begin_silent(dut):
    """Reset; nobody shows anything."""
    for channel in ("ar", "aw", "w"):
        getattr(dut, f"port0__{channel}ready").value = 0
    for name in ("rvalid", "rlast", "rid", "rresp", "rdata", "bvalid", "bid", "bresp"):
        getattr(dut, f"port0__{name}").value = 0
    dut.manager__wlast.value = 0
    await begin(dut)


async def breach(dut, rules):
    """Give the first breach; a task that fails would fail the test."""
    with pytest.raises(ProtocolError) as found:
        await watch(dut, "port0", rules)
    return found.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(what=list(FAULTS))
async def names_a_breach(dut, what):
    rule, channel, cycle, *shown = FAULTS[what]
    task = cocotb.start_soon(breach(dut, rules_of(dut, "port0", promises=7)))
    await begin_silent(dut)
    for values in (*shown, {}):
        for name, value in values.items():
            getattr(dut, name).value = value
        await RisingEdge(dut.clk)
    for _ in range(2):
        await RisingEdge(dut.clk)
    assert task.done(), "no breach was seen"
    error = task.result()
    assert (error.port, error.channel, error.rule) == ("port0", channel, rule), error
    # The reset takes the first cycles; what is set before an edge is seen with it.
    assert error.cycle == RESET_CYCLES + cycle, error


RESET_CYCLES = 4


@cocotb.test(timeout_time=1, timeout_unit="ms", expect_error=ProtocolError)
async def a_breach_fails_the_test(dut):
    start_watch(dut, "port0", rules_of(dut, "port0"))
    await begin_silent(dut)
    dut.port0__bvalid.value = 1
    await ClockCycles(dut.clk, 5)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_port_that_is_never_reset_is_noticed(dut):
    dut.rst.value = 0
    Clock(dut.clk, 4, unit="ns").start()
    with pytest.raises(AssertionError, match="port0 is not reset, so nothing of it is checked"):
        await watch(dut, "port0", rules_of(dut, "port0"))


def test_a_bench_that_breaks_the_protocol_fails(tmp_path):
    report = run_bench(Wire(), "wire", Path(__file__), tmp_path)
    assert report.read_text().count("<testcase") == 2 + len(FAULTS)
