"""What a report comes to: whether a design keeps to the limits, and all of it as plain values."""

from etalstm_boards.part import KINDS, Resources
from etalstm_boards.resources.depth import Path
from etalstm_boards.resources.limits import DEEPER_PATHS, DEEPEST_LEVELS, LARGEST_SHARE
from etalstm_boards.resources.report import Report, Row

CAVEATS = (
    "DSP, BRAM and URAM are what Yosys infers.",
    "LUT counts two as one where they share an input and have at most five between them, which is what fits the two "
    "outputs of a LUT of the part; unpaired is the count without. Both, and FF, are upper bounds otherwise: a unit is "
    "mapped alone, and no register moves into a DSP slice or a block RAM.",
    "Depth is LUTs between registers, memories and ports, across units; carry chains (of CARRY4; the part has CARRY8), "
    "multipliers and the multiplexers of a slice count apart. No clock rate follows from it without place and route.",
    "The vendor's memory controller, PCIe bridge and interconnect are not in it.",
)
"""Limits of the estimate."""


def _path(path: Path | None) -> dict | None:
    if path is None:
        return None
    numbers = {"levels": path.levels, "carry_chains": path.carry_chains, "multipliers": path.multipliers}
    return numbers | {"from": path.start, "to": path.end}


def plain(amounts: Resources) -> dict[str, int | float]:
    """Give amounts as plain numbers; half a block RAM is the only fraction."""
    values = {kind: getattr(amounts, kind) for kind in KINDS}
    return {kind: int(value) if value == int(value) else float(value) for kind, value in values.items()}


def too_deep(row: Row) -> Path | None:
    """Give a unit's deepest path where it is deeper than the limit."""
    return row.deepest if row.deepest and row.deepest.levels > DEEPEST_LEVELS else None


def too_much(result: Report, part: Resources) -> list[str]:
    """List where a design exceeds the limits: on shares of the part, and on levels without a known reason."""
    shares = result.total.share_of(part)
    over = [
        f"{share:.1%} of the part's {kind}, the limit is {LARGEST_SHARE:.0%}"
        for kind, share in shares.items()
        if share > LARGEST_SHARE
    ]
    return over + [
        f"{path.levels} levels to {path.end} in {row.name}, the limit is {DEEPEST_LEVELS}"
        for row in result.rows
        if (path := too_deep(row)) and row.name not in DEEPER_PATHS
    ]


def as_dict(result: Report, part: Resources, name: str) -> dict:
    """Give a report as plain values: totals, shares of the part, a list of the modules."""
    modules = [
        {
            "name": row.name,
            "instances": row.instances,
            "each": plain(row.each),
            "unpaired_lut": row.unpaired,
            "deepest": _path(row.deepest),
            "deeper_because": DEEPER_PATHS.get(row.name) if too_deep(row) else None,
            "memories": row.memories,
        }
        for row in result.rows
    ]
    return {
        "part": name,
        "available": plain(part),
        "used": plain(result.total),
        "share": result.total.share_of(part),
        "unpaired_lut": result.unpaired,
        "deepest": {"module": result.deepest.name} | (_path(result.deepest.deepest) or {}),
        "modules": modules,
        "too_much": too_much(result, part),
        "caveats": CAVEATS,
    }
