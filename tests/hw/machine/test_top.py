"""Runs the cocotb bench of the whole machine: its Verilog, driven by the driver itself."""

from pathlib import Path

from etalstm_hw.config import preset
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.identified import identified_machine


def test_top(tmp_path):
    bench = Path(__file__).with_name("bench_top.py")
    run_bench(identified_machine(preset("test"), "machine"), "machine", bench, tmp_path, environment={"PRESET": "test"})
