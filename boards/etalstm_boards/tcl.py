"""The Tcl scripts of a build: IP, constraints, reports, and the check of timing."""

import textwrap

from etalstm_boards.clocking import Clocking
from etalstm_boards.hbm import MODULE as HBM
from etalstm_boards.hbm import properties as hbm_properties
from etalstm_boards.pcie import MODULE as XDMA
from etalstm_boards.pcie import Link
from etalstm_boards.ports import port_map
from etalstm_hw.config import Config
from etalstm_hw.machine.settings import MARK, SETTLING_CYCLES

MINIMUM_VIVADO = (2020, 2)  # the oldest of the public designs for this part that use these settings of the IPs

# Messages after which the bitstream would not work as intended.
FATAL_MESSAGES = {
    "Synth 8-3352": "a net has several drivers",
    "Synth 8-439": "a module is missing",
    "Project 1-486": "a black box was not resolved",
    "Vivado 12-4739": "a constraint matches nothing",
    "Common 17-55": "a constraint matches nothing",
    "Designutils 20-1307": "a command is not allowed in constraints",
    "IP_Flow 19-3374": "a setting of an IP is invalid",
    "IP_Flow 19-3461": "a setting of an IP is out of range",
    "Place 30-574": "a clock pin cannot reach its buffer",
    "DRC NSTD-1": "a pin has no standard",
    "DRC UCIO-1": "a pin has no place",
}

# What the tool tries for longer than it does by itself (AMD UG904): the part is four fifths full, and the clock fast.
DIRECTIVES = {"opt_design": "Explore", "place_design": "Explore", "route_design": "AggressiveExplore"}
AFTER_PLACE = "phys_opt_design -directive AggressiveExplore"


def tcl_text(text: str) -> str:
    """Give a text of Tcl without the indentation that it has in Python."""
    return textwrap.dedent(text).strip() + "\n"


def setup(config: Config, link: Link, settings: Clocking) -> str:
    """Write the script before synthesis: check of the version, messages that become errors, the two IPs."""
    version = ".".join(map(str, MINIMUM_VIVADO))
    fatal = "\n".join(f"set_msg_config -id {{{name}}} -new_severity ERROR" for name in FATAL_MESSAGES)
    check = tcl_text(f"""
        if {{![regexp {{^[0-9]+\\.[0-9]+}} [version -short] found] || [package vcompare $found {version}] < 0}} {{
            error "Vivado {version} or later is needed, this is [version -short]"
        }}
        """)
    hbm = hbm_properties(port_map(config).used, settings.hbm.mhz)
    return "\n".join([check, fatal, "", _ip("xdma", XDMA, link.properties()), _ip("hbm", HBM, hbm)])


def _ip(name: str, module: str, properties: dict[str, str]) -> str:
    """Write the creation of an IP, in the newest version that Vivado has, synthesised with the rest of the design.

    If it were synthesised apart, it would be a black box without clocks until the design is linked.
    """
    lines = "".join(f"    CONFIG.{key} {{{value}}} \\\n" for key, value in properties.items())
    return (
        f"create_ip -name {name} -vendor xilinx.com -library ip -module_name {module}\n"
        f"set_property -dict [list \\\n{lines}] [get_ips {module}]\n"
        f"set_property generate_synth_checkpoint false [get_files {module}.xci]\n"
        f"generate_target all [get_ips {module}]\n"
    )


def directed(script: str) -> str:
    """Give a step of :data:`DIRECTIVES` its directive; ``ValueError`` if the script has not each of them once."""
    lines = script.splitlines(keepends=True)
    for step, directive in DIRECTIVES.items():
        places = [number for number, line in enumerate(lines) if line.strip() == step]
        if len(places) != 1:
            raise ValueError(f"the build's script has {len(places)} lines {step!r}, expected one")
        lines[places[0]] = f"{step} -directive {directive}\n"
    return "".join(lines)


def timing() -> str:
    """Write the constraints between asynchronous clocks, and of registers that are constant while a program runs."""
    return _crossings() + _settings()


def _settings() -> str:
    """Write how long the paths from the machine's settings may take; a design without any is an error."""
    return tcl_text(f"""
        set settings [get_cells -quiet -hier -filter {{{MARK} == "TRUE"}}]
        if {{[llength $settings] == 0}} {{
            error "the design has no register with the attribute {MARK}"
        }}
        set_multicycle_path {SETTLING_CYCLES} -setup -from $settings
        set_multicycle_path {SETTLING_CYCLES - 1} -hold -from $settings
        """)


def _crossings() -> str:
    """Write the constraints between asynchronous clocks.

    All signals cross through synchronisers, or FIFOs with Gray counters. These need a bound on the delay: at most a
    period, whatever the phases. Amaranth's script takes the synchronisers out of timing. This is undone here, or the
    bits of a Gray counter could arrive in any order.
    """
    return tcl_text("""
        foreach cell [get_cells -quiet -hier -filter {amaranth.vivado.false_path == "TRUE"}] {
            reset_path -to $cell
        }
        proc clock_of {pin} {
            set clocks [get_clocks -of_objects [get_pins $pin]]
            if {[llength $clocks] != 1} {
                error "$pin carries [llength $clocks] clocks, not 1"
            }
            return $clocks
        }
        set domains [list \\
            [clock_of board_buffer/O] \\
            [clock_of clocks/accelerator_buffer/O] \\
            [clock_of clocks/hbm_buffer/O] \\
            [clock_of xdma/ip/axi_aclk] \\
        ]
        foreach from $domains {
            foreach to $domains {
                if {$from ne $to} {
                    set period [expr {min([get_property PERIOD $from], [get_property PERIOD $to])}]
                    set_max_delay -datapath_only -from $from -to $to $period
                }
            }
        }
        """)


def reports(name: str) -> str:
    """Write the reports after placement beside those of Amaranth's script; one that fails does not stop the build."""
    commands = {
        "utilization_slr": "report_utilization -slr",
        "qor_assessment": "report_qor_assessment",
        "cdc": "report_cdc -details",
    }
    written = "".join(f"write_report {name}_{report}.rpt {command}\n" for report, command in commands.items())
    return _WRITE_REPORT + written


_WRITE_REPORT = tcl_text("""
    proc write_report {file args} {
        if {[catch {{*}$args -file $file} message]} {
            puts "WARNING: eta-lstm: $file: $message"
        }
    }
    """)


def timing_check() -> str:
    """Write the check, before the bitstream, that timing is met."""
    return tcl_text("""
        foreach {kind name} {-setup WNS -hold WHS} {
            set paths [get_timing_paths $kind -max_paths 1 -nworst 1]
            if {[llength $paths] == 0} {
                error "no timing path was found: the clocks are not constrained"
            }
            set slack [get_property SLACK $paths]
            puts "eta-lstm: $name $slack ns"
            if {$slack < 0} {
                error "timing is not met: $name is $slack ns; lower clock_mhz, or look at the timing report"
            }
        }
        """)
