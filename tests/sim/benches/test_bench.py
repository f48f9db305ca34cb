from pathlib import Path

import cocotb
import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from etalstm.errors import ToolchainError
from etalstm_sim.benches.bench import run_bench


class Accumulator(wiring.Component):
    """Adds its input to its output every cycle."""

    i: In(8)
    o: Out(8)

    def elaborate(self, _platform):
        m = Module()
        total = Signal(8)
        m.d.sync += total.eq(total + self.i)
        m.d.comb += self.o.eq(total)
        return m


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(step=[1, 3])
async def adds_every_cycle(dut, step):
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value, dut.i.value = 0, step
    await RisingEdge(dut.clk)
    for n in range(1, 20):
        await RisingEdge(dut.clk)
        assert dut.o.value.to_unsigned() == n * step, f"cycle {n}: {dut.o.value.to_unsigned()}, expected {n * step}"


FAILING_MODULE = """
import cocotb

@cocotb.test()
async def is_right(dut):
    pass

@cocotb.test()
async def is_wrong(dut):
    assert dut.o.value == 77, "seventy-seven"
"""


def test_a_passing_bench_passes(tmp_path):
    report = run_bench(Accumulator(), "accumulator", Path(__file__), tmp_path)
    assert report.read_text().count("<testcase") == 2


def test_a_failing_bench_names_the_test(tmp_path):
    module = tmp_path / "failing_bench.py"
    module.write_text(FAILING_MODULE)
    with pytest.raises(AssertionError, match=r"1 of 2 cocotb tests failed: is_wrong;(.|\n)*seventy-seven"):
        run_bench(Accumulator(), "accumulator", module, tmp_path)


def test_a_failing_bench_says_how_to_get_its_waveform_and_where_it_is(tmp_path, monkeypatch):
    module = tmp_path / "failing_bench.py"
    module.write_text(FAILING_MODULE)
    with pytest.raises(AssertionError, match=r"\nset ETALSTM_WAVES=1 for a waveform$"):
        run_bench(Accumulator(), "accumulator", module, tmp_path)
    monkeypatch.setenv("ETALSTM_WAVES", "1")
    with pytest.raises(AssertionError, match=rf"\nwaveform: {tmp_path / 'dump.vcd'}$"):
        run_bench(Accumulator(), "accumulator", module, tmp_path)
    assert "$var" in (tmp_path / "dump.vcd").read_text()


def test_a_bench_without_tests_fails(tmp_path):
    module = tmp_path / "empty_bench.py"
    module.write_text("")
    with pytest.raises(AssertionError, match=r"no cocotb test ran|left no results"):
        run_bench(Accumulator(), "accumulator", module, tmp_path)


def test_broken_verilog_shows_the_log(tmp_path):
    with pytest.raises(ToolchainError, match="verilator failed") as failed:
        run_bench("module broken(; endmodule", "broken", Path(__file__), tmp_path)
    assert "syntax error" in failed.value.log
