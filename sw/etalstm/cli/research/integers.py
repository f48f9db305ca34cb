"""``eta-lstm research integers``: the six shapes on a machine of integers, by its cycle model."""

from typing import Annotated

from typer import Option

from etalstm.cli.output import print_rows
from etalstm.cli.research.paper import SIX
from etalstm.network.benchmarks import BENCHMARKS
from etalstm.network.execution import PRESET_HELP
from etalstm.network.shape import check_size
from etalstm.research.paper.integer_board import BYTES, TIME, byte_rows, iterations, time_rows
from etalstm_hw import config


def integers(
    preset: Annotated[str, Option(help=PRESET_HELP)] = "vcu128-int8",
    benchmark: Annotated[str, Option(help="Shapes, with commas between")] = ",".join(SIX),
    dense: Annotated[bool, Option("--dense", help="Nothing is left out")] = False,
    boards: Annotated[int, Option(help="Boards that share the batch; what they exchange is left out")] = 1,
) -> None:
    """Model an iteration of the shapes on a machine of integers, at the shares that studies with integers have left,
    beside a V100 (20 minutes).
    """
    check_size("boards", boards)
    names = benchmark.split(",")
    if unknown := [name for name in names if name not in SIX]:
        raise ValueError(f"benchmark must be of {', '.join(SIX)}, got {unknown[0]!r}")
    machine = config.preset(preset)
    found = list(iterations(machine, [BENCHMARKS[name] for name in names], dense, boards))
    print_rows(f"An iteration, {machine.clock_mhz:g} MHz", TIME, time_rows(found))
    print_rows("Bytes and energy of an iteration, of all boards", BYTES, byte_rows(found))
