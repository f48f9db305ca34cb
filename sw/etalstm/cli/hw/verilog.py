"""``eta-lstm hw verilog``: the Verilog of a preset, and what it is."""

from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.network.execution import PRESET_HELP
from etalstm_hw import generate


def verilog(
    preset: Annotated[str, Option(help=PRESET_HELP)],
    out: Annotated[Path, Option("-o", "--out", help="Folder for top.v and manifest.json")],
    source_lines: Annotated[bool, Option(help="Say of each signal on which line of Python it stands")] = False,
) -> None:
    """Write the Verilog of a preset and its manifest."""
    print(*generate.write(preset, out, source_lines=source_lines), sep="\n")
