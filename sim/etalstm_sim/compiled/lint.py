"""Checks generated Verilog with Verilator's linter."""

import tempfile
from pathlib import Path

from etalstm_sim.compiled import toolchain


def lint(source: str, top_name: str = "top") -> None:
    """Run ``verilator --lint-only -Wall`` with the waivers of :data:`toolchain.WAIVERS`.

    Raises
    ------
    ToolchainError
        If anything else is reported; the message shows it.
    """
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "top.v").write_text(source, encoding="utf-8")
        command = ["verilator", "--lint-only", "-Wall", *toolchain.WAIVER_FLAGS, "--top-module", top_name, "top.v"]
        toolchain.run_tool(command, Path(directory))
