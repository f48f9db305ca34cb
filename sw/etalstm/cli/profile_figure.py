"""``eta-lstm profile draw``: a figure of profiles."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from etalstm.errors import RunError
from etalstm.research.profile.figure import draw_profiles
from etalstm.research.profile.profile import load


def draw(
    profiles: Annotated[list[Path], Argument(help="Files of eta-lstm profile latency")],
    out: Annotated[Path, Option(help="Picture to write: .svg, .png or .pdf")] = Path("profiles.svg"),
) -> None:
    """Draw latency by size, and the sizes that pay: a panel for each profile."""
    found = [load(path) for path in profiles]
    for path, profile in zip(profiles, found, strict=True):
        if all(latency is None for latency in profile.latencies.values()):
            raise RunError(f"{path}: the machine holds none of the sizes, so there is nothing to draw")
    draw_profiles(found, out)
    print(out)
