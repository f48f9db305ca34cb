"""The cycles of a training iteration: every program of a plan through the model."""

from collections.abc import Sequence

import numpy as np

from etalstm.formats.counters import named_counters
from etalstm.model.counted import Counted
from etalstm.model.machine.machine import Machine, make_machine
from etalstm.model.machine.state import Sizes, sizes_of
from etalstm.model.machine.table import Tables, tables, tables_of
from etalstm.model.operands import Densities
from etalstm.model.repeats import Repeats
from etalstm.model.run import STUCK, run
from etalstm.network.architecture import SWING, Architecture
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config
from etalstm_hw.contract import Counter, Engine, Opcode, Traffic


class ModelError(ValueError):
    """A program that comes to no end."""


def count_program(
    config: Config,
    words: Sequence[int],
    operands: Densities,
    architecture: Architecture = SWING,
    *,
    counted: Counted | None = None,
    groups: int = 1,
    repeats: bool = True,
) -> np.ndarray:
    """Give the counters that the machine would have after a program, int64, in the order of :class:`Counter`.

    `operands` tell what is not zero, where it is not `counted`: what the program has moved. The channels work in so
    many `groups`. With `repeats`, what was gone through before is left out, see :mod:`etalstm.model.repeats`; the
    counters are the same. Where something was counted, everything is gone through.

    :class:`ModelError` if the program comes to no end.
    """
    machine, program, sizes = machine_with(config, words, operands, architecture, groups, counted is not None)
    if counted is not None:
        program = counted.fill(words, program)
    if repeats and counted is None:
        ended = Repeats(machine, program, sizes).run()
    else:
        ended = run(machine, program, sizes) != STUCK
        machine.counted[Counter.CYCLES] = machine.sequencer["cycle"][0]
    if not ended:
        raise ModelError(f"the model has come to a stop before the HALT: {describe(machine, program.table)}")
    return of_all_channels(machine, sizes)


def machine_with(
    config: Config,
    words: Sequence[int],
    operands: Densities,
    architecture: Architecture,
    groups: int,
    every: bool = False,
) -> tuple[Machine, Tables, Sizes]:
    """Give a machine that is reset, and the program that it is to run: see :func:`count_program`.

    With `every` all channels are modelled, else those of one memory port: the others do the same.
    """
    division = architecture.division
    shares = (division.elementwise, division.forward, division.backward) if division else (0, 0, 0)
    sizes = sizes_of(config, skips=architecture.skips, shares=shares, batch_groups=groups, every=every)
    program = tables_of(*tables(config, words, operands))
    return make_machine(sizes, config.queue_depth, len(program.table)), program, sizes


def of_all_channels(machine, sizes: Sizes) -> np.ndarray:
    """Add what every channel counts, and every group."""
    counters, groups = machine.counted.copy(), sizes.batch_groups // sizes.groups
    ports = sizes.channels * groups // sizes.modelled
    counters[Counter.CYCLE_KINDS : Counter.SCALARS_SEEN] *= ports
    counters[Counter.SCALARS_SEEN : Counter.SCALARS_SKIPPED + 1] *= groups
    counters[Counter.READ_BEATS : Counter.READ_BEATS + len(Traffic)] *= groups
    counters[Counter.WRITE_BEATS : Counter.WRITE_BEATS + len(Traffic)] *= ports
    return counters


def count_iteration(
    config: Config,
    plan: Plan,
    operands: Densities,
    architecture: Architecture = SWING,
    *,
    skipped: np.ndarray | None = None,
    only: str = "",
    repeats: bool = True,
) -> dict[str, dict]:
    """Give the counters of an iteration's programs, or of those whose name begins with `only`, by their names.

    Cells that are `skipped`, bool, (L, T), keep nothing and have no backward pass; without it there are none.
    """
    programs = plan.programs
    if skipped is not None and skipped.any():
        programs = programs | plan.named(*plan.passes(skipped))
    found = {}
    for name, program in programs.items():
        if name.startswith(only):
            given = config, program.words, operands, architecture
            counters = count_program(*given, groups=plan.groups, repeats=repeats)
            found[name] = named_counters(counters.tolist(), config.beat_bytes)
    return found


_WAITS = ("wait_load", "wait_mac", "wait_vector", "wait_store")


def describe(machine: Machine, table: np.ndarray) -> str:
    """Say where a program stands in which nothing happens any more, and what every engine that has something to do
    waits for.
    """
    sequencer = machine.sequencer[0]
    found = [f"the program stands at instruction {sequencer['number']} of {len(table)}"]
    if sequencer["out"]:
        opcode = Opcode(int(machine.instances[sequencer["out_slot"]]["opcode"])).name
        found.append(f"the sequencer waits to hand on a {opcode}")
    for engine in Engine:
        queue = machine.queues[0, engine]
        if queue["current"] >= 0:
            one = machine.instances[queue["current"]]
            found.append(f"{engine.name} has not taken its {Opcode(int(one['opcode'])).name}{_supply(machine, engine)}")
        elif queue["head"] < queue["tail"]:
            one = machine.instances[queue["numbers"][queue["head"] % len(queue["numbers"])]]
            waits = _unmet(machine, one) or "nothing"
            found.append(f"{engine.name} holds a {Opcode(int(one['opcode'])).name} back, which waits for {waits}")
    return "; ".join(found)


def _supply(machine: Machine, engine: Engine) -> str:
    """Say how many scalars wait for a MAC instruction."""
    if engine != Engine.MAC:
        return ""
    scalars = machine.scalars[0]
    return f", with {scalars['tail'] - scalars['head']} scalars waiting for it"


def _unmet(machine: Machine, instruction: np.void) -> str:
    """Name the completions that an instruction waits for."""
    waits = []
    for engine, name in enumerate(_WAITS):
        wanted, done = int(instruction[name]), int(machine.done[0, engine]["count"])
        if wanted > done:
            waits.append(f"{Engine(engine).name} number {wanted}, of which {done} are completed")
    return " and ".join(waits)
