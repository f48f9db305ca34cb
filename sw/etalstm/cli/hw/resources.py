"""``eta-lstm hw resources``: what a preset takes of the board's part, without the vendor's tools."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from typer import Option

from etalstm.cli.output import print_table
from etalstm.network.execution import PRESET_HELP
from etalstm_boards.part import KINDS, XCVU37P, Resources
from etalstm_boards.resources.depth import Path
from etalstm_boards.resources.limits import DEEPER_PATHS, DEEPEST_LEVELS, LARGEST_SHARE
from etalstm_boards.resources.report import Report, Row, report
from etalstm_hw import generate
from etalstm_hw.config import preset as named_preset

PART, AVAILABLE = "xcvu37p", XCVU37P.whole  # of both cards

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


def _amounts(amounts: Resources) -> dict[str, int | float]:
    """Give amounts as plain numbers; half a block RAM is the only fraction."""
    values = {kind: getattr(amounts, kind) for kind in KINDS}
    return {kind: int(value) if value == int(value) else float(value) for kind, value in values.items()}


def _deep(row: Row) -> Path | None:
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
        if (path := _deep(row)) and row.name not in DEEPER_PATHS
    ]


def as_dict(result: Report, part: Resources, name: str) -> dict:
    """Give a report as plain values: totals, shares of the part, a list of the modules."""
    modules = [
        {
            "name": row.name,
            "instances": row.instances,
            "each": _amounts(row.each),
            "unpaired_lut": row.unpaired,
            "deepest": _path(row.deepest),
            "deeper_because": DEEPER_PATHS.get(row.name) if _deep(row) else None,
            "memories": row.memories,
        }
        for row in result.rows
    ]
    return {
        "part": name,
        "available": _amounts(part),
        "used": _amounts(result.total),
        "share": result.total.share_of(part),
        "unpaired_lut": result.unpaired,
        "deepest": {"module": result.deepest.name} | (_path(result.deepest.deepest) or {}),
        "modules": modules,
        "too_much": too_much(result, part),
        "caveats": CAVEATS,
    }


def resources(
    preset: Annotated[str, Option(help=f"{PRESET_HELP}; several, separated by commas, to compare them")] = "vcu128",
    check: Annotated[bool, Option("--check", help="Exit code 1 if it is more than the limits allow")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object, or one for each of several")] = False,
) -> None:
    """Count DSP, LUT, FF, BRAM and URAM with Yosys, and the levels of logic; the first time takes minutes.

    The limits are a share of each kind, and levels of logic between registers; they are in
    etalstm_boards.resources.limits, with the reasons for deeper paths.
    """
    log = Console(stderr=True)
    designs = {name: generate.verilog(named_preset(name)) for name in preset.split(",")}
    found = {
        name: report(verilog, "top", lambda module: log.print(f"[dim]synthesis of {module}"))
        for name, verilog in designs.items()
    }
    if as_json:
        for name, result in found.items():
            print(json.dumps({"preset": name} | as_dict(result, AVAILABLE, PART)))
    elif len(found) > 1:
        print_table(_comparison(found))
    else:
        _print_report(found[preset])
    if check and _exceeds(found):
        raise typer.Exit(1)


def _exceeds(found: dict[str, Report]) -> bool:
    """Print where machines exceed the limits, and tell whether any does."""
    excess = {name: too_much(result, AVAILABLE) for name, result in found.items()}
    for name, reasons in excess.items():
        if reasons:
            print(f"{name} takes {'; '.join(reasons)}", file=sys.stderr)
    return any(excess.values())


def _comparison(found: dict[str, Report]) -> Table:
    """Make a table of what several machines take, with the share of the part."""
    table = Table(f"of {PART}", *(Column(name, justify="right") for name in found))
    totals = [result.total for result in found.values()]
    shares = [total.share_of(AVAILABLE) for total in totals]
    for kind in KINDS:
        amounts = [_amounts(total)[kind] for total in totals]
        table.add_row(kind, *(f"{n:,} ({share[kind]:.1%})" for n, share in zip(amounts, shares, strict=True)))
    table.add_row("unpaired lut", *(f"{result.unpaired:,}" for result in found.values()))
    deepest = [result.deepest for result in found.values()]
    table.add_row("levels", *(f"{row.deepest.levels} in {row.name}" if row.deepest else "" for row in deepest))
    return table


def _print_report(result: Report) -> None:
    print_table(_table(result, AVAILABLE, PART))
    for row in result.rows:
        if row.deepest and row is result.deepest:
            print(f"Deepest: {row.deepest.levels} levels from {row.deepest.start} to {row.deepest.end}, in {row.name}.")
    for row in result.rows:
        if path := _deep(row):
            reason = DEEPER_PATHS.get(row.name, "no reason known")
            print(f"Deeper than {DEEPEST_LEVELS}: {row.name}, to {path.end}: {reason}.")
    over = [kind for kind, share in result.total.share_of(AVAILABLE).items() if share > LARGEST_SHARE]
    print(f"Above {LARGEST_SHARE:.0%} of the part: {', '.join(over) or 'nothing'}.")
    print("\n".join(CAVEATS))


def _table(result: Report, part: Resources, name: str) -> Table:
    table = Table("module", *(f"{name}" for name in ("instances", *KINDS, "unpaired", "levels", "chains")))
    for column in table.columns[1:]:
        column.justify = "right"
    for row in result.rows:
        table.add_row(
            row.name,
            f"{row.instances:,}",
            *_formatted(row.total),
            f"{row.unpaired * row.instances:,}",
            *_levels(row),
        )
    used, share = result.total, result.total.share_of(part)
    table.add_section()
    table.add_row("in all", "", *_formatted(used), f"{result.unpaired:,}", *_levels(result.deepest))
    table.add_row(f"of {name}", "", *(f"{share[kind]:.1%}" for kind in KINDS), f"{result.unpaired / part.lut:.1%}")
    return table


def _formatted(amounts: Resources) -> list[str]:
    return [f"{amount:,}" for amount in _amounts(amounts).values()]


def _levels(row: Row) -> list[str]:
    return [str(row.deepest.levels), str(row.deepest.carry_chains)] if row.deepest else ["", ""]
