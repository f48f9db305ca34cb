"""The options of a network and a machine as texts: what each means, for a command's help, and how it is read."""

from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.cells.named import CELLS
from etalstm.network.shared_tokens import OFF
from etalstm.network.slices import AUTO
from etalstm_hw.config import PRESETS

PRESET_HELP = f"Configuration of the accelerator: {', '.join(PRESETS)}; or a TOML file with a base and what differs"
ARCHITECTURE_HELP = f"How the machine runs: {', '.join(ARCHITECTURES)}"
CELL_HELP = f"Cell of all layers: {' or '.join(CELLS)}"
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


def number_or_off(name: str, text: str) -> float | None:
    """Read an option that is a number, or ``off``; whoever takes the number checks its range."""
    if text == "off":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{name} must be a number, or off, got {text!r}") from error


def tokens_or_auto(text: str) -> int | str:
    """Read a number of shared tokens, ``auto`` or ``off``; whoever takes the number checks its range."""
    if text in (OFF, AUTO):
        return text
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"shared_tokens must be a positive integer, {AUTO} or {OFF}, got {text!r}") from error


def slices_or_auto(text: str) -> int | str:
    """Read a number of slices, or ``auto``; whoever takes the number checks it against the batch."""
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"slices must be an integer, or {AUTO}, got {text!r}") from error
