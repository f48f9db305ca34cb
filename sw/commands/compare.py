"""``eta-lstm compare``: do two devices give the same bits?"""

import json
import sys
from contextlib import ExitStack
from typing import Annotated

import numpy as np
import typer
from typer import Option

from etalstm.architecture import SWING
from etalstm.commands.devices import ARCHITECTURE_HELP, open_named
from etalstm.commands.options import PRESET_HELP, SLICES_HELP
from etalstm.comparison import RandomRun
from etalstm.comparison import compare as run_comparison
from etalstm.device import OffloadDevice, TrainingShape
from etalstm.network import NetworkShape, check_size
from etalstm.storage import DENSE, Storage, read_thresholds


def compare(
    devices: Annotated[str, Option(help="Devices, separated by commas; the first one's words are expected")] = (
        "golden,sim"
    ),
    preset: Annotated[str, Option(help=f"{PRESET_HELP}; or one for each device, with commas between")] = "test",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 8,
    hidden: Annotated[int, Option(help="Units of a layer")] = 16,
    layers: Annotated[int, Option(help="LSTM layers")] = 1,
    batch: Annotated[int, Option(help="Sequences")] = 4,
    steps: Annotated[int, Option(help="Steps")] = 4,
    iterations: Annotated[int, Option(help="Iterations")] = 1,
    loss: Annotated[str, Option(help="last or per-step")] = "per-step",
    stall: Annotated[float, Option(help="Probability that a simulated memory handshake waits a cycle")] = 0.0,
    lengths: Annotated[bool, Option("--unequal-lengths", help="Draw a length for each sequence")] = False,
    theta: Annotated[str, Option(help="Drop local gradients below: one number, or six, for i,f,g,o,s,r")] = "0",
    storage: Annotated[str, Option(help="What cells keep: dense, ms1 or ms1-bf16")] = DENSE,
    log_share: Annotated[
        float | None, Option(help="Room of compressed streams at first, of what they need if nothing is dropped")
    ] = None,
    memory_budget: Annotated[
        int | None, Option(help="Bytes of a device's memory; what cells keep beyond it goes to the host and back")
    ] = None,
    offload: Annotated[
        bool, Option("--offload", help="The host runs the forward pass of all but the first device, and streams it")
    ] = False,
    delta_threshold: Annotated[float, Option(help="Gates' gradients below count as zero in the products")] = 0.0,
    skip_cells: Annotated[float, Option(help="Share of cells that are skipped")] = 0.0,
    architecture: Annotated[str, Option(help=ARCHITECTURE_HELP)] = SWING.name,
    slices: Annotated[int, Option(help=SLICES_HELP)] = 1,
    seed: Annotated[int, Option(help="Of weights and data")] = 0,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Train the same random network on several devices and compare every word; exit code 1 if any differs."""
    thresholds = read_thresholds(theta)
    if storage == DENSE and np.any(thresholds):
        print(f"dense storage prunes nothing: theta {theta} is not used", file=sys.stderr, flush=True)
        thresholds = 0
    network, kept = NetworkShape(inputs, hidden, layers), Storage(storage, thresholds)
    shape = TrainingShape(
        network, batch, steps, masked=lengths, storage=kept, log_share=log_share, memory_budget=memory_budget,
        architecture=architecture, slices=slices,
    )  # fmt: skip
    check_size("iterations", iterations)
    run = RandomRun(iterations, loss, seed, skip_cells, delta_threshold)
    names = devices.split(",")
    presets = preset.split(",")
    presets = presets * len(names) if len(presets) == 1 else presets
    if len(presets) != len(names):
        raise ValueError(f"there must be one preset, or one for each of {len(names)} devices, got {preset!r}")
    if len(names) < 2:
        raise ValueError(f"at least two devices are compared, got {devices!r}")
    with ExitStack() as stack:
        sessions = {}
        for number, (name, configuration) in enumerate(zip(names, presets, strict=True)):
            opened = stack.enter_context(open_named(name, configuration, stall=stall))
            opened = OffloadDevice(opened) if offload and number else opened
            sessions[f"{number}: {name} {configuration}"] = opened.create(shape)
        found = run_comparison(sessions, shape, run)
    result = {
        "iterations": iterations,
        "tensors": found.tensors,
        "words": found.words,
        "mismatched_words": found.mismatched_words,
        "first_mismatch": found.first_mismatch,
    }
    if as_json:
        print(json.dumps(result))
    else:
        print(f"{found.words:,} words of {found.tensors} tensors compared, {found.mismatched_words:,} differ")
        if found.first_mismatch:
            print(", ".join(f"{key} {value}" for key, value in found.first_mismatch.items()))
    if found.mismatched_words:
        raise typer.Exit(1)
