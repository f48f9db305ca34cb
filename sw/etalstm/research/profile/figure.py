"""Draws profiles: latency by size, and the sizes that pay."""

from collections.abc import Sequence
from pathlib import Path

from etalstm.host.drawing import COLOURS, pyplot, save_figure
from etalstm.research.profile.profile import HIDDEN, Profile

AXES = {HIDDEN: "units H"}
INPUTS = "inputs I"


def draw_profiles(profiles: Sequence[Profile], path: Path) -> None:
    """Draw a panel for each profile: latency over that of the largest size, with a mark at each hysteresis point.

    Parameters
    ----------
    profiles : sequence of Profile
    path : Path
        Its ending says the format.

    Raises
    ------
    RunError
        If matplotlib is not installed, or knows no such format.
    """
    size = (4.2 * len(profiles), 3.8)  # inches
    figure, (panels,) = pyplot().subplots(1, len(profiles), figsize=size, squeeze=False, constrained_layout=True)
    for axes, profile in zip(panels, profiles, strict=True):
        _draw_profile(axes, profile)
    panels[0].set_ylabel("latency, of that of the largest size")
    panels[0].legend(frameon=False, fontsize=9)
    save_figure(figure, path)


def _draw_profile(axes, profile: Profile) -> None:
    held = {size: latency for size, latency in sorted(profile.latencies.items()) if latency is not None}
    largest = held[max(held)]
    shares = {size: latency / largest for size, latency in held.items()}
    axes.plot(list(shares), list(shares.values()), color="0.6", linewidth=1, label="all sizes")
    points = profile.points
    label = "hysteresis points"
    axes.plot(points, [shares[size] for size in points], ".", color=COLOURS[5], markersize=4, label=label)
    axes.set_xlabel(AXES.get(profile.dimension, INPUTS))
    axes.set_title(
        f"{profile.machine}, {profile.cell}, B {profile.batch}, T {profile.steps}\n"
        f"{profile.never_pays:.1%} never pay at tolerance {profile.tolerance:g}", fontsize=9,
    )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
