"""Loads a bitstream into a card by JTAG: until the power goes, or into its flash for every start."""

import re
import subprocess
from pathlib import Path

from etalstm.errors import BuildError
from etalstm_boards.platform import CardPlatform

SERVER = "localhost:3121"  # Vivado's hw_server, which Vivado starts itself there
TIMEOUT_SECONDS = 3600  # writing a whole flash takes a quarter of an hour
_FLASH_MEGABYTES = {"mt25qu01g": 128, "mt25qu02g": 256}

_CONNECT = """\
open_hw_manager
connect_hw_server -url {server}
set targets [get_hw_targets {target}]
if {{[llength $targets] != 1}} {{
    error "[llength $targets] JTAG cables fit {target}, not 1; there are: [get_hw_targets *]"
}}
open_hw_target $targets
set device [lindex [get_hw_devices {device}] 0]
if {{$device eq ""}} {{
    error "no {device} on the cable $targets; there are: [get_hw_devices]"
}}
current_hw_device $device
refresh_hw_device -update_hw_probes false $device
"""

_LOAD = """\
set_property PROGRAM.FILE {{{bitstream}}} $device
program_hw_devices $device
refresh_hw_device $device
"""

# In the order of Vivado's own hardware manager: a small design that reaches the flash, the flash, a start from it.
_FLASH = """\
write_cfgmem -force -format mcs -size {megabytes} -interface SPIx4 -loadbit {{up 0x00000000 "{bitstream}"}} \\
    -file {{{image}}}
create_hw_cfgmem -hw_device $device [lindex [get_cfgmem_parts {part}] 0]
set flash [get_property PROGRAM.HW_CFGMEM $device]
set_property PROGRAM.FILES [list {{{image}}}] $flash
set_property PROGRAM.ADDRESS_RANGE use_file $flash
set_property PROGRAM.UNUSED_PIN_TERMINATION pull-none $flash
set_property PROGRAM.ERASE 1 $flash
set_property PROGRAM.BLANK_CHECK 0 $flash
set_property PROGRAM.CFG_PROGRAM 1 $flash
set_property PROGRAM.VERIFY 1 $flash
create_hw_bitstream -hw_device $device [get_property PROGRAM.HW_CFGMEM_BITFILE $device]
program_hw_devices $device
refresh_hw_device -update_hw_probes false $device
program_hw_cfgmem -hw_cfgmem $flash
boot_hw_device $device
"""

_DISCONNECT = """\
close_hw_target
disconnect_hw_server
close_hw_manager
puts "eta-lstm: programmed $device"
"""


def script(card: CardPlatform, bitstream: Path, *, flash: bool = False, server: str = SERVER, target: str = "*") -> str:
    """Write the Tcl for Vivado's hardware manager (AMD UG908, UG835).

    Parameters
    ----------
    card : CardPlatform
    bitstream : Path
    flash : bool
        Write it into the card's flash and start from there, instead of loading it until the power goes.
    server : str
        ``host:port`` of the hw_server that has the cable.
    target : str
        Pattern that fits one JTAG cable.

    Raises
    ------
    ValueError
        If a name has characters that would not stay one word in Tcl.
    """
    path = str(bitstream.resolve())
    for name, text, letters in (
        ("the bitstream's path", path, r"[^{}\\\"$\[\];\n]+"),
        ("server", server, r"[\w.:-]+"),
        ("target", target, r"[\w.:*?/-]+"),
    ):
        if not re.fullmatch(letters, text):
            raise ValueError(f"{name} cannot be used in a script: {text!r}")
    if flash:
        megabytes = _FLASH_MEGABYTES[card.flash.partition("-")[0]]
        image = str(bitstream.resolve().with_suffix(".mcs"))
        work = _FLASH.format(megabytes=megabytes, bitstream=path, image=image, part=card.flash)
    else:
        work = _LOAD.format(bitstream=path)
    return _CONNECT.format(server=server, target=target, device=card.jtag_device) + work + _DISCONNECT


def run(vivado: Path, source: Path) -> None:
    """Run a script in Vivado; its log lies beside it.

    Raises
    ------
    BuildError
        If it fails, with the errors of its log, or does not end within an hour.
    """
    log = source.with_suffix(".log")
    command: list[str | Path] = [vivado, "-mode", "batch", "-nojournal", "-notrace", "-log", log, "-source", source]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{vivado} did not end within {TIMEOUT_SECONDS} seconds; see {log}") from None
    if result.returncode:
        errors = [line for line in result.stdout.splitlines() if line.startswith("ERROR")] or [result.stderr.strip()]
        raise BuildError(f"programming failed: {' '.join(errors)}; see {log}")
