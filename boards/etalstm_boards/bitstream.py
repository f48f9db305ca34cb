"""Checks a bitstream before it is loaded: is it complete, for this part, and of this contract?"""

import json
from dataclasses import dataclass
from pathlib import Path

from etalstm.errors import BuildError
from etalstm_boards.platform import CardPlatform
from etalstm_hw import contract

_START = bytes.fromhex("0009 0ff00ff00ff00ff000 0001")  # of every .bit file, before its fields a to e


@dataclass(frozen=True)
class Bitstream:
    """The header of a ``.bit`` file.

    Members
    -------
    path : Path
    design, part, date : str
    """

    path: Path
    design: str
    part: str
    date: str


def read_bitstream(path: Path) -> Bitstream:
    """Read a header.

    Raises
    ------
    BuildError
        If there is no such file, or it is no complete bitstream.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BuildError(f"cannot read the bitstream {path}: {error.strerror}") from None
    if not content.startswith(_START):
        raise BuildError(f"{path} is no bitstream with a header, as Vivado writes it to .bit")
    fields, position = {}, len(_START)
    while (key := content[position : position + 1]) in (b"a", b"b", b"c", b"d"):
        size = int.from_bytes(content[position + 1 : position + 3], "big")
        fields[key] = content[position + 3 : position + 3 + size].rstrip(b"\0").decode("ascii", "replace")
        position += 3 + size
    size = int.from_bytes(content[position + 1 : position + 5], "big")
    left = len(content) - position - 5
    if key != b"e" or len(fields) < 4 or left != size:
        raise BuildError(f"the bitstream {path} is damaged: {max(left, 0)} bytes follow its header, which tells {size}")
    design = fields[b"a"].partition(";")[0]
    return Bitstream(path, design, fields[b"b"], f"{fields[b'c']} {fields[b'd']}")


def check_bitstream(bitstream: Bitstream, card: CardPlatform) -> None:
    """Refuse a bitstream for another part, or with another version of the contract than this host's.

    The contract's version is in the manifest that ``eta-lstm hw build`` writes beside the bitstream. Without a manifest
    only the driver checks the version, when it opens the card.

    Raises
    ------
    BuildError
        If the part or the contract is another one.
    """
    if not card.part.lower().startswith(bitstream.part.lower()):
        raise BuildError(f"{bitstream.path} is for the part {bitstream.part}, the {card.name} has {card.part}")
    manifest = bitstream.path.parent / "manifest.json"
    if not manifest.exists():
        return
    try:
        version = json.loads(manifest.read_text(encoding="utf-8"))["accelerator"]["contract_version"]
    except (ValueError, KeyError, TypeError):
        raise BuildError(f"{manifest} is no manifest of a build") from None
    if version != contract.VERSION:
        raise BuildError(
            f"{bitstream.path} has contract version {version}, this host has {contract.VERSION}; build it again"
        )
