"""``eta-lstm verify programs``: valid programs with one field changed."""

import dataclasses
import importlib
import json
from collections import Counter
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option

from etalstm.cli.options import PresetName

OPEN = "the contract leaves it open"


def programs(
    count: Annotated[int, Option(help="Programs, each with another field changed")] = 1000,
    seed: Annotated[int, Option(help="Of all cases; seed and number make a case")] = 0,
    first: Annotated[int, Option(help="Number of the first case; with --count 1 it is replayed alone")] = 0,
    on: Annotated[str, Option(help="machine: run simulated; model: the checks only, without a simulator")] = "machine",
    preset: PresetName = "test",
    as_json: Annotated[bool, Option("--json", help="Print a JSON object for each case")] = False,
) -> None:
    """Change a field of a valid program; exit code 1 if contract, model and machine disagree about how one ends."""
    near_valid = importlib.import_module("etalstm_sim.trials.programs.near_valid")  # needs the hardware description
    ends: Counter[tuple[str, str]] = Counter()
    promised, bad = 0, []
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task("programs", total=count)
        for found in near_valid.near_valid(count, seed, first, preset, on):
            progress.advance(task)
            ends[_kind(found), _end(found)] += 1
            promised += found.ending.promised is not None
            if not found.fits:
                bad.append(found)
            if as_json or count == 1:
                print(json.dumps(_as_dict(found)))
    if not as_json:
        _print_ends(ends, promised, count)
    for found in bad if not as_json else ():
        print(f"does not fit: {json.dumps(_as_dict(found))}")
    if not as_json:
        print(f"{len(bad):,} of {count:,} do not fit the contract")
    if bad:
        raise typer.Exit(1)


def _print_ends(ends: Counter, promised: int, count: int) -> None:
    for (kind, end), number in sorted(ends.items()):
        print(f"{number:>10,}  {end:24} {kind}")
    named = sum(number for (kind, _), number in ends.items() if kind != OPEN)
    print(f"the contract's text says how {named / count:.1%} end, the model how {promised / count:.1%} end")


def _kind(found) -> str:
    """Write whether the contract says how a program ends."""
    if found.expected.same:
        return "the field changes no result"
    return "the contract names the status" if found.expected.is_definite else OPEN


def _end(found) -> str:
    """Name how a program ended, or how it may end."""
    return found.run.status.name if found.run else " or ".join(_names(found.ending.statuses))


def _names(statuses) -> list[str]:
    return sorted(status.name for status in statuses)


def _as_dict(found) -> dict:
    """Give a case as plain values, for JSON."""
    change = dataclasses.asdict(found.change)
    run = dataclasses.asdict(found.run) | {"status": found.run.status.name} if found.run else {}
    return {
        "number": found.number,
        "network": found.network,
        "number_in_program": change.pop("number"),
        **change,
        "expected": _names(found.expected.statuses),
        "expected_same": found.expected.same,
        "modelled": _names(found.ending.statuses),
        "refused": sorted(refusal.number for refusal in found.ending.refusals),
        **run,
        "fits": found.fits,
    }
