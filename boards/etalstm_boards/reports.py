"""Reads Vivado's reports of a build."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from etalstm.errors import BuildError
from etalstm_boards.floorplan import UTILIZATION_ROWS


@dataclass(frozen=True)
class Usage:
    """How much of a resource is used; half block RAMs exist."""

    used: float
    available: float

    @property
    def share(self) -> float:
        """The fraction of the available resource that is used."""
        return self.used / self.available


@dataclass(frozen=True)
class Report:
    """The results of a build: utilization, timing, power.

    Members
    -------
    board, preset, build : str
        From its manifest.
    utilization : dict from "lut", "ff", "dsp", "bram", "uram" to Usage
    wns_ns, whs_ns : float
        Worst slack of setup and hold; negative if timing is not met.
    power_watts : float
        On the chip, estimated.
    """

    board: str
    preset: str
    build: str
    utilization: dict[str, Usage]
    wns_ns: float
    whs_ns: float
    power_watts: float

    @property
    def met(self) -> bool:
        """Whether timing is met."""
        return min(self.wns_ns, self.whs_ns) >= 0

    def as_dict(self) -> dict:
        """Give the report as plain values."""
        usage = {kind: asdict(usage) | {"share": usage.share} for kind, usage in self.utilization.items()}
        return asdict(self) | {"utilization": usage, "met": self.met}


def read_report(directory: Path) -> Report:
    """Read the manifest and Vivado's reports in a build's directory.

    Raises
    ------
    BuildError
        If a file is missing or malformed; the message names it.
    """
    path = directory / "manifest.json"
    try:
        manifest = json.loads(_text(path))
        board, preset, build = manifest["board"], manifest["accelerator"]["preset"], manifest["build"]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise BuildError(f"{path} is not the manifest of a build") from None
    timing, power = (directory / f"{board}_{name}.rpt" for name in ("timing", "power"))
    wns, whs = _slacks(timing)
    return Report(
        board=board,
        preset=preset,
        build=build,
        utilization=_utilization(directory / f"{board}_utilization_place.rpt"),
        wns_ns=wns,
        whs_ns=whs,
        power_watts=float(_find(power, r"Total On-Chip Power \(W\)\s*\|\s*([\d.]+)")[1]),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace", encoding="utf-8")
    except OSError as error:
        raise BuildError(f"{path}: {error.strerror}; has Vivado run there?") from None


def _find(path: Path, pattern: str) -> re.Match:
    match = re.search(pattern, _text(path))
    if match is None:
        raise BuildError(f"{path} is not the report that it should be: nothing matches {pattern!r}")
    return match


def _utilization(path: Path) -> dict[str, Usage]:
    """Read the rows of the table: name, used, some columns that depend on the version, available, per cent."""
    found = {}
    for kind, name in UTILIZATION_ROWS.items():
        cells = _find(path, rf"\|\s*{name}\*?\s*\|([^\n]*)\|")[1].split("|")
        found[kind] = Usage(float(cells[0]), float(cells[-2]))
    return found


def _slacks(path: Path) -> tuple[float, float]:
    """Read WNS and WHS from the first line of numbers under the summary's heads."""
    heads = _find(path, r"\n( *WNS\(ns\)[^\n]*)\n[ -]*\n([^\n]*)\n")
    columns = dict(zip(re.split(r"\s{2,}", heads[1].strip()), heads[2].split(), strict=False))
    try:
        return float(columns["WNS(ns)"]), float(columns["WHS(ns)"])
    except (KeyError, ValueError):
        raise BuildError(f"{path} has no worst slacks: is the design constrained?") from None
