"""Writes the files of a build, of which Vivado makes a bitstream."""

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from amaranth.build.run import BuildPlan

import etalstm_boards
import etalstm_hw
from etalstm.host.computer import seldom_collected
from etalstm_boards import floorplan, tcl
from etalstm_boards.card import ACCELERATOR, Card
from etalstm_boards.clocking import clocking
from etalstm_boards.dsp import DSP48E2PE
from etalstm_boards.part import XCVU37P, check_fit
from etalstm_boards.pcie import link
from etalstm_boards.platform import CardPlatform
from etalstm_boards.ports import MEMORY_BYTES, channels_by_region, port_map
from etalstm_boards.u280 import U280Platform
from etalstm_boards.vcu128 import VCU128Platform
from etalstm_hw import generate
from etalstm_hw.config import preset

PLATFORMS: dict[str, type[CardPlatform]] = {"vcu128": VCU128Platform, "u280": U280Platform}
_UNUSED = (".bat", ".json", ".debug.v")  # endings of Amaranth's files for Windows, for other tools, for debugging


@dataclass(frozen=True)
class Options:
    """Board, configuration and link that a bitstream is built for.

    Members
    -------
    board : str
        One of :data:`PLATFORMS`.
    preset : str
        Configuration of the accelerator.
    pcie : str
        Width of the link, one of :data:`etalstm_boards.pcie.LINKS`.
    """

    board: str
    preset: str
    pcie: str = "x16"


def results(board: str) -> tuple[str, ...]:
    """Name the files that Vivado adds to a build's directory and that are results, the bitstream first."""
    names = (
        "timing", "utilization_place", "utilization_slr", "qor_assessment", "cdc", "power", "drc", "methodology",
    )  # fmt: skip
    return f"{board}.bit", f"{board}.bin", f"{board}.log", *(f"{board}_{name}.rpt" for name in names)


def platform(board: str) -> CardPlatform:
    """Make the platform of a board.

    Raises
    ------
    ValueError
        If there is none of that name; the message lists the known names.
    """
    if board not in PLATFORMS:
        raise ValueError(f"unknown board {board!r}, expected one of: {', '.join(PLATFORMS)}")
    return PLATFORMS[board]()


def build_id(options: Options) -> int:
    """Give 32 bits that identify what a bitstream was built from: the generator's sources, and the options.

    Equal sources and options give equal numbers on every machine. The number is never 0, which means a simulation.
    """
    digest = hashlib.sha256(json.dumps([vars(options), version("amaranth")]).encode())
    for package in (etalstm_hw, etalstm_boards):
        directory = Path(package.__path__[0])
        for path in sorted(directory.rglob("*.py")):
            digest.update(f"{path.relative_to(directory).as_posix()}\n".encode() + path.read_bytes())
    return int.from_bytes(digest.digest()[:4], "big") or 1


@seldom_collected()
def prepare(options: Options) -> BuildPlan:
    """Write every file of a build.

    Returns
    -------
    BuildPlan
        Amaranth's: its files can be extracted, archived, or run here, in a container or on another machine.

    Raises
    ------
    ValueError
        If there is no such board, preset or link, or the preset does not fit the card.
    """
    card = platform(options.board)
    config, host = preset(options.preset), link(options.pcie)
    check_fit(config, XCVU37P, channels_by_region(config), card.part)
    settings, build = clocking(config), build_id(options)
    name = card.name
    card.add_file(f"{ACCELERATOR}.v", generate.verilog(config, ACCELERATOR, build=build, integer_pe=DSP48E2PE))
    scripts = {
        "setup.tcl": tcl.setup(config, host, settings),
        "timing.tcl": tcl.timing(),
        "floorplan.tcl": floorplan.floorplan(config),
        "size_check.tcl": floorplan.size_check(config, XCVU37P),
        "reports.tcl": tcl.reports(name),
        "region_check.tcl": floorplan.region_check(XCVU37P),
        "timing_check.tcl": tcl.timing_check(),
    }
    for file_name, text in scripts.items():
        card.add_file(file_name, text)
    full = card.build(
        Card(config, host, build),
        name=name,
        do_build=False,
        emit_src=False,
        script_after_read="source setup.tcl",
        synth_design_opts="-flatten_hierarchy rebuilt",
        script_after_synth="source timing.tcl\nsource size_check.tcl\nsource floorplan.tcl",
        script_after_place=f"{tcl.AFTER_PLACE}\nsource reports.tcl\nsource region_check.tcl",
        script_before_bitstream="source timing_check.tcl",
        add_constraints=_constraints(card),
    )
    plan = BuildPlan(full.script)
    for file_name, text in full.files.items():
        if not file_name.endswith(_UNUSED):
            plan.add_file(file_name, tcl.directed(text) if file_name == f"{name}.tcl" else text)
    plan.add_file("manifest.json", _manifest(options, plan.files, build))
    return plan


def _constraints(card: CardPlatform) -> str:
    """Write the properties of the bitstream, and the untimed pins: button, slot reset, lights, console."""
    lines = [f"set_property {key} {{{value}}} [current_design]" for key, value in card.programming.items()]
    lines += [f"set_false_path -from [get_ports {{{pin}_0__io}}]" for pin in ("cpu_reset", "pcie_perst")]
    outputs = [f"led_{number}__io" for number in range(card.lights)]
    others = {("hbm_cattrip", 0): "hbm_cattrip_0__io", ("uart", 0): "uart_0__tx__io"}
    outputs += [port for resource, port in others.items() if resource in card.resources]
    lines += [f"set_false_path -to [get_ports {{{port}}}]" for port in outputs]
    return "\n".join(lines)


def _manifest(options: Options, files: dict[str, str], build: int) -> str:
    """Describe a build: board and preset, its identity, the users of the memory's ports, digests of the files."""
    config = preset(options.preset)
    settings, ports = clocking(config), port_map(config)
    described = {
        "board": options.board,
        "part": platform(options.board).part,
        "pcie": options.pcie,
        "build": f"{build:#010x}",
        "clocks_mhz": {name: ratio.mhz for name, ratio in vars(settings).items()},
        "memory": {"host_address": 0, "bytes": MEMORY_BYTES, "ports": vars(ports)},
        "accelerator": generate.manifest(config, options.preset),
        "sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())},
    }
    return json.dumps(described, indent=2) + "\n"
