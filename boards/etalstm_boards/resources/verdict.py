"""What a report comes to: whether a design keeps to the limits, and all of it as plain values."""

from etalstm_boards.part import KINDS, Resources
from etalstm_boards.resources.delays import Delay
from etalstm_boards.resources.depth import Path
from etalstm_boards.resources.limits import GOAL_LEVELS, LARGEST_SHARE, MOST_LEVELS
from etalstm_boards.resources.report import Report, Row

CAVEATS = (
    "DSP, BRAM and URAM are what Yosys infers.",
    "LUT counts two as one where they share an input and have at most five between them, which is what fits the two "
    "outputs of a LUT of the part; unpaired is the count without. Both, and FF, are upper bounds otherwise: a unit is "
    "mapped alone, and no register moves into a DSP slice or a block RAM.",
    "Levels are LUTs, carry chains and three for each multiplier between registers, memories and ports, across units.",
    "The delay is an estimate without place and route. A net counts by its readers alone; a long net takes longer, as "
    "does one between regions. No clock rate follows from it.",
    "The vendor's memory controller, PCIe bridge and interconnect are not in it.",
)
"""Limits of the estimate."""


def _path(path: Path | None) -> dict | None:
    if path is None:
        return None
    step = path.step
    numbers = {"levels": path.levels, "luts": step.luts, "carry_chains": step.chains, "multipliers": step.multipliers}
    return numbers | {"delay_ns": path.delay_ns, "readers": path.readers, "from": path.start, "to": path.end}


def plain(amounts: Resources) -> dict[str, int | float]:
    """Give amounts as plain numbers; half a block RAM is the only fraction."""
    values = {kind: getattr(amounts, kind) for kind in KINDS}
    return {kind: int(value) if value == int(value) else float(value) for kind, value in values.items()}


def deeper_than(result: Report, levels: int) -> list[tuple[Row, Path]]:
    """List the units with a path of more levels, each with its deepest one, the deepest of all first."""
    found = [(row, row.deepest) for row in result.rows if row.deepest and row.deepest.levels > levels]
    return sorted(found, key=lambda pair: -pair[1].levels)


def too_much(result: Report, part: Resources) -> list[str]:
    """List where a design exceeds the limits, on shares of the part and on levels."""
    shares = result.total.share_of(part)
    over = [
        f"{share:.1%} of the part's {kind}, the limit is {LARGEST_SHARE:.0%}"
        for kind, share in shares.items()
        if share > LARGEST_SHARE
    ]
    return over + [
        f"{path.levels} levels to {path.end} in {row.name}, the limit is {MOST_LEVELS}"
        for row, path in deeper_than(result, MOST_LEVELS)
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
            "slowest": _path(row.slowest),
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
        "slowest": [{"module": row.name} | (_path(path) or {}) for row, path in result.by_delay],
        "levels": {"goal": GOAL_LEVELS, "allowed": MOST_LEVELS},
        "delays": {delay.name.lower(): {"ps": delay.ps, "source": delay.source} for delay in Delay},
        "modules": modules,
        "too_much": too_much(result, part),
        "caveats": CAVEATS,
    }
