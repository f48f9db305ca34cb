"""``eta-lstm plan check``: a plan's programs under a model of the machine's checks."""

from collections.abc import Iterator
from typing import Annotated

import typer
from typer import Option

from etalstm.cli.options import (
    Batch,
    CellName,
    InputSize,
    InputThreshold,
    Layers,
    Memory,
    MemoryBudget,
    PresetName,
    Refresh,
    SharedTokens,
    Steps,
    UnequalLengths,
    Units,
    WeightFormat,
)
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import FLOAT32, SLICES_HELP, Execution, slices_or_auto
from etalstm.network.shape import NetworkShape, check_size
from etalstm.network.slices import AUTO
from etalstm.plan.choose.fit import plan_at_density
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset as named_preset
from etalstm_hw.contract import Status
from etalstm_sim.checks.control import Refusal
from etalstm_sim.checks.model import Ending, Model
from etalstm_sim.checks.refusals import Sizes

MOST_STEPS = 10_000_000
"""Executed instructions of a program that are looked at: some seconds."""

_WHY = {
    Status.BAD_ADDRESS: "the data decide which addresses of a MAC or a LOAD_ROWS are used",
    Status.BAD_STREAM: "other data may lie where a stream is read",
    Status.OVERFLOW: "the data decide how much of a stream is dropped, and its log may have too little room",
    Status.STUCK: "its engines may wait for each other",
}
"""By status, why the model cannot tell whether a program ends with it; docs/trust.md has the same table."""


def check(
    preset: PresetName = "sim",
    inputs: InputSize = 8,
    hidden: Units = 32,
    layers: Layers = 1,
    cell: CellName = LSTM.name,
    batch: Batch = 32,
    steps: Steps = 8,
    lengths: UnequalLengths = False,
    storage: Annotated[str, Option(help="What cells keep: dense, ms1 or ms1-bf16")] = "dense",
    slices: Annotated[str, Option(help=f"{SLICES_HELP}; auto: as many as the machine uses best")] = "1",
    weight_format: WeightFormat = FLOAT32,
    shared_tokens: SharedTokens = "off",
    input_threshold: InputThreshold = "0",
    refresh: Refresh = None,
    memory: Memory = None,
    memory_budget: MemoryBudget = None,
) -> None:
    """Tell how each program of a plan ends, by a model of the machine's checks; exit code 1 unless all are DONE."""
    for name, size in (("batch", batch), ("steps", steps)):
        check_size(name, size)
    if memory_budget is not None:
        check_size("memory_budget", memory_budget)
    network, wanted = NetworkShape(inputs, hidden, layers, cell), slices_or_auto(slices)
    execution = Execution.read(
        storage=storage, slices=1 if wanted == AUTO else wanted, input_threshold=input_threshold, refresh=refresh,
        weight_format=weight_format, shared_tokens=shared_tokens,
    )  # fmt: skip
    check_programs(
        plan_at_density(
            named_preset(preset), network, batch, steps, execution, density=1.0, choose_slices=wanted == AUTO,
            masked=lengths, memory_bytes=memory, memory_budget=memory_budget,
        )
    )  # fmt: skip


def check_programs(planned: Plan) -> None:
    """Print how each program ends, in the order of an iteration.

    The exit code is 0 only if every program is certain to end with DONE. It is 1 if the machine refuses a program, if a
    program may end otherwise than with DONE, and if a program is too long to be looked at to its end. In the last two
    cases a line says why.

    Segments share memory, and their backward passes run from the last one to the first. The host brings back the
    streams of a segment; here its forward pass runs again, which writes the same ones.
    """
    config, programs, certain = planned.config, planned.programs, True
    model = Model(Sizes(config, planned.map.memory.window_bytes // config.beat_bytes, planned.groups), MOST_STEPS)
    backward = [name for name in programs if name.startswith("backward")]
    forward = [name for name in programs if name.startswith("forward")]
    others = [name for name in programs if name not in (*forward, *backward)]
    for name in (*forward, *reversed(backward), *others):
        if name in backward and len(forward) == len(backward):
            model.run(programs[forward[backward.index(name)]].words)
        ending = model.run(programs[name].words)
        certain &= ending.promised == Status.DONE
        print(f"{name}: {_text(ending)}")
        for doubt in _doubts(ending):
            print(f"  {doubt}")
    if not certain:
        raise typer.Exit(1)


def _text(ending: Ending) -> str:
    """Say how a program ends: what is refused, then how it may end besides, then where the model gave up."""
    refusals = sorted(ending.refusals, key=lambda refusal: (refusal.number, refusal.status))
    ends = [_place(refusal) for refusal in refusals]
    if not refusals and not ending.is_cut:
        ends.append(Status.DONE.name)
    parts = [" or ".join(ends), *(f"possibly {status.name}" for status in _unplaced(ending))]
    if ending.is_cut:
        parts.append(f"after {MOST_STEPS:,} instructions: not known")
    return ", ".join(filter(None, parts))


def _place(refusal: Refusal) -> str:
    engine = "the sequencer" if refusal.engine is None else refusal.engine.name
    return f"{refusal.status.name} at instruction {refusal.number} by {engine}"


def _unplaced(ending: Ending) -> list[Status]:
    """Give the possible statuses that no refusal names."""
    return sorted(ending.possible - {refusal.status for refusal in ending.refusals})


def _doubts(ending: Ending) -> Iterator[str]:
    """Say why it is not certain how a program ends."""
    for status in _unplaced(ending):
        yield f"{status.name} is possible: {_WHY[status]}"
    if ending.is_cut:
        yield f"not certain: the program executes more than {MOST_STEPS:,} instructions, and no more are looked at"
