"""``eta-lstm plot``: the curves of runs."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from etalstm.errors import RunError
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import draw_runs, read_log


def plot(
    runs: Annotated[list[Path], Argument(help="Folders of runs")],
    out: Annotated[Path, Option(help="Picture to write: .svg, .png or .pdf")] = Path("curves.svg"),
    smoothing: Annotated[float, Option(help="Weight of the iterations before in the training curves")] = 0.9,
) -> None:
    """Draw loss and score of runs over each other: training as lines, validation as points, the test as a star."""
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and below 1, got {smoothing}")
    draw_runs([(str(run), _entries(run)) for run in runs], out, smoothing)
    print(out)


def _entries(run: Path) -> list[dict]:
    path = RunFolder(run).metrics
    if not path.is_file():
        raise RunError(f"{run}: there is no run in this folder: no {path.name}")
    entries = read_log(path)
    if not any(entry["kind"] == "iteration" for entry in entries):
        raise RunError(f"{path}: no iteration is in it yet")
    return entries
