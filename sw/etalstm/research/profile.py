"""Profiles: latencies of a layer by its size on one machine, the sizes that pay, their file and their figure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from inspect import getfile
from pathlib import Path

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from etalstm.errors import RunError
from etalstm.host.drawing import COLOURS, pyplot, save_figure
from etalstm.host.durable import write_whole
from etalstm.host.strict import check, read_json
from etalstm.network.cells.lstm import LSTM
from etalstm.train.sealed import Record
from etalstm_hw import config as configuration
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import distance


def hysteresis_points(latencies: Mapping[int, float | None], tolerance: float = 0.0) -> tuple[int, ...]:
    """Give the sizes that are faster than every larger size, ascending.

    A size is a hysteresis point if the latency of each larger size is above ``(1 + tolerance)`` times its own. Any
    other size never pays: some larger network is as fast, or slower by `tolerance` at most. The largest size of a sweep
    is a point, because nothing larger was looked at. With tolerance 0 this is the definition of Yin et al.: within a
    bin smaller sizes are not faster than the point.

    Latencies are in any unit; None where a machine cannot hold the size, which is no point. ``ValueError`` if the
    tolerance is below 0 or no number.
    """
    check_tolerance(tolerance)
    points, fastest = [], float("inf")
    for size in sorted(latencies, reverse=True):
        latency = latencies[size]
        if latency is None:
            continue
        if fastest > (1 + tolerance) * latency:
            points.append(size)
        fastest = min(fastest, latency)
    return tuple(reversed(points))


def never_pays(latencies: Mapping[int, float | None], tolerance: float = 0.0) -> float:
    """Give the share of the sizes that are no hysteresis points, of those that the machine can hold; 0 without any.

    Yin et al. call it the architecture space's redundancy. Raises as :func:`hysteresis_points`.
    """
    fitting = sum(latency is not None for latency in latencies.values())
    return 1 - len(hysteresis_points(latencies, tolerance)) / fitting if fitting else 0.0


def check_tolerance(tolerance: float) -> None:
    """Raise ``ValueError`` if a tolerance is below 0 or no number."""
    if not 0 <= tolerance < float("inf"):
        raise ValueError(f"tolerance must be at least 0 and finite, got {tolerance!r}")


FORMAT = 1
HIDDEN, INPUT = "hidden", "input"
DIMENSIONS = (HIDDEN, INPUT)
MODEL = ("model", "plan", "network")  # packages on whose sources cycles depend


class Profile(Record):
    """Latencies of one layer by its size."""

    format: int = FORMAT
    machine: str  # the preset, or ``host``
    preset_digest: int  # of the preset's configuration; 0 on the host
    model_digest: str  # of the cycle model; the version of PyTorch on the host
    dimension: str  # what is swept: ``hidden`` or ``input``
    cell: str = LSTM.name  # the layer's
    inputs: PositiveInt | None  # where units are swept; None: as many as units
    hidden: PositiveInt | None  # where inputs are swept, else None
    batch: PositiveInt
    steps: PositiveInt
    storage: str  # what cells keep
    forward: bool  # the forward pass alone, else a training iteration
    unit: str  # ``cycles`` or ``seconds``
    tolerance: NonNegativeFloat  # see :func:`etalstm.research.profile.hysteresis_points`
    latencies: dict[PositiveInt, PositiveInt | PositiveFloat | None] = Field(min_length=1)

    @property
    def points(self) -> tuple[int, ...]:
        """The hysteresis points, in ascending order."""
        return hysteresis_points(self.latencies, self.tolerance)

    @property
    def never_pays(self) -> float:
        """The share of the sizes that never pay."""
        return never_pays(self.latencies, self.tolerance)

    def point_at_most(self, size: int) -> int | None:
        """Give the largest point that is not above a size; None if there is none."""
        return max((point for point in self.points if point <= size), default=None)

    def point_at_least(self, size: int) -> int | None:
        """Give the smallest point that is not below a size; None if there is none."""
        return min((point for point in self.points if point >= size), default=None)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, json.dumps(self.model_dump(), indent=1) + "\n")

    def check_for(self, name: str, config: Config, source: object = "the profile") -> None:
        """Raise :class:`RunError` if the profile is not of a preset's machine, or of another version of its model."""
        if self.preset_digest != config.digest:
            raise RunError(
                f"{source}: a profile of {self.machine} with digest {self.preset_digest:08x}, "
                f"but preset {name} has {config.digest:08x}"
            )
        if self.model_digest != model_digest():
            raise RunError(f"{source}: made by another version of the cycle model; make it anew")


def load(path: Path) -> Profile:
    """Read a profile; :class:`RunError`, naming file and field, if it is missing or not what :meth:`Profile.save`
    writes.
    """
    table = read_json(path, "there is no such profile; eta-lstm research profile latency makes one")
    if isinstance(table, dict) and isinstance(table.get("latencies"), dict):  # JSON has no numbers as keys
        table["latencies"] = {_size(text, path): latency for text, latency in table["latencies"].items()}
    profile = check(Profile, table, path, RunError)
    if profile.format != FORMAT or profile.dimension not in DIMENSIONS:
        raise RunError(f"{path}: no profile in format {FORMAT} of {' or '.join(DIMENSIONS)}")
    return profile


def _size(text: str, path: Path) -> int:
    if not text.isdecimal():
        raise RunError(f"{path}: a size must be a number above 0, got {text!r}")
    return int(text)


def model_digest() -> str:
    """Give the SHA-256 of the sources that the cycle model's results depend on, besides the configuration."""
    files = [path for name in MODEL for path in sorted((Path(__file__).parents[1] / name).rglob("*.py"))]
    files += [Path(getfile(module)) for module in (configuration, *contract.PARTS, distance)]
    found = hashlib.sha256()
    for path in files:
        found.update(f"{path.name}\0".encode() + path.read_bytes())
    return found.hexdigest()


def sizes_between(first: int, last: int, step: int) -> list[int]:
    """Give the sizes of a sweep, both bounds included.

    ``ValueError`` if a bound or the step is below 1, or there is no size between the bounds.
    """
    for name, value in (("from", first), ("to", last), ("step", step)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if last < first:
        raise ValueError(f"to must be at least from, {first}, got {last}")
    return list(range(first, last + 1, step))


AXES = {HIDDEN: "units H", INPUT: "inputs I"}


def draw_profiles(profiles: Sequence[Profile], path: Path) -> None:
    """Draw a panel for each profile: latency over that of the largest size, with a mark at each hysteresis point.

    :class:`RunError` if matplotlib is not installed, or does not know the format that the path's ending says.
    """
    size = (4.2 * len(profiles), 3.8)  # inches
    figure, (panels,) = pyplot().subplots(1, len(profiles), figsize=size, squeeze=False, constrained_layout=True)
    for axes, profile in zip(panels, profiles, strict=True):
        _draw_profile(axes, profile)
    panels[0].set_ylabel("latency, of that of the largest size")
    panels[0].legend(frameon=False, fontsize=9)
    save_figure(figure, path)


def _draw_profile(axes, profile: Profile) -> None:
    known = {size: latency for size, latency in sorted(profile.latencies.items()) if latency is not None}
    largest = known[max(known)]
    shares = {size: latency / largest for size, latency in known.items()}
    axes.plot(list(shares), list(shares.values()), color="0.6", linewidth=1, label="all sizes")
    points = profile.points
    label = "hysteresis points"
    axes.plot(points, [shares[size] for size in points], ".", color=COLOURS[5], markersize=4, label=label)
    axes.set_xlabel(AXES[profile.dimension])
    axes.set_title(
        f"{profile.machine}, {profile.cell}, B {profile.batch}, T {profile.steps}\n"
        f"{profile.never_pays:.1%} never pay at tolerance {profile.tolerance:g}", fontsize=9,
    )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
