"""Runs cocotb tests on the Verilog of a component, under Verilator."""

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import cocotb_tools.config
from amaranth.lib import wiring
from cocotb_tools.runner import get_runner

from etalstm_hw.generate import component_verilog
from etalstm_sim.compiled import toolchain
from etalstm_sim.compiled.runtime import place_runtime

WAVES = "ETALSTM_WAVES"
WAVEFORM = "dump.vcd"  # the name in cocotb's main program for Verilator
WRITTEN: list[Path] = []  # the waveforms of this process
# Files whose failed assertions show the values. cocotb's default is every module, also NumPy's: seconds a run.
_TOLD = {"COCOTB_REWRITE_ASSERTION_FILES": "bench_*.py"}
_LIBRARIES, _LIBRARY_PATH = "libraries", "LD_LIBRARY_PATH"
_COMPILE_FLAGS = f"-O1 {toolchain.COMPILER_LIMIT}"  # a bench is compiled more often than it runs long


def build_bench(
    source: str, top_name: str, parameters: Mapping[str, object] | None = None, waves: bool = False
) -> Path:
    """Compile Verilog for cocotb, once per source.

    Only the ports of the top module are visible to the tests, which keeps the simulation fast.

    Parameters
    ----------
    source : str
        Verilog with a module `top_name`.
    parameters : mapping
        Verilog parameters of the top module.
    waves : bool
        Make a build that can write a waveform.

    Returns
    -------
    Path
        The folder with the executable.
    """
    flags = ["--cc", "--exe", "--vpi", "--public-depth", "1", "--prefix", "Vtop", "--top-module", top_name]
    flags += ["-o", top_name, "--timescale", "1ns/1ps", *toolchain.WAIVER_FLAGS]
    flags += ["-LDFLAGS", f"-L{_LIBRARIES} -lcocotbvpi_verilator"]
    flags += ["--trace-vcd"] if waves else []
    flags += [f"-G{name}={value}" for name, value in (parameters or {}).items()]
    main = (cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp").read_text(encoding="utf-8")

    def build(directory: Path):
        (directory / "bench.v").write_text(source, encoding="utf-8")
        (directory / "main.cpp").write_text(main, encoding="utf-8")
        (directory / _LIBRARIES).symlink_to(cocotb_tools.config.libs_dir)  # whose name may have blanks
        toolchain.run_tool(["verilator", *flags, "-Mdir", ".", "main.cpp", "bench.v"], directory)
        speed = [f"OPT_FAST={_COMPILE_FLAGS}", "OPT_SLOW=-O0", f"VM_TRACE={int(waves)}"]
        make = toolchain.make_command("-j", "2", "-f", "Vtop.mk", *speed)
        place_runtime(make, directory, directory)
        toolchain.run_tool(make, directory)
        for path in directory.iterdir():
            if path.name not in (top_name, "bench.v", "build.log"):
                path.unlink()

    key = [source, main, version("cocotb"), _COMPILE_FLAGS, *flags]
    return toolchain.compiled_build("bench", key, build)[0]


def run_bench(
    component: wiring.Component | str,
    top_name: str,
    test_module: str | Path,
    build_dir: Path | None = None,
    parameters: Mapping[str, object] | None = None,
    *,
    test_filter: str | None = None,
    environment: Mapping[str, str] | None = None,
    seed: int = 1,
    waves: bool | None = None,
) -> Path:
    """Run the cocotb tests of a module on a component.

    Parameters
    ----------
    component : Component or str
        Amaranth component, or Verilog already written. Its ports are named as Amaranth flattens them, the clock and
        reset of domain ``sync`` are ``clk`` and ``rst``.
    top_name : str
        Name of the Verilog module.
    test_module : str or Path
        Module with ``@cocotb.test`` functions; a path (``Path(__file__)``) need not be importable otherwise.
    build_dir : Path, optional
        Where results, log and waveform go; default: a folder next to the build in the cache.
    parameters : mapping, optional
        Verilog parameters.
    test_filter : str, optional
        Regular expression: run only tests whose name it finds.
    environment : mapping, optional
        Environment variables for the tests.
    seed : int
        Seed of ``random`` in the tests.
    waves : bool, optional
        Write ``dump.vcd`` into the folder of the results. Default: if :data:`WAVES` is set in the environment.

    Returns
    -------
    Path
        The xUnit results.

    Raises
    ------
    AssertionError
        If a test fails or none ran; the message has the names and the failures, and how to get a waveform or where it
        is.
    ToolchainError
        If the build fails.
    """
    waves = bool(os.environ.get(WAVES)) if waves is None else waves
    source = component
    if not isinstance(component, str):
        source = component_verilog(component, top_name)
    executables = build_bench(source, top_name, parameters, waves)
    module = Path(test_module).stem if isinstance(test_module, Path) else test_module
    results = (build_dir or executables / "results" / f"{module}-{os.getpid()}").resolve()
    results.mkdir(parents=True, exist_ok=True)
    log, report = results / "run.log", results / "results.xml"
    report.unlink(missing_ok=True)
    search_path = list(sys.path)
    try:
        if isinstance(test_module, Path):
            sys.path.insert(0, str(test_module.resolve().parent))  # the runner hands sys.path to the simulation
        get_runner("verilator").test(
            test_module=module, hdl_toplevel=top_name, hdl_toplevel_lang="verilog", build_dir=executables,
            test_dir=results, results_xml=str(report), test_filter=test_filter, seed=seed, waves=waves,
            extra_env={_LIBRARY_PATH: _library_path(), **_TOLD, **(environment or {})}, log_file=log,
        )  # fmt: skip
    except SystemExit:
        pass  # the results say more
    finally:
        sys.path[:] = search_path
    WRITTEN.extend([results / WAVEFORM] if waves else [])
    hint = f"waveform: {results / WAVEFORM}" if waves else f"set {WAVES}=1 for a waveform"
    _check(report, log, hint)
    return report


def _library_path() -> str:
    """Give the search path of libraries: those of cocotb, then those of this process."""
    return os.pathsep.join(filter(None, [str(cocotb_tools.config.libs_dir), os.environ.get(_LIBRARY_PATH)]))


def _check(report: Path, log: Path, hint: str):
    """Raise ``AssertionError`` unless the results say that tests ran and none failed; `hint` ends its message."""
    tail = (
        "\n".join(log.read_text(errors="replace", encoding="utf-8").splitlines()[-40:]) if log.exists() else "(no log)"
    )
    assert report.exists(), f"the simulation left no results; end of {log}:\n{tail}"
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    assert cases, f"no cocotb test ran; end of {log}:\n{tail}"
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    names = ", ".join(case.get("name", "(unnamed)") for case in failed)
    assert not failed, f"{len(failed)} of {len(cases)} cocotb tests failed: {names}; end of {log}:\n{tail}\n{hint}"
