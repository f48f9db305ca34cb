"""Options that several commands read alike."""

import math
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from etalstm.network.architecture import SWING, Architecture
from etalstm.network.cells.named import CELLS
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shared_tokens import OFF, check_shared_tokens
from etalstm.network.slices import AUTO
from etalstm_hw.config import PRESETS

PRESET_HELP = f"Configuration of the accelerator: {', '.join(PRESETS)}; or a TOML file with a base and what differs"
CELL_HELP = f"Cell of all layers: {' or '.join(CELLS)}"
SIZES = ("inputs", "hidden", "layers", "cell", "batch", "steps")  # parameters of a command that takes a network
INPUT_THRESHOLD_HELP = (
    "Send an element of x or h only where it moved by so much: one number, or by layer 0.1,0.2, for x and h 0.1/0.2,0.1"
)
REFRESH_HELP = (
    "Steps from one at which everything is sent to the next; 0: only the first is "
    "[default: 0 with an input threshold, else 1]"
)
WEIGHT_FORMAT_HELP = "How the passes read weights: float32 or bf16 (half the memory); updates work on float32"
SHARED_TOKENS_HELP = "Compute what equal tokens add to the first layer's gate sums once, for so many a batch; or off"
SLICES_HELP = "Slices of the batch, whose gradients are added as a tree: part of a run, the bits depend on it"

InputSize = Annotated[int, Option("--input", help="Inputs")]
InputSizeOrUnits = Annotated[int | None, Option("--input", help="Inputs [default: as many as units]")]
Units = Annotated[int, Option("--hidden", help="Units of a layer")]
Layers = Annotated[int, Option("--layers", help="Layers")]
CellName = Annotated[str, Option("--cell", help=CELL_HELP)]
Batch = Annotated[int, Option("--batch", help="Sequences")]
Steps = Annotated[int, Option("--steps", help="Steps")]
PresetName = Annotated[str, Option("--preset", help=PRESET_HELP)]
UnequalLengths = Annotated[bool, Option("--unequal-lengths", help="Plan for sequences shorter than the steps")]
WeightFormat = Annotated[str, Option("--weight-format", help=WEIGHT_FORMAT_HELP)]
SharedTokens = Annotated[str, Option("--shared-tokens", help=SHARED_TOKENS_HELP)]
InputThreshold = Annotated[str, Option("--input-threshold", help=INPUT_THRESHOLD_HELP)]
Refresh = Annotated[int | None, Option("--refresh", help=REFRESH_HELP)]
Memory = Annotated[int | None, Option("--memory", help="Memory of the device in bytes; fails if it is too small")]
MemoryBudget = Annotated[
    int | None,
    Option("--memory-budget", help="Bytes of the device's memory; what cells keep beyond it goes to the host and back"),
]
Trace = Annotated[
    Path | None, Option("--trace", help="Waveform of the simulated machine to write: FILE.fst, or FILE.vcd")
]
TraceFirst = Annotated[int | None, Option("--trace-first", help="With --trace: first clock cycle [default: 0]")]
TraceLast = Annotated[int | None, Option("--trace-last", help="With --trace: last clock cycle [default: any]")]


def option(text: str, panel: str, *names: str) -> Option:
    """Declare an option that stands in a group of the help."""
    return Option(*names, help=text, rich_help_panel=panel)


def trace_options(trace: Path | None, first: int | None, last: int | None) -> dict:
    """Give the options of a simulated device that writes a waveform; none without one.

    Raises
    ------
    ValueError
        If there are cycles but no waveform.
    """
    if trace is None:
        for name, cycle in (("--trace-first", first), ("--trace-last", last)):
            if cycle is not None:
                raise ValueError(f"{name} is only used with --trace")
        return {}
    return {"trace": trace, "trace_cycles": (first or 0, (1 << 64) - 1 if last is None else last)}


def given(context: Context) -> dict:
    """Give the options that stand on the command line, by the names of the command's parameters."""
    written = {"COMMANDLINE", "ENVIRONMENT"}
    return {name: value for name, value in context.params.items() if context.get_parameter_source(name).name in written}


def number_or_off(name: str, text: str) -> float | None:
    """Read an option that is a number, or ``off``; :class:`etalstm.train.settings.Settings` looks at the number."""
    if text == "off":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{name} must be a number, or off, got {text!r}") from error


def tokens_or_off(text: str) -> int | None:
    """Read a number of shared tokens, or ``off``: None; whoever takes the number checks its range."""
    found = tokens_or_auto(text)
    if found == AUTO:
        raise ValueError(f"shared_tokens can be {AUTO} only where there are data, got {text!r}")
    return None if found == OFF else found


def tokens_or_auto(text: str) -> int | str:
    """Read a number of shared tokens, ``auto`` or ``off``; whoever takes the number checks its range."""
    if text in (OFF, AUTO):
        return text
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"shared_tokens must be a positive integer, {AUTO} or {OFF}, got {text!r}") from error


def shared_by(text: str, inputs: DeltaInputs, architecture: Architecture = SWING) -> int | None:
    """Read ``--shared-tokens`` where there are no data to count tokens of; raises as :func:`check_shared_tokens`."""
    return check_shared_tokens(tokens_or_off(text), inputs, architecture)


def slices_or_auto(text: str) -> int | str:
    """Read a number of slices, or ``auto``; whoever takes the number checks it against the batch."""
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"slices must be an integer, or {AUTO}, got {text!r}") from error


def parse_densities(text: str) -> list[float]:
    """Read shares of nonzero values, separated by commas.

    Raises
    ------
    ValueError
        If one is not a number from 0 to 1.
    """
    densities = []
    for part in text.split(","):
        try:
            density = float(part)
        except ValueError:
            density = math.nan
        if not 0 <= density <= 1:
            raise ValueError(f"densities must be numbers from 0 to 1, separated by commas, got {part!r} in {text!r}")
        densities.append(density)
    return densities


def refuse(context: Context, reason: str, *names: str) -> None:
    """Raise ``ValueError`` if one of these parameters of the command was given: the command would not use it.

    Parameters
    ----------
    context : Context
        Of the command.
    reason : str
        Goes on after "--option is ".
    names : strings
        Of the parameters.
    """
    chosen = given(context).keys() & set(names)
    for parameter in context.command.params:
        if parameter.name in chosen:
            raise ValueError(f"{parameter.opts[-1]} is {reason}")
