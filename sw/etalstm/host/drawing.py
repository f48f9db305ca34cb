"""Drawing with matplotlib, which only the extra ``study`` brings."""

import importlib
import importlib.util
import io
from collections.abc import Sequence
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


def log_ticks(axis) -> None:
    """Mark 1, 2, 5 of each power of ten within a logarithmic axis's limits, more on a short one, as plain numbers."""
    ticker = pyplot().matplotlib.ticker
    low, high = axis.get_view_interval()
    ticks = ticker.LogLocator(subs=(1, 2, 5) if high > 5 * low else (1, 1.2, 1.5, 2, 3, 5, 7)).tick_values(low, high)
    axis.set_major_locator(ticker.FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(ticker.NullLocator())


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Move ascending positions between 0 and 1 apart, to a distance of `gap` at least, each as little as needed."""
    last = len(wanted) - 1
    upwards = [min(max(at, gap / 2 + n * gap), 1 - gap / 2 - (last - n) * gap) for n, at in enumerate(wanted)]
    downwards = list(upwards)
    for n in range(1, len(wanted)):
        upwards[n] = max(upwards[n], upwards[n - 1] + gap)
        downwards[last - n] = min(downwards[last - n], downwards[last - n + 1] - gap)
    return [(up + down) / 2 for up, down in zip(upwards, downwards, strict=True)]


def label_beside(axes, points: Sequence[tuple[float, float, str]], column: float, gap: float, fontsize: float) -> None:
    """Write names of points (x, y, name) into a column at the left of a panel, each with a line to its point.

    The column ends at `column`, and lines of text are `gap` apart, both as shares of the panel. The axes' scales and
    limits are those that the panel keeps.
    """
    low, high = axes.get_ylim()
    points = sorted(points, key=lambda point: point[1])
    heights = spread([(y - low) / (high - low) for _, y, _ in points], gap)
    line = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.6, "shrinkA": 2, "shrinkB": 3, "relpos": (1, 0.5)}
    for (x, y, name), height in zip(points, heights, strict=True):
        place = {"xytext": (column, height), "textcoords": "axes fraction", "ha": "right", "va": "center"}
        axes.annotate(name, (x, y), **place, fontsize=fontsize, arrowprops=line, zorder=0)
    axes.set_ylim(low, high)


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
