"""Options that several commands have in common."""

import math
from pathlib import Path
from typing import Annotated

from typer import Context, Option
from typer.models import OptionInfo

from etalstm.cli.parser import given
from etalstm.network.execution import PRESET_HELP
from etalstm.network.shape import check_size

PresetName = Annotated[str, Option("--preset", help=PRESET_HELP)]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object")]
Trace = Annotated[
    Path | None, Option("--trace", help="Waveform of the simulated machine to write: FILE.fst, or FILE.vcd")
]
TraceFirst = Annotated[int | None, Option("--trace-first", help="With --trace: first clock cycle [default: 0]")]
TraceLast = Annotated[int | None, Option("--trace-last", help="With --trace: last clock cycle [default: any]")]


def option(text: str, panel: str, *names: str) -> OptionInfo:
    """Declare an option that stands in a panel of the help."""
    return Option(*names, help=text, rich_help_panel=panel)


def trace_options(trace: Path | None, first: int | None, last: int | None) -> dict:
    """Give the options of a simulated device that writes a waveform; none without one.

    Raises ``ValueError`` if there are cycles but no waveform.
    """
    if trace is None:
        for name, cycle in (("--trace-first", first), ("--trace-last", last)):
            if cycle is not None:
                raise ValueError(f"{name} is only used with --trace")
        return {}
    return {"trace": trace, "trace_cycles": (first or 0, (1 << 64) - 1 if last is None else last)}


def parse_densities(text: str) -> list[float]:
    """Read shares of nonzero values, separated by commas. Raises ``ValueError`` if one is not a number from 0 to 1."""
    densities = []
    for number in text.split(","):
        try:
            density = float(number)
        except ValueError:
            density = math.nan
        if not 0 <= density <= 1:
            raise ValueError(f"densities must be numbers from 0 to 1, separated by commas, got {number!r} in {text!r}")
        densities.append(density)
    return densities


def refuse(context: Context, reason: str, *names: str) -> None:
    """Raise ``ValueError`` if one of these parameters of the command was given: the command would not use it.

    `context`: of the command. `reason`: goes on after "--option is ". `names`: of the parameters.
    """
    chosen = given(context).keys() & set(names)
    for parameter in context.command.params:
        if parameter.name in chosen:
            raise ValueError(f"{parameter.opts[-1]} is {reason}")


def read_sizes(name: str, text: str) -> list[int]:
    """Read integers with commas between; ``ValueError`` naming `name` if there is anything else, or one below 1."""
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be integers with commas between, got {text!r}") from None
    for size in sizes:
        check_size(name, size)
    return sizes
