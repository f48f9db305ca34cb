"""Which channels lie in which region of the chip (SLR), and the checks that each region holds what lies there."""

from etalstm_boards.part import Part, Resources, of_channel
from etalstm_boards.ports import channels_by_region, region_of_channel
from etalstm_boards.resources.limits import LARGEST_SHARE, MOST_USED
from etalstm_boards.tcl import tcl_text
from etalstm_hw.config import Config
from etalstm_hw.machine.groups import path_of

# Rows of Vivado's utilisation report, by the field of Resources.
UTILIZATION_ROWS = {
    "lut": "CLB LUTs",
    "ff": "CLB Registers",
    "dsp": "DSPs",
    "bram": "Block RAM Tile",
    "uram": "URAM",
}


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


_CELLS_OF = tcl_text("""
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
    first region for memory controller and host link. Above :data:`MOST_USED` it stops the build. It also stops if the
    channels have less ultra RAM than their weights need: then the tool has made block RAM of some.
    """
    lines = [_CELLS_OF, _CHECK_SHARE, _CHECK_SIZE, _CHECK_ULTRA, f'check_size "the part" {_limits(part.whole)}']
    for region, count in enumerate(channels_by_region(config)):
        if count:
            what, cells = f'"SLR{region}, its channels"', f"-cells {_cells(config, region)}"
            lines.append(f"check_size {what} {_limits(part.regions[region])} {cells}")
            lines.append(f"check_ultra {what} {of_channel(config).uram * count} {cells}")
    return "\n".join(lines) + "\n"


def _limits(resources: Resources) -> str:
    rows = "".join(f"    {{{row}}} {getattr(resources, kind)}\n" for kind, row in UTILIZATION_ROWS.items())
    return f"{{\n{rows}}}"


_CHECK_SHARE = tcl_text(f"""
    proc check_share {{what row used there}} {{
        if {{$used > {MOST_USED} * $there}} {{
            error "$what: $row: $used are needed, at most {MOST_USED:.0%} of $there can be used"
        }}
        set share [format "%.0f %%" [expr {{100.0 * $used / $there}}]]
        puts "eta-lstm: $what: $row: $used of $there, $share"
        if {{$used > {LARGEST_SHARE} * $there}} {{
            puts "CRITICAL WARNING: eta-lstm: $what: $row: $share, more than {LARGEST_SHARE:.0%} may not route"
        }}
    }}
    """)

_CHECK_SIZE = tcl_text(r"""
    proc check_size {what limits args} {
        set report [report_utilization -return_string {*}$args]
        foreach {row there} $limits {
            if {![regexp "\\| *$row\\*? *\\| *(\[0-9.\]+) *\\|" $report -> used]} {
                error "the utilisation report has no row $row"
            }
            check_share $what $row $used $there
        }
    }
    """)


_CHECK_ULTRA = tcl_text(r"""
    proc check_ultra {what needed args} {
        regexp {\| *URAM\*? *\| *([0-9.]+) *\|} [report_utilization -return_string {*}$args] -> used
        if {$used < $needed} {
            error "$what: $used ultra RAMs, $needed are needed: the tool has not heeded ram_style, see its log"
        }
    }
    """)


def region_check(part: Part) -> str:
    """Write the check, after placement, of all that lies in each region, by the limits of :func:`size_check`."""
    lines = [_CHECK_SHARE, _CHECK_REGION]
    lines += [f"check_region {number} {_limits(region)}" for number, region in enumerate(part.regions)]
    return "\n".join(lines) + "\n"


# A row of the report has what each region uses, then the shares of it, of which a small one is "<0.01".
_CHECK_REGION = tcl_text(r"""
    proc check_region {number limits} {
        set report [report_utilization -slr -return_string]
        set cell { *<?([0-9.]+) *\|}
        foreach {row there} $limits {
            set found [regexp -inline "\\| *$row\\*? *\\|[string repeat $cell 6]" $report]
            if {[llength $found] == 0} {
                error "the utilisation report has no row $row with three regions"
            }
            check_share "SLR$number" $row [lindex $found [expr {$number + 1}]] $there
        }
    }
    """)
