"""``eta-lstm bench programs``: programs that are right but for one field."""

import dataclasses
import importlib
import json
from collections import Counter
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option


def programs(
    count: Annotated[int, Option(help="Programs, each with another field changed")] = 1000,
    seed: Annotated[int, Option(help="Of all cases; seed and number make a case")] = 0,
    first: Annotated[int, Option(help="Number of the first case; with --count 1 it is replayed alone")] = 0,
    preset: Annotated[str, Option(help="Configuration of the accelerator")] = "test",
    as_json: Annotated[bool, Option("--json", help="Print a JSON object for each case")] = False,
) -> None:
    """Change a field of a valid program, run it simulated; exit code 1 if one ends otherwise than the contract says."""
    near_valid = importlib.import_module("etalstm.sim.near_valid")  # needs the hardware description
    ends, bad = Counter(), []
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task("programs", total=count)
        for found in near_valid.near_valid(count, seed, first, preset):
            progress.advance(task)
            ends[_kind(found), found.status.name] += 1
            if not found.fits:
                bad.append(found)
            if as_json or count == 1:
                print(json.dumps(_described(found)))
    for (kind, status), number in sorted(ends.items()) if not as_json else ():
        print(f"{number:>10,}  {status:12} {kind}")
    for found in bad if not as_json else ():
        print(f"does not fit: {json.dumps(_described(found))}")
    if not as_json:
        print(f"{len(bad):,} of {count:,} do not fit the contract")
    if bad:
        raise typer.Exit(1)


def _kind(found) -> str:
    """Tell what the contract says of a program."""
    if found.expected.same:
        return "the field changes no result"
    return "the contract names the status" if found.expected.is_said else "the contract leaves it open"


def _described(found) -> dict:
    """Give a case as JSON has it."""
    statuses = sorted(status.name for status in found.expected.statuses)
    change = dataclasses.asdict(found.change)
    return {
        "number": found.number,
        "instruction": change.pop("number"),
        **change,
        "expected": statuses,
        "expected_same": found.expected.same,
        "status": found.status.name,
        "same": found.same,
        "contained": found.contained,
        "fits": found.fits,
    }
