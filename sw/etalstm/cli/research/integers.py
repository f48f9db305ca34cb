"""``eta-lstm research integers``: the six shapes on a machine of integers, by its cycle model."""

from typing import Annotated

from rich.console import Console
from rich.table import Table
from typer import Option

from etalstm.cli.research.paper import SIX
from etalstm.network.benchmarks import BENCHMARKS
from etalstm.network.execution import PRESET_HELP
from etalstm.research.paper.integer_board import HEADINGS, rows
from etalstm_hw import config

_WIDTH = 110  # of the table, however narrow the terminal is
FITTING = ",".join(name for name in SIX if name != "babi")  # which with integers needs 10.8 GB


def integers(
    preset: Annotated[str, Option(help=PRESET_HELP)] = "vcu128-int8",
    benchmark: Annotated[str, Option(help="Shapes, with commas between")] = FITTING,
    dense: Annotated[bool, Option("--dense", help="Nothing is left out")] = False,
) -> None:
    """Model an iteration of the shapes on a machine of integers, at the shares that studies with integers have left,
    beside a V100 (10 minutes).
    """
    names = benchmark.split(",")
    if unknown := [name for name in names if name not in SIX]:
        raise ValueError(f"benchmark must be of {', '.join(SIX)}, got {unknown[0]!r}")
    shown = Table(*HEADINGS)
    for row in rows(config.preset(preset), [BENCHMARKS[name] for name in names], dense):
        shown.add_row(*row)
    console = Console()
    console.print(shown, width=max(console.width, _WIDTH))
