"""``eta-lstm verify faults``: the outcomes of faults in the simulated machine."""

import dataclasses
import importlib
import json
from collections import Counter
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option

from etalstm.cli.options import PresetName

BAD = ("hang", "crash")


def faults(
    count: Annotated[int, Option(help="Cases, each another fault")] = 1000,
    seed: Annotated[int, Option(help="Of all cases; seed and number make a case")] = 0,
    first: Annotated[int, Option(help="Number of the first case; with --count 1 it is replayed alone")] = 0,
    preset: PresetName = "test",
    scrub: Annotated[
        bool, Option("--scrub", help="Compare the memory after load, before and after the update")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print a JSON object for each case")] = False,
) -> None:
    """Train a small network on the simulated machine, with a fault each time; exit code 1 for a hang or a crash."""
    campaign = importlib.import_module("etalstm_sim.trials.faults.campaign")  # needs the hardware description
    outcomes: Counter[tuple[str, str]] = Counter()
    silent: Counter[tuple[str, str]] = Counter()
    bad = []
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task("cases", total=count)
        for found in campaign.campaign(count, seed, first, preset, scrub):
            progress.advance(task)
            kind = found.kind.value if found.kind else "not known"
            outcomes[kind, found.outcome.value] += 1
            if found.outcome.value == "silent":
                silent[kind, found.place or found.struck] += 1
            if found.outcome.value in BAD:
                bad.append(found)
            if as_json or count == 1:
                print(json.dumps(dataclasses.asdict(found)))
    if not as_json:
        _print_table(outcomes, silent)
    for found in bad if not as_json else ():
        print(f"{found.outcome} of case {found.number}: {found.said}")
    if bad:
        raise typer.Exit(1)


def _print_table(outcomes: Counter, silent: Counter) -> None:
    names = ("detected", "masked", "silent", "missed", *BAD)
    print(" " * 58 + "".join(f"{name:>10}" for name in names))
    for kind in sorted({kind for kind, _ in outcomes}):
        print(f"{kind:58}" + "".join(f"{outcomes[kind, name]:>10,}" for name in names))
    if silent:
        print("silent by what was hit:")
        for (kind, place), number in silent.most_common():
            print(f"{number:>10,}  {place}: {kind}")
