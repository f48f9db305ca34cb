"""``eta-lstm verify compare``: tests whether devices give the same bits."""

import json
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

import typer
from typer import Option

from etalstm.cli import options
from etalstm.cli.declared import with_settings
from etalstm.cli.devices import open_named, tell_instructions
from etalstm.cli.options import trace_options
from etalstm.cli.work import CHOICES, PANELS, SIZES, Work
from etalstm.device import OffloadDevice, TrainingShape
from etalstm.device.comparison import Comparison, RandomRun
from etalstm.device.comparison import compare as run_comparison
from etalstm.device.machine.hardware import HardwareDevice, is_simulation
from etalstm.network.execution import PRESET_HELP, SLICES_HELP, STORAGE_HELP
from etalstm.network.shape import check_size

COMPARED = f"{SIZES} lengths architecture {CHOICES} memory_budget"


@with_settings(Work, PANELS, COMPARED, hidden=16, batch=4, steps=4)
def compare(
    devices: Annotated[str, Option(help="Devices, separated by commas; the first one's words are expected")] = (
        "golden,sim"
    ),
    preset: Annotated[str, Option(help=f"{PRESET_HELP}; or one for each device, with commas between")] = "test",
    iterations: Annotated[int, Option(help="Iterations")] = 1,
    loss: Annotated[str, Option(help="last or per-step")] = "per-step",
    stall: Annotated[float, Option(help="Probability that a simulated memory handshake waits a cycle")] = 0.0,
    theta: Annotated[str, Option(help="Drop local gradients below: one number, or six, for i,f,g,o,s,r")] = "0",
    storage: Annotated[
        str | None,
        Option(help=f"{STORAGE_HELP} [default: ms1 with a theta above 0, else dense]"),
    ] = None,
    log_share: Annotated[
        float | None, Option(help="Room of compressed streams at first, of what they need if nothing is dropped")
    ] = None,
    offload: Annotated[
        bool, Option("--offload", help="The host runs the forward pass of all but the first device, and streams it")
    ] = False,
    delta_threshold: Annotated[float, Option(help="Gates' gradients below count as zero in the products")] = 0.0,
    skip_cells: Annotated[float, Option(help="Share of cells that are skipped")] = 0.0,
    slices: Annotated[int, Option(help=SLICES_HELP)] = 1,
    groups: Annotated[
        int | None, Option(help="Groups of channels, each for a part of the batch [default: the fastest]")
    ] = None,
    seed: Annotated[int, Option(help="Of weights and data")] = 0,
    trace: options.Trace = None,
    trace_first: options.TraceFirst = None,
    trace_last: options.TraceLast = None,
    as_json: options.AsJson = False,
    **of_work: Any,
) -> None:
    """Train the same random network on several devices and compare every word; exit code 1 if any differs.

    Lengths of sequences are drawn. With shared tokens x are vectors of as many tokens.
    """
    work = Work(slices=str(slices), **of_work)
    shape = TrainingShape(
        *work.sizes, work.execution(storage, theta), masked=work.lengths,
        log_share=log_share, memory_budget=work.memory_budget, groups=groups,
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
    waveform, last = trace_options(trace, trace_first, trace_last), _last_simulated(names)
    if waveform and last is None:
        raise ValueError(f"--trace needs a simulated device, got --devices {devices}")
    with ExitStack() as stack:
        sessions, recorded, clock = {}, None, lambda: 0
        for number, (name, configuration) in enumerate(zip(names, presets, strict=True)):
            traced = waveform if number == last else {}
            opened = stack.enter_context(open_named(name, configuration, stall=stall, **traced))
            if number == last and isinstance(opened, HardwareDevice):
                clock = partial(_cycle, opened.accelerator.transport)
            opened = OffloadDevice(opened) if offload and number else opened
            session = sessions[f"{number}: {name} {configuration}"] = opened.create(shape)
            recorded = session if number == last else recorded
        found = run_comparison(sessions, shape, run, clock)
    tell_instructions(trace, recorded)
    if as_json:
        counts = {name: getattr(found, name) for name in ("tensors", "words", "mismatched_words", "first_mismatch")}
        print(json.dumps({"iterations": iterations} | counts))
    else:
        print(f"{found.words:,} words of {found.tensors} tensors compared, {found.mismatched_words:,} differ")
        if found.first_mismatch:
            print(", ".join(f"{key} {value}" for key, value in found.first_mismatch.items()))
            if last is not None and not waveform:
                print(_waveform_hint(found))
    if found.mismatched_words:
        raise typer.Exit(1)


def _last_simulated(names: list[str]) -> int | None:
    """Give the number of the last simulated device: the one that writes a waveform."""
    return max((number for number, name in enumerate(names) if is_simulation(name)), default=None)


def _cycle(transport) -> int:
    return transport.simulation.cycle


def _waveform_hint(found: Comparison) -> str:
    first, last = found.cycles
    return (
        "A waveform of that iteration on the last simulated device: the same command with "
        f"--trace FILE.fst --trace-first {first} --trace-last {last}"
    )
