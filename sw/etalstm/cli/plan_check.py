"""``eta-lstm plan --check``: a plan's programs under a model of the machine's checks."""

from collections.abc import Iterator

import typer

from etalstm.plan.plan import Plan
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


def check(planned: Plan) -> None:
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
