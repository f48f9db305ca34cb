"""``eta-lstm research roofline``: what bounds an integer machine on the board, on the six shapes."""

from typing import Annotated

from typer import Option

from etalstm.cli.options import read_sizes
from etalstm.cli.output import print_rows
from etalstm.cli.research.paper import SIX
from etalstm.network.benchmarks import BENCHMARKS
from etalstm.network.shape import check_sizes
from etalstm.research.paper.roofline import HEADINGS, IntegerMachine, table


def roofline(
    lanes: Annotated[int, Option(help="Lanes of the board")] = 768,
    vector: Annotated[str, Option(help="Multiplications of 8 bits a lane and cycle, with commas between")] = "4,8,16",
    float_lanes: Annotated[int, Option(help="Lanes with a float32 PE for element-wise work")] = 192,
    clock: Annotated[float, Option(help="MHz")] = 250.0,
    bandwidth: Annotated[float, Option(help="GB/s of memory")] = 240.0,
    resident: Annotated[int, Option(help="Weights that fit on the chip")] = 25_000_000,
    dense: Annotated[bool, Option("--dense", help="Nothing is left out")] = False,
) -> None:
    """Estimate an iteration of each of the six shapes, at the shares that its study has left, beside a V100."""
    found = rows(lanes, vector, float_lanes, clock, bandwidth, resident, dense)
    print_rows("A roofline of an iteration", HEADINGS, found)


def rows(
    lanes: int, vector: str, float_lanes: int, clock: float, bandwidth: float, resident: int, dense: bool
) -> list[list[str]]:
    """Give the rows of the table, of the arguments of :func:`roofline`; ``ValueError`` names one that is refused."""
    sizes = read_sizes("vector", vector)
    check_sizes(lanes=lanes, float_lanes=float_lanes, resident=resident)
    for name, value in (("clock", clock), ("bandwidth", bandwidth)):
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    machines = {
        size: IntegerMachine(lanes * size, float_lanes, clock * 1e6, bandwidth * 1e9, resident) for size in sizes
    }
    return table(machines, [BENCHMARKS[name] for name in SIX], dense)
