"""``eta-lstm hw build``: what Vivado needs for a card, and the bitstream itself where Vivado is."""

from pathlib import Path
from typing import Annotated

from typer import Option

from etalstm.network.execution import PRESET_HELP
from etalstm_boards.build import Options, platform, prepare, results
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
