"""``eta-lstm verify activation``: proves σ and tanh, hardware against golden against float64."""

import importlib
import json
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option

CHUNK = 1 << 22
ALL_WORDS = 1 << 32


def activation(
    function: Annotated[str, Option(help="sigmoid or tanh")] = "sigmoid",
    words: Annotated[int, Option(help="How many of the 2^32 inputs, evenly spread [default: all]")] = ALL_WORDS,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Evaluate every float32 in the compiled activation unit; exit code 1 if a result is wrong."""
    prove = importlib.import_module("etalstm_sim.trials.arithmetic.prove")  # needs the hardware description
    with Progress(transient=True, disable=as_json) as progress:
        task = progress.add_task(function, total=words)
        result = prove.prove_activation(
            function, CHUNK, words, lambda done, total: progress.update(task, completed=done, total=total)
        )
    if as_json:
        print(json.dumps(result))
    else:
        print(f"{function}: {result['words']:,} words, {result['mismatches']} differ between hardware and golden")
        print(f"{result['violations']} outside their bound; the largest error is {result['max_of_bound']:.2f} of it")
        print(f"{result['seconds']:.0f} s" + ("; proven for every input" if result["proven"] else ""))
    if result["mismatches"] or result["violations"]:
        raise typer.Exit(1)
