"""``eta-lstm verify endurance``: a long run that is killed, or cannot write, again and again."""

import json
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Option

from etalstm.cli.devices import DEVICES_HELP
from etalstm.cli.options import PresetName
from etalstm.research.endurance import endure

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
