"""``eta-lstm plan --check``: a plan's programs under a model of the machine's checks."""

import typer

from etalstm.hw.contract import Status
from etalstm.plan.plan import Plan
from etalstm.sim.checks.control import Refusal
from etalstm.sim.checks.model import Ending, Model
from etalstm.sim.refusals import Sizes

MOST_STEPS = 10_000_000
"""Executed instructions of a program that are looked at: some seconds."""


def check(planned: Plan) -> None:
    """Print how each program ends, in the order of an iteration; exit code 1 if the machine refuses one.

    Segments share memory, and their backward passes run from the last one to the first. The host brings back the
    streams of a segment; here its forward pass runs again, which writes the same ones.
    """
    config, programs, refused = planned.config, planned.programs, False
    model = Model(Sizes(config, planned.map.memory.window_bytes // config.beat_bytes, planned.groups), MOST_STEPS)
    backward = [name for name in programs if name.startswith("backward")]
    forward = [name for name in programs if name.startswith("forward")]
    others = [name for name in programs if name not in (*forward, *backward)]
    for name in (*forward, *reversed(backward), *others):
        if name in backward and len(forward) == len(backward):
            model.run(programs[forward[backward.index(name)]].words)
        ending = model.run(programs[name].words)
        refused |= Status.DONE not in ending.statuses
        print(f"{name}: {_text(ending)}")
    if refused:
        raise typer.Exit(1)


def _text(ending: Ending) -> str:
    if ending.is_cut:
        return f"not known: more than {MOST_STEPS:,} instructions are executed"
    ends = " or ".join(sorted(status.name for status in ending.statuses))
    return ", ".join([ends, *map(_place, sorted(ending.refusals, key=lambda refusal: refusal.number))])


def _place(refusal: Refusal) -> str:
    engine = "the sequencer" if refusal.engine is None else refusal.engine.name
    return f"{refusal.status.name} at instruction {refusal.number} by {engine}"
