"""``eta-lstm verify coverage``: which situations and which bits of the machine simulated programs reach."""

import importlib
import json
from typing import Annotated

import typer
from typer import Option

from etalstm.cli.output import print_rows, say

NAMED = 40  # holes that are printed; `--json` has all


def coverage(
    seed: Annotated[int, Option(help="Of data and stalls")] = 0,
    preset: Annotated[
        str,
        Option(
            help="test: machines whose products are float32, with sim and slice; test-int8: integers, with sim-int8"
        ),
    ] = "test",
    toggles: Annotated[str | None, Option(help="Also list the bits of this module that have not toggled")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Run programs in every situation on the simulated machine, count what they reach; exit code 1 if it has holes."""
    kind = importlib.import_module("etalstm_sim.trials.coverage.bins").kind_of(preset)  # needs the hardware description
    measure = importlib.import_module("etalstm_sim.trials.coverage.measure")
    toggling = importlib.import_module("etalstm_sim.trials.coverage.toggles")
    names = toggling.control_modules(preset)
    if toggles is not None and toggles not in names:
        raise ValueError(f"toggles must be one of {', '.join(names)}, got {toggles!r}")
    found = measure.measure(kind, seed, log=say)
    summary = importlib.import_module("etalstm_sim.trials.coverage.summary").Summary(found.hits, kind)
    modules = toggling.module_toggles(found.toggles, preset)
    if as_json:
        print(json.dumps(_as_dict(found, summary, modules)))
    else:
        _print_statuses(summary)
        _print_variants(summary)
        _print_toggles(modules, preset)
        _print_totals(found, summary, modules)
        for module in modules:
            if module.module == toggles:
                print(f"not toggled in {toggles}: {', '.join(module.untoggled) or 'nothing'}")
    if summary.holes or summary.contradictions:
        raise typer.Exit(1)


def _as_dict(found, summary, modules) -> dict:
    """Give all results as plain values, for JSON."""
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
    opcodes = dict.fromkeys(opcode for opcode, _ in counts)
    rows = ((opcode, *(_share(counts[opcode, status]) for status in statuses)) for opcode in opcodes)
    title = "Bins that were hit, of those that can be: memory × architecture, by opcode and status"
    print_rows(title, ["opcode", *statuses], rows, justify="center")


def _print_variants(summary) -> None:
    counts = summary.of_variants()
    architectures = list(dict.fromkeys(architecture for *_, architecture in counts))
    variants = dict.fromkeys((opcode, variant) for opcode, variant, _ in counts)
    rows = (
        (*variant, *(_share(counts[*variant, architecture]) for architecture in architectures)) for variant in variants
    )
    title = "Memories under which a variant ran to DONE, by architecture"
    print_rows(title, ["opcode", "variant", *architectures], rows, left=(0, 1), justify="center")


def _share(counts: tuple[int, int]) -> str:
    return f"{counts[0]}/{counts[1]}" if counts[1] else "-"


def _print_toggles(modules, preset: str) -> None:
    rows = []
    for module in modules:
        toggled = module.bits - len(module.untoggled)
        counts = (module.bits, toggled, f"{module.share:.1%}", len(module.untoggled), len(module.excused))
        rows.append((module.module, *map(str, counts)))
    columns = "module", "bits", "toggled both ways", "share", "not", "excused"
    print_rows(f"Bits of the control logic, preset {preset}", columns, rows, justify="center")


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
