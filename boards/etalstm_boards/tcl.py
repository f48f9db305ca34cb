"""The Tcl scripts of a build: IP, constraints, floorplan, and checks that stop it."""

import textwrap

from etalstm_boards.clocking import Clocking
from etalstm_boards.hbm import MODULE as HBM
from etalstm_boards.hbm import properties as hbm_properties
from etalstm_boards.part import Part, Resources
from etalstm_boards.pcie import MODULE as XDMA
from etalstm_boards.pcie import Link
from etalstm_boards.ports import channels_by_region, port_map, region_of_channel
from etalstm_boards.resources.limits import LARGEST_SHARE
from etalstm_hw.config import Config
from etalstm_hw.machine.groups import path_of

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

# Rows of Vivado's utilisation report, by the field of Resources.
UTILIZATION_ROWS = {
    "lut": "CLB LUTs",
    "ff": "CLB Registers",
    "dsp": "DSPs",
    "bram": "Block RAM Tile",
    "uram": "URAM",
}


def _tcl(text: str) -> str:
    return textwrap.dedent(text).strip() + "\n"


def setup(config: Config, link: Link, settings: Clocking) -> str:
    """Write the script before synthesis: check of the version, messages that become errors, the two IPs."""
    version = ".".join(map(str, MINIMUM_VIVADO))
    fatal = "\n".join(f"set_msg_config -id {{{name}}} -new_severity ERROR" for name in FATAL_MESSAGES)
    check = _tcl(f"""
        if {{![regexp {{^[0-9]+\\.[0-9]+}} [version -short] found] || [package vcompare $found {version}] < 0}} {{
            error "Vivado {version} or later is needed, this is [version -short]"
        }}
        """)
    hbm = hbm_properties(port_map(config).used, settings.hbm_mhz)
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
    """Write the constraints between asynchronous clocks.

    All signals cross through synchronisers, or FIFOs with Gray counters. These need a bound on the delay: at most a
    period, whatever the phases. Amaranth's script takes the synchronisers out of timing. This is undone here, or the
    bits of a Gray counter could arrive in any order.
    """
    return _tcl("""
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


def _used(config: Config) -> list[int]:
    """Give the regions that have channels."""
    return [region for region, count in enumerate(channels_by_region(config)) if count]


def _cells(config: Config, region: int) -> str:
    """Write a command that gives the channels of a region; a name that the design lacks is an error.

    Vivado itself only warns of names that are not there, and the rest of a list is placed as if nothing was missing.
    """
    paths = (
        f"    shell/accelerator/{path_of(config, channel)} \\\n"
        for channel in range(config.channels)
        if region_of_channel(config, channel) == region
    )
    return f"[cells_of [list \\\n{''.join(paths)}]]"


_CELLS_OF = _tcl("""
    proc cells_of {names} {
        foreach name $names {
            if {[llength [get_cells -quiet $name]] != 1} {
                error "the design has no cell $name"
            }
        }
        return [get_cells $names]
    }
    """)


def floorplan(config: Config) -> str:
    """Write the floorplan: each channel in one region of the chip, the channels of a port in the same."""
    lines = [_CELLS_OF]
    for region in _used(config):
        lines += [
            f"create_pblock region{region}",
            f"resize_pblock [get_pblocks region{region}] -add SLR{region}",
            f"add_cells_to_pblock [get_pblocks region{region}] {_cells(config, region)}",
        ]
    return "\n".join(lines) + "\n"


def size_check(config: Config, part: Part) -> str:
    """Write the check, after synthesis, that the part has enough of each resource, and each region for its channels.

    It prints every share. Above :data:`LARGEST_SHARE` it warns: what is left may not be enough for routing, and in the
    first region for memory controller and host link.
    """
    lines = [_CELLS_OF, _CHECK_SIZE, f'check_size "the part" {_limits(part.whole)}']
    for region in _used(config):
        cells = f"-cells {_cells(config, region)}"
        lines.append(f'check_size "SLR{region}, its channels" {_limits(part.regions[region])} {cells}')
    return "\n".join(lines) + "\n"


def _limits(resources: Resources) -> str:
    rows = "".join(f"    {{{row}}} {getattr(resources, kind)}\n" for kind, row in UTILIZATION_ROWS.items())
    return f"{{\n{rows}}}"


_CHECK_SIZE = _tcl(rf"""
    proc check_size {{what limits args}} {{
        set report [report_utilization -return_string {{*}}$args]
        foreach {{row limit}} $limits {{
            if {{![regexp "\\| *$row\\*? *\\| *(\[0-9.\]+) *\\|" $report -> used]}} {{
                error "the utilisation report has no row $row"
            }}
            if {{$used > $limit}} {{
                error "$what: $row: $used are needed, there are $limit"
            }}
            set share [format "%.0f %%" [expr {{100.0 * $used / $limit}}]]
            puts "eta-lstm: $what: $row: $used of $limit, $share"
            if {{$used > {LARGEST_SHARE} * $limit}} {{
                puts "CRITICAL WARNING: eta-lstm: $what: $row: $share, more than {LARGEST_SHARE:.0%} may not route"
            }}
        }}
    }}
    """)


def timing_check() -> str:
    """Write the check, before the bitstream, that timing is met."""
    return _tcl("""
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
