"""``eta-lstm hw program``: a bitstream into a card, and the card back onto the bus."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.device.cards.nodes import PciBus, PciError
from etalstm.device.cards.xdma import check_unused
from etalstm.host.durable import write_whole
from etalstm_boards import program as programming
from etalstm_boards.bitstream import check_bitstream, read_bitstream
from etalstm_boards.build import platform
from etalstm_boards.pcie import LINKS, VENDOR_ID
from etalstm_boards.run import find_vivado

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
    """Context in which the card is off the bus. Afterwards, and after an error, it is found again."""
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
        with suppress(PciError):  # the first error says more
            bus.rescan(VENDOR_ID, _DEVICES, count)
        raise
    for each in bus.rescan(VENDOR_ID, _DEVICES, count):
        print(f"{each}: {', '.join(bus.cards(each)) or 'no driver has it (modprobe xdma)'}")
