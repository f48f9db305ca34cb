"""Runs a build's Tcl without Vivado: its commands are recorded, and answer as a test wants."""

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

FIELD, RECORD = "\x1f", "\x1e"
SILENT = """add_cells_to_pblock add_files create_clock create_ip create_pblock create_project generate_target
opt_design phys_opt_design place_design read_xdc report_cdc report_clock_utilization report_control_sets report_drc
report_io report_methodology report_power report_qor_assessment report_route_status report_timing_summary reset_path
resize_pblock route_design set_false_path set_max_delay set_msg_config set_multicycle_path set_property synth_design
write_bitstream write_checkpoint"""
PROGRAMMING = """open_hw_manager connect_hw_server open_hw_target current_hw_device refresh_hw_device program_hw_devices
write_cfgmem create_hw_cfgmem create_hw_bitstream program_hw_cfgmem boot_hw_device close_hw_target disconnect_hw_server
close_hw_manager"""
QUERIES = "get_cells get_files get_ips get_nets get_pblocks get_pins get_ports"

# A query gives what it was asked for; one by attributes gives a synchroniser, the settings, or nothing.
STUBS = """
set calls {}
proc record {name arguments} {lappend ::calls [linsert $arguments 0 $name]}
rename puts print
proc puts arguments {record puts [list $arguments]}
foreach name {%(silent)s} {proc $name args "record $name \\$args"}
if {"%(broken)s" ne "none"} {proc %(broken)s args {error "%(broken)s is broken"}}
proc find arguments {
    if {[string first "false_path ==" $arguments] >= 0} {return synchroniser}
    if {[string first "quasi_static ==" $arguments] >= 0} {return {%(settings)s}}
    if {[lsearch -exact $arguments -filter] >= 0 || [lsearch -exact $arguments -of] >= 0} {return {}}
    if {[lindex $arguments end] eq "%(missing)s"} {return {}}
    return [lindex $arguments end]
}
foreach name {%(queries)s} {proc $name args "record $name \\$args; find \\$args"}
proc get_clocks args {expr {"%(clocks)s" eq "" ? {} : "clock-of-[lindex $args end]"}}
proc current_design {} {return design}
proc version args {return "%(version)s"}
proc get_hw_targets {pattern} {record get_hw_targets [list $pattern]; return {%(cables)s}}
proc get_hw_devices {{pattern *}} {return {%(devices)s}}
proc get_cfgmem_parts {name} {return $name}
proc get_timing_paths {kind args} {record get_timing_paths [linsert $args 0 $kind]; return $kind}
proc get_property {name object} {
    if {$name eq "PERIOD"} {return 4.0}
    if {[string match PROGRAM.* $name]} {return $name}
    if {$name eq "SLACK"} {return [expr {$object eq "-setup" ? "%(wns)s" : "%(whs)s"}]}
    error "no property $name"
}
proc report_utilization args {
    record report_utilization $args
    if {[lsearch -exact $args -cells] >= 0} {
        return {
| CLB LUTs                   | 321000 |     0 |          0 |    432000 | 74.31 |
| CLB Registers              | 312345 |     0 |          0 |    864000 | 36.15 |
| Block RAM Tile             |    500 |     0 |          0 |       672 | 74.40 |
| URAM                       |    %(region_uram)s |     0 |          0 |       320 | 69.69 |
| DSPs                       |   1960 |     0 |          0 |      3072 | 63.80 |
        }
    }
    if {[lsearch -exact $args -slr] >= 0} {
        return {
|          Site Type         |  SLR0  |  SLR1  |  SLR2  | SLR0 %% | SLR1 %% | SLR2 %% |
| CLB LUTs                   | %(slr0_lut)s | 331000 | 321000 |  81.88 |  76.62 |  74.31 |
| CLB Registers              | 312345 | 312345 | 312345 |  35.52 |  36.15 |  36.15 |
| Block RAM Tile             |    500 |    500 |    500 |  74.40 |  74.40 |  74.40 |
| URAM                       |      1 |    223 |    223 |  <0.01 |  69.69 |  69.69 |
| DSPs                       |   1680 |   1960 |   1960 |  58.33 |  63.80 |  63.80 |
        }
    }
    return {
| CLB LUTs*                  | 834560 |     0 |          0 |   1303680 | 64.02 |
| CLB Registers              | 912345 |     0 |          0 |   2607360 | 35.00 |
| Block RAM Tile             |   %(bram)s |     0 |          0 |      2016 | 89.71 |
| URAM                       |    600 |     0 |          0 |       960 | 62.50 |
| DSPs                       |   2880 |     0 |          0 |      9024 | 31.91 |
}
}
proc quit {} {error quit}
"""
MAIN = """
if {[catch {source %(script)s} message] && $message ne "quit"} {error $message}
foreach call $calls {print -nonewline "[join $call \\x1f]\\x1e"}
flush stdout
"""


@dataclass(frozen=True)
class Answers:
    """What the stubs answer."""

    version: str = "2023.2"
    wns: str = "0.012"
    whs: str = "0.003"
    bram: str = "1808.5"
    region_uram: str = "224"
    slr0_lut: str = "360000"
    settings: str = "setting"
    missing: str = "none"
    broken: str = "none"
    clocks: str = "yes"
    cables: str = "cable"
    devices: str = "xcvu37p_0"


def interpreter() -> list[str]:
    """A command that takes a Tcl script; Python brings an interpreter nearly everywhere."""
    if importlib.util.find_spec("_tkinter"):
        return [sys.executable, "-c", "import sys, tkinter; tkinter.Tcl().eval('source ' + sys.argv[1])"]
    if shutil.which("tclsh"):
        return ["tclsh"]
    pytest.skip("neither Python's tkinter nor tclsh is installed")


def run(directory: Path, script: str, answers: Answers | None = None) -> list[list[str]]:
    """Source a file of a build and give the recorded commands, each with its arguments.

    Raises
    ------
    RuntimeError
        With what Tcl said, if the script fails.
    """
    return [call for call in _calls(directory, script, answers) if call[0] != "puts"]


def told(directory: Path, script: str, answers: Answers | None = None) -> list[str]:
    """Source a file of a build and give the lines that it prints."""
    return [call[1] for call in _calls(directory, script, answers) if call[0] == "puts"]


def _calls(directory: Path, script: str, answers: Answers | None) -> list[list[str]]:
    stubs = STUBS % {"silent": f"{SILENT} {PROGRAMMING}", "queries": QUERIES, **vars(answers or Answers())}
    main = directory / "dry_run.tcl"
    main.write_text(stubs + MAIN % {"script": script})
    result = subprocess.run([*interpreter(), main.name], cwd=directory, capture_output=True, text=True, check=False)
    main.unlink()
    if result.returncode:
        raise RuntimeError(result.stderr)
    calls = [call.split(FIELD) for call in result.stdout.split(RECORD)[:-1]]
    return [[call[0].rpartition("\n")[2], *call[1:]] for call in calls]  # what the script printed stands before
