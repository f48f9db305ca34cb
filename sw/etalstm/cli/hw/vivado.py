"""``eta-lstm hw build``, ``report``, ``program``: what Vivado does for a card: bitstreams, their costs, loading."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Option

from etalstm.cli.output import print_table
from etalstm.device.cards.nodes import PciBus, PciError
from etalstm.device.cards.xdma import check_unused
from etalstm.host.durable import write_whole
from etalstm.network.execution import PRESET_HELP
from etalstm_boards import program as programming
from etalstm_boards.bitstream import check_bitstream, read_bitstream
from etalstm_boards.build import Options, platform, prepare, results
from etalstm_boards.pcie import LINKS, VENDOR_ID
from etalstm_boards.reports import read_report
from etalstm_boards.run import find_vivado, run_here, run_in_container, run_remotely


def build(
    board: Annotated[str, Option(help="Card: vcu128 or u280")],
    out: Annotated[Path, Option("-o", "--out", help="Folder for the build, which is created")],
    preset: Annotated[str | None, Option(help=f"{PRESET_HELP} [default: the card's]")] = None,
    pcie: Annotated[str, Option(help="Width of the PCIe link: x16, x8 or x4")] = "x16",
    do_build: Annotated[bool, Option("--do-build", help="Run Vivado: hours")] = False,
    vivado: Annotated[Path | None, Option(help="Run this Vivado [default: the one on PATH]")] = None,
    docker: Annotated[str | None, Option(help="Run Vivado in a container of this image")] = None,
    ssh: Annotated[str | None, Option(help="Run Vivado on another machine: [user@]host[:folder]")] = None,
) -> None:
    """Write a folder that ``vivado -mode batch -source BOARD.tcl`` turns into a bitstream; or do that as well."""
    ways = [name for name, way in (("--vivado", vivado), ("--docker", docker), ("--ssh", ssh)) if way is not None]
    if len(ways) > 1:
        raise ValueError(f"only one of {' and '.join(ways)} can be used")
    if ways and not do_build:
        raise ValueError(f"{ways[0]} is only for --do-build")
    platform(board)  # refuse before Vivado is looked for
    program = find_vivado(vivado) if do_build and docker is None and ssh is None else None
    plan = prepare(Options(board, preset or board, pcie))
    if docker is not None:
        run_in_container(plan, out, docker, results(board))
    elif ssh is not None:
        run_remotely(plan, out, ssh, results(board))
    elif program is not None:
        run_here(plan, out, program, results(board))
    else:
        plan.extract(out)
    for name in (*plan.files, *(results(board) if do_build else ())):
        if (out / name).exists():
            print(out / name)


def report(
    vivado: Annotated[Path, Option(help="Folder of a build in which Vivado has run")],
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Tell what a machine costs: resources, timing and power of a build, as Vivado reported them."""
    found = read_report(vivado)
    if as_json:
        print(json.dumps(found.as_dict()))
        return
    table = Table("resource", "used", "available", "share", title=f"{found.preset} on {found.board}, {found.build}")
    for kind, usage in found.utilization.items():
        table.add_row(kind, f"{usage.used:,g}", f"{usage.available:,g}", f"{usage.share:.1%}")
    print_table(table)
    print(f"timing {'met' if found.met else 'MISSED'}: worst setup slack {found.wns_ns} ns, hold {found.whs_ns} ns")
    print(f"power on the chip, estimated: {found.power_watts} W")


_DEVICES = {int(link.device_id, 16) for link in LINKS.values()}


def program(
    board: Annotated[str, Option(help="Card: vcu128 or u280")],
    bitstream: Annotated[Path | None, Option(help="The .bit file [default: build/BOARD/BOARD.bit]")] = None,
    flash: Annotated[bool, Option("--flash", help="Write it to the card's flash, for every start")] = False,
    rescan: Annotated[bool, Option("--rescan", help="Take the card off PCIe and find it again; needs root")] = False,
    only_rescan: Annotated[bool, Option("--only-rescan", help="Load nothing, just find the card again")] = False,
    pci: Annotated[str | None, Option(help="Address of the card on PCIe, if there are several: 0000:65:00.0")] = None,
    vivado: Annotated[Path | None, Option(help="Use this Vivado [default: the one on PATH]")] = None,
    server: Annotated[str, Option(help="hw_server that has the JTAG cable")] = programming.SERVER,
    target: Annotated[str, Option(help="Pattern of the cable's name, if there are several")] = "*",
    out: Annotated[Path | None, Option("-o", "--out", help="Write the Tcl script here and do nothing else")] = None,
) -> None:
    """Load a bitstream by JTAG into a card, or into its flash."""
    card, bus = platform(board), PciBus()
    if only_rescan:
        with _off_the_bus(bus, pci):
            return
    source = bitstream or Path("build", board, f"{board}.bit")
    script = programming.script(card, source, flash=flash, server=server, target=target)
    if out is not None:
        write_whole(out, script)
        print(f"vivado -mode batch -source {out}")
        return
    check_bitstream(read_bitstream(source), card)
    tool = find_vivado(vivado)
    path = source.with_name(f"{board}_program.tcl")
    write_whole(path, script)
    if rescan:
        with _off_the_bus(bus, pci):
            programming.run(tool, path)
    else:
        programming.run(tool, path)
        print("programmed; now rescan PCIe (eta-lstm hw program --only-rescan) or restart the host, its power left on")


@contextmanager
def _off_the_bus(bus: PciBus, address: str | None) -> Iterator[None]:
    """Take the card off the bus for as long as it is worked on, and put it back whatever comes."""
    bus.check_writable()
    found = bus.find(VENDOR_ID, _DEVICES)
    if address is not None and address not in found:
        raise PciError(f"there is no card at {address}; there are: {', '.join(found) or 'none'}")
    if address is None and len(found) > 1:
        raise PciError(f"there are several cards, choose one with --pci: {', '.join(found)}")
    for chosen in [address] if address else found:
        for name in bus.cards(chosen):
            check_unused(int(name.removeprefix("xdma:")))
        bus.remove(chosen)
    count = max(len(found), 1)
    try:
        yield
    except BaseException:
        with suppress(PciError):  # what went wrong before says more
            bus.rescan(VENDOR_ID, _DEVICES, count)
        raise
    for each in bus.rescan(VENDOR_ID, _DEVICES, count):
        print(f"{each}: {', '.join(bus.cards(each)) or 'no driver has it (modprobe xdma)'}")
