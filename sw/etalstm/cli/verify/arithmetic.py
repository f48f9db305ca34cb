"""``eta-lstm verify arithmetic``: checks multiplier and adder against integer arithmetic."""

import importlib
import json
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option


def arithmetic(
    pairs: Annotated[int, Option(help="Random pairs of each unit, beside all pairs of special words")] = 10_000_000,
    seed: Annotated[int, Option(help="Of the random pairs")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print a JSON object for each unit")] = False,
) -> None:
    """Run pairs of float32 through the compiled multiplier and adder; exit code 1 if a result is wrong."""
    prove = importlib.import_module("etalstm_sim.trials.arithmetic.prove_arithmetic")  # needs the hardware description
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task("multiply, add", total=2 * (pairs + len(prove.special_pairs()[0])))
        found = prove.prove_arithmetic(pairs, seed, lambda count: progress.advance(task, count))
    for each in found:
        print(json.dumps(each) if as_json else _text(each))
    if any(each["differ"] for each in found):
        raise typer.Exit(1)


def _text(found: dict) -> str:
    text = (
        f"{found['unit']}: {found['special_pairs']:,} pairs of special words, {found['random_pairs']:,} random ones, "
    )
    text += f"{found['differ']:,} wrong; {found['seconds']:.0f} s"
    if found["first"]:
        text += "\nfirst: {:#010x} and {:#010x} gave {:#010x}, {:#010x} is right".format(*found["first"])
    return text
