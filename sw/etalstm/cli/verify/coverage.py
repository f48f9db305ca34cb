"""``eta-lstm verify coverage``: what of the machine the simulated programs reach."""

import importlib
import json
import sys
from typing import Annotated

import typer
from rich.table import Table
from typer import Option

from etalstm.cli.output import print_table

NAMED = 40  # holes that are printed; `--json` has all


def coverage(
    seed: Annotated[int, Option(help="Of data and stalls")] = 0,
    toggles: Annotated[str | None, Option(help="Also list the bits of this module that have not toggled")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Run programs in every situation on the simulated machine, count what they reach; exit code 1 if it has holes."""
    measure = importlib.import_module("etalstm_sim.trials.coverage.measure")  # needs the hardware description
    toggling = importlib.import_module("etalstm_sim.trials.coverage.toggles")
    names = toggling.control_modules(measure.PRESET)
    if toggles is not None and toggles not in names:
        raise ValueError(f"toggles must be one of {', '.join(names)}, got {toggles!r}")
    found = measure.measure(seed, log=lambda text: print(text, file=sys.stderr, flush=True))
    summary = importlib.import_module("etalstm_sim.trials.coverage.summary").Summary(found.hits)
    modules = toggling.module_toggles(found.toggles, measure.PRESET)
    if as_json:
        print(json.dumps(_described(found, summary, modules)))
    else:
        _print_statuses(summary)
        _print_variants(summary)
        _print_toggles(modules, measure.PRESET)
        _print_totals(found, summary, modules)
        for module in modules:
            if module.module == toggles:
                print(f"not toggled in {toggles}: {', '.join(module.untoggled) or 'nothing'}")
    if summary.holes or summary.contradictions:
        raise typer.Exit(1)


def _described(found, summary, modules) -> dict:
    """Give everything as JSON has it."""
    return {
        "programs": found.programs,
        "cycles": found.cycles,
        "bins": len(summary.possible),
        "holes": [situation._asdict() for situation in summary.holes],
        "contradictions": [situation._asdict() for situation in summary.contradictions],
        "excused": summary.excused,
        "toggles": {
            module.module: {"bits": module.bits, "untoggled": module.untoggled, "excused": module.excused}
            for module in modules
        },
    }


def _print_statuses(summary) -> None:
    counts = summary.of_statuses()
    statuses = list(dict.fromkeys(status for _, status in counts))
    table = Table(title="Bins that were hit, of those that can be: memory × architecture, by opcode and status")
    table.add_column("opcode")
    for status in statuses:
        table.add_column(status, justify="right")
    for opcode in dict.fromkeys(opcode for opcode, _ in counts):
        table.add_row(opcode, *(_share(counts[opcode, status]) for status in statuses))
    print_table(table)


def _print_variants(summary) -> None:
    counts = summary.of_variants()
    architectures = list(dict.fromkeys(architecture for *_, architecture in counts))
    table = Table(title="Memories under which a variant ran to DONE, by architecture")
    table.add_column("opcode")
    table.add_column("variant")
    for architecture in architectures:
        table.add_column(architecture, justify="right")
    for opcode, variant in dict.fromkeys((opcode, variant) for opcode, variant, _ in counts):
        shares = (_share(counts[opcode, variant, architecture]) for architecture in architectures)
        table.add_row(opcode, variant, *shares)
    print_table(table)


def _share(counts: tuple[int, int]) -> str:
    return f"{counts[0]}/{counts[1]}" if counts[1] else "-"


def _print_toggles(modules, preset: str) -> None:
    table = Table(title=f"Bits of the control logic, preset {preset}")
    table.add_column("module")
    for name in ("bits", "toggled both ways", "share", "not", "excused"):
        table.add_column(name, justify="right")
    for module in modules:
        toggled = module.bits - len(module.untoggled)
        counts = (module.bits, toggled, f"{module.share:.1%}", len(module.untoggled), len(module.excused))
        table.add_row(module.module, *map(str, counts))
    print_table(table)


def _print_totals(found, summary, modules) -> None:
    bits, untoggled = sum(module.bits for module in modules), sum(len(module.untoggled) for module in modules)
    print(f"{found.programs:,} programs, {found.cycles:,} cycles")
    print(f"{bits - untoggled:,} of {bits:,} bits toggled, {sum(len(module.excused) for module in modules):,} excused")
    print(f"{len(summary.possible) - len(summary.holes):,} of {len(summary.possible):,} bins hit")
    for reason, count in summary.excused.items():
        print(f"{count:>8,} bins cannot be hit: {reason}")
    for kind, situations in (("hole", summary.holes), ("hit, but impossible", summary.contradictions)):
        for situation in situations[:NAMED]:
            print(f"{kind}: {', '.join(situation)}")
        if len(situations) > NAMED:
            print(f"{kind}: and {len(situations) - NAMED:,} more")
