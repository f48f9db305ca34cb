"""Draws a study."""

import importlib
import importlib.util
from pathlib import Path

from etalstm.train.study import summarise

PANELS = {
    "footprint": "intermediates kept,\nof five dense tensors",
    "arithmetic": "multiplications left,\nof all products",
    "delta_density": "nonzero share of δ\n",
}
COLOURS = 10  # of matplotlib's cycle; then they begin anew with another marker
MARKERS = "os^D"


def can_draw() -> bool:
    """Tell whether matplotlib is installed; it is needed for nothing else."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(study: dict, path: Path, score: str) -> None:
    """Draw the score, `score` on its axis, against footprint, arithmetic and density, into an SVG or PNG file."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "etalstm"  # equal studies give equal files
    pyplot = importlib.import_module("matplotlib.pyplot")
    rows = summarise(study)
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(11, 3.6), sharey=True, constrained_layout=True)
    for axes, (name, label) in zip(panels, PANELS.items(), strict=True):
        for number, row in enumerate(rows):
            colour, marker = f"C{number}", MARKERS[number // COLOURS % len(MARKERS)]
            axes.errorbar(
                row[name], row["score"], row["deviation"], color=colour, fmt=marker, capsize=3, label=row["name"]
            )
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(score)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
