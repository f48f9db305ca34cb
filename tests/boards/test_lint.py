"""The whole design of a card, elaborated by Verilator around empty modules for what Vivado brings."""

import json
import re
from pathlib import Path

import pytest

from etalstm_sim.compiled import toolchain

STUBS = Path(__file__).with_name("stubs.v").read_text()
PORT = """    input AXI_{n}_ACLK, input AXI_{n}_ARESET_N, input [32:0] AXI_{n}_ARADDR, input [1:0] AXI_{n}_ARBURST,
    input [5:0] AXI_{n}_ARID, input [3:0] AXI_{n}_ARLEN, input [2:0] AXI_{n}_ARSIZE, input AXI_{n}_ARVALID,
    output AXI_{n}_ARREADY, input [32:0] AXI_{n}_AWADDR, input [1:0] AXI_{n}_AWBURST, input [5:0] AXI_{n}_AWID,
    input [3:0] AXI_{n}_AWLEN, input [2:0] AXI_{n}_AWSIZE, input AXI_{n}_AWVALID, output AXI_{n}_AWREADY,
    input [255:0] AXI_{n}_WDATA, input [31:0] AXI_{n}_WSTRB, input [31:0] AXI_{n}_WDATA_PARITY, input AXI_{n}_WLAST,
    input AXI_{n}_WVALID, output AXI_{n}_WREADY, output [5:0] AXI_{n}_BID, output [1:0] AXI_{n}_BRESP,
    output AXI_{n}_BVALID, input AXI_{n}_BREADY, output [5:0] AXI_{n}_RID, output [255:0] AXI_{n}_RDATA,
    output [1:0] AXI_{n}_RRESP, output AXI_{n}_RLAST, output AXI_{n}_RVALID, input AXI_{n}_RREADY,
"""
STACK = """    input HBM_REF_CLK_{n}, input APB_{n}_PCLK, input APB_{n}_PRESET_N, output apb_complete_{n},
    input [21:0] APB_{n}_PADDR, input APB_{n}_PSEL, input APB_{n}_PENABLE, input APB_{n}_PWRITE,
    input [31:0] APB_{n}_PWDATA, output [31:0] APB_{n}_PRDATA, output APB_{n}_PREADY, output APB_{n}_PSLVERR,
    output DRAM_{n}_STAT_CATTRIP, output [6:0] DRAM_{n}_STAT_TEMP"""


def hbm(used):
    """An empty controller with the ports that its settings enable."""
    ports = "".join(PORT.format(n=f"{number:02}") for number in used)
    stacks = ", ".join(STACK.format(n=number) for number in range(2))
    return f"module card_hbm(\n{ports}{stacks}\n); endmodule\n"


def machine(directory):
    """An empty machine with the ports that the manifest lists."""
    ports = json.loads((directory / "manifest.json").read_text())["accelerator"]["ports"]
    members = ",\n".join(f"    {port['direction']} [{port['width'] - 1}:0] {port['name']}" for port in ports)
    return f"module accelerator(\n{members}\n); endmodule\n"


@pytest.mark.parametrize(
    ("build", "name", "lanes", "bits"),
    [("small", "u280", 8, 256), ("full", "vcu128", 16, 512), ("integers", "vcu128", 16, 512)],
)
def test_the_design_lints(request, tmp_path, build, name, lanes, bits):
    directory = request.getfixturevalue(build)
    setup = (directory / "setup.tcl").read_text()
    used = [int(number) for number in re.findall(r"CONFIG.USER_SAXI_(\d\d) {true}", setup)]
    (tmp_path / "stubs.v").write_text(f"`define LANES {lanes}\n`define BITS {bits}\n{STUBS}{hbm(used)}")
    (tmp_path / "machine.v").write_text(machine(directory))
    waivers = [flag for flag in toolchain.WAIVER_FLAGS if not flag.startswith("-Wno-WIDTH")]
    command = ["verilator", "--lint-only", "-Wall", *waivers, "-Wno-fatal", "--top-module", name]
    command += [str(directory / f"{name}.v"), "stubs.v", "machine.v"]
    found = toolchain.run_tool(command, tmp_path)
    # Yosys widens and truncates inside of modules on purpose; a port that gets another width than it has is a mistake.
    shown = [line for line in found.splitlines() if line.startswith("%Warning")]
    wrong = [line for line in shown if "WIDTH" not in line or "port connection" in line]
    assert not wrong, "\n".join(wrong)
