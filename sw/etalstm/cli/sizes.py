"""``eta-lstm study sizes``: how what reductions leave changes with the units of a layer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from etalstm.host.drawing import can_draw
from etalstm.host.durable import write_whole
from etalstm.research.studies.figure import draw_sizes
from etalstm.research.studies.sizes import markdown, read_sizes, rows_by_size


def sizes(
    studies: Annotated[list[Path], Argument(help="Folders of studies that differ in --hidden and --embedding alone")],
    out: Annotated[Path, Option(help="Folder for sizes.md and sizes.svg")],
) -> None:
    """Set studies of several sizes beside each other: a table, and with matplotlib a figure."""
    page = markdown(studies)
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "sizes.md", page)
    print(page)
    if can_draw():
        draw_sizes(rows_by_size(read_sizes(studies)), out / "sizes.svg")
