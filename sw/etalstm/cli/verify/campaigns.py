"""``eta-lstm verify faults``, ``programs``, ``endurance``: what becomes of faults, wrong programs, and trouble."""

import dataclasses
import importlib
import json
from collections import Counter
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option

from etalstm.cli.devices import DEVICES_HELP
from etalstm.cli.options import PresetName
from etalstm.research.endurance import endure

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


RUN = ["--dataset", "digits", "--hidden", "5", "--batch", "8", "--theta", "0.05", "--ms2", "0.3"]
RUN += ["--epochs", "1000000", "--evaluation-batches", "1"]


def endurance(
    iterations: Annotated[int, Option(help="Of each run")] = 10_000,
    troubles: Annotated[int, Option(help="How often the second run is killed, or cannot write any more")] = 20,
    checkpoint_every: Annotated[int, Option(help="Iterations between checkpoints")] = 25,
    device: Annotated[str, Option(help=f"What trains: {DEVICES_HELP}")] = "golden",
    preset: PresetName = "test",
    seed: Annotated[int, Option(help="Of the moments and the kinds of trouble")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Train twice, once with trouble, resumed each time; exit code 1 unless both leave the same bits.

    Trouble is a kill (SIGKILL), a disk that is full, or a folder that is read-only.
    """
    options = [*RUN, "--device", device, "--preset", preset, "--checkpoint-every", str(checkpoint_every)]
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task("iterations", total=2 * iterations)
        found = endure(options, iterations, troubles, seed, lambda done: progress.update(task, completed=done))
    if as_json:
        print(json.dumps(found))
    else:
        same, once = found["same"], found["once"]
        print(
            f"{found['iterations']:,} iterations; {', '.join(f'{kind}: {n}' for kind, n in found['troubles'].items())}"
        )
        if found["impossible"]:
            print(f"not tried, as permissions do not stop this user: {', '.join(found['impossible'])}")
        print("the same checkpoint" if same else "another checkpoint")
        print("each iteration logged once" if once else "the log has other iterations")
        print(f"memory of the process: {found['settled_bytes']:,} bytes early, {found['last_bytes']:,} late")
    if not (found["same"] and found["once"]):
        raise typer.Exit(1)


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
                print(json.dumps(_described(found)))
    if not as_json:
        _print_ends(ends, promised, count)
    for found in bad if not as_json else ():
        print(f"does not fit: {json.dumps(_described(found))}")
    if not as_json:
        print(f"{len(bad):,} of {count:,} do not fit the contract")
    if bad:
        raise typer.Exit(1)


def _print_ends(ends: Counter, promised: int, count: int) -> None:
    for (kind, end), number in sorted(ends.items()):
        print(f"{number:>10,}  {end:24} {kind}")
    said = sum(number for (kind, _), number in ends.items() if kind != OPEN)
    print(f"the contract's text says how {said / count:.1%} end, the model how {promised / count:.1%} end")


def _kind(found) -> str:
    """Tell what the contract says of a program."""
    if found.expected.same:
        return "the field changes no result"
    return "the contract names the status" if found.expected.is_said else OPEN


def _end(found) -> str:
    """Name how a program ended, or how it may end."""
    return found.run.status.name if found.run else " or ".join(_names(found.ending.statuses))


def _names(statuses) -> list[str]:
    return sorted(status.name for status in statuses)


def _described(found) -> dict:
    """Give a case as JSON has it."""
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
