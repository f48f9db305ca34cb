"""Drawing with matplotlib, which only the extra ``study`` brings."""

import importlib
import importlib.util
import io
from pathlib import Path
from types import ModuleType

from etalstm.errors import RunError
from etalstm.host.durable import write_whole

# Eight colours that differ for the colour-blind, too (Okabe and Ito, 2008), each with a marker of its own.
COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999")
MARKERS = "os^DvP*Xp"  # 9, which has no divisor in common with 8: 72 series look different


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def check_can_draw() -> None:
    """Raise :class:`RunError` unless matplotlib is installed."""
    if not can_draw():
        raise RunError("drawing needs matplotlib: pip install 'etalstm[study]'")


def pyplot() -> ModuleType:
    """Give ``matplotlib.pyplot``, which draws into files and opens no window; raises as :func:`check_can_draw`."""
    check_can_draw()
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "etalstm"  # equal figures give equal files
    return importlib.import_module("matplotlib.pyplot")


def look_of(number: int) -> dict:
    """Give colour and marker of the series with a number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def save_figure(figure, path: Path) -> None:
    """Write a figure atomically, in the format of the path's ending, and close it.

    Raises :class:`RunError` if matplotlib knows no such format.
    """
    picture, kind = io.BytesIO(), path.suffix.removeprefix(".")
    try:
        figure.savefig(picture, format=kind, metadata={"Date": None} if kind == "svg" else None)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from error
    finally:
        pyplot().close(figure)
    write_whole(path, picture.getvalue())
