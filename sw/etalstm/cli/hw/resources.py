"""``eta-lstm hw resources``: what a preset takes of the board's part, without the vendor's tools."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from typer import Option

from etalstm.cli.output import print_table
from etalstm.network.execution import PRESET_HELP
from etalstm_boards.integers import units as integer_units
from etalstm_boards.part import KINDS, XCVU37P, Resources
from etalstm_boards.resources import designs
from etalstm_boards.resources.depth import Path
from etalstm_boards.resources.limits import GOAL_LEVELS, LARGEST_SHARE, MOST_LEVELS
from etalstm_boards.resources.report import Report, Row, report
from etalstm_boards.resources.verdict import CAVEATS, as_dict, deeper_than, plain, too_much
from etalstm_hw import generate
from etalstm_hw.config import preset as named_preset

PART, AVAILABLE = "xcvu37p", XCVU37P.whole  # of both cards
PATHS_SHOWN = 10


def resources(
    preset: Annotated[str, Option(help=f"{PRESET_HELP}; several, separated by commas, to compare them")] = "vcu128",
    check: Annotated[bool, Option("--check", help="Exit code 1 if it is more than the limits allow")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object, or one for each of several")] = False,
    integers: Annotated[
        bool, Option("--integers", help="The units of an integer machine on the board, no preset")
    ] = False,
    shell: Annotated[bool, Option("--shell", help="Beside it, with our own logic around it on the card")] = False,
) -> None:
    """Count DSP, LUT, FF, BRAM and URAM with Yosys, and the levels of logic; the first time takes minutes.

    The limits are a share of each kind, and levels of logic between registers. etalstm_boards.resources.limits argues
    for them. Delays are estimates; etalstm_boards.resources.delays has them with their sources.
    """
    log = Console(stderr=True)
    texts = _of_units() if integers else _of_presets(preset.split(","), shell)
    found = {
        name: report(*text_and_top, lambda module: log.print(f"[dim]synthesis of {module}"))
        for name, text_and_top in texts.items()
    }
    if as_json:
        for name, result in found.items():
            print(json.dumps({"unit" if integers else "preset": name} | as_dict(result, AVAILABLE, PART)))
    elif len(found) > 1:
        print_table(_comparison(found))
    else:
        _print_report(found[preset])
    if check and _exceeds(found):
        raise typer.Exit(1)


def _of_units() -> dict[str, tuple[str, str]]:
    """Give the Verilog of each unit, and its outermost module."""
    return {name: (generate.component_verilog(unit), designs.MACHINE) for name, unit in integer_units().items()}


def _of_presets(names: Sequence[str], shell: bool) -> dict[str, tuple[str, str]]:
    """Give the Verilog of each preset's machine, and its outermost module; behind it that with the shell."""
    texts = {}
    for name in names:
        config = named_preset(name)
        texts[name] = designs.machine(config), designs.MACHINE
        if shell:
            texts[f"{name} on its card"] = designs.on_card(config), designs.SHELL
    return texts


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
        amounts = [plain(total)[kind] for total in totals]
        table.add_row(kind, *(f"{n:,} ({share[kind]:.1%})" for n, share in zip(amounts, shares, strict=True)))
    table.add_row("unpaired lut", *(f"{result.unpaired:,}" for result in found.values()))
    deepest = [result.deepest for result in found.values()]
    table.add_row("levels", *(f"{row.deepest.levels} in {row.name}" if row.deepest else "" for row in deepest))
    slowest = [next(iter(result.by_delay), None) for result in found.values()]
    table.add_row("ns", *(f"{worst[1].delay_ns:.2f} in {worst[0].name}" if worst else "" for worst in slowest))
    return table


def _print_report(result: Report) -> None:
    print_table(_table(result, AVAILABLE, PART))
    print_table(_paths("Most levels", deeper_than(result, 0)))
    print_table(_paths("Longest estimated delay", result.by_delay))
    deeper = len(deeper_than(result, GOAL_LEVELS))
    print(f"Goal: {GOAL_LEVELS} levels, for 250 MHz; {deeper} modules have more. Allowed now: {MOST_LEVELS}.")
    over = [kind for kind, share in result.total.share_of(AVAILABLE).items() if share > LARGEST_SHARE]
    print(f"Above {LARGEST_SHARE:.0%} of the part: {', '.join(over) or 'nothing'}.")
    print("\n".join(CAVEATS))


def _table(result: Report, part: Resources, name: str) -> Table:
    table = Table("module", *(f"{name}" for name in ("instances", *KINDS, "unpaired", "levels", "ns")))
    for column in table.columns[1:]:
        column.justify = "right"
    for row in result.rows:
        table.add_row(
            row.name,
            f"{row.instances:,}",
            *_formatted(row.total),
            f"{row.unpaired * row.instances:,}",
            *_worst(row.deepest, row.slowest),
        )
    used, share = result.total, result.total.share_of(part)
    table.add_section()
    slowest = next((path for _, path in result.by_delay), None)
    worst = _worst(result.deepest.deepest, slowest)
    table.add_row("in all", "", *_formatted(used), f"{result.unpaired:,}", *worst)
    table.add_row(f"of {name}", "", *(f"{share[kind]:.1%}" for kind in KINDS), f"{result.unpaired / part.lut:.1%}")
    return table


def _paths(title: str, paths: Sequence[tuple[Row, Path]]) -> Table:
    """Make a table of the worst path of each module, the worst of all first."""
    names = ("ns", "levels", "LUTs", "chains", "multipliers", "readers")
    table = Table(*(Column(name, justify="right") for name in names), "from", "to", "module", title=title)
    for row, path in paths[:PATHS_SHOWN]:
        step = path.step
        numbers = (path.levels, step.luts, step.chains, step.multipliers, path.readers)
        table.add_row(f"{path.delay_ns:.2f}", *map(str, numbers), path.start, path.end, row.name)
    return table


def _formatted(amounts: Resources) -> list[str]:
    return [f"{amount:,}" for amount in plain(amounts).values()]


def _worst(deepest: Path | None, slowest: Path | None) -> list[str]:
    return [str(deepest.levels) if deepest else "", f"{slowest.delay_ns:.2f}" if slowest else ""]
