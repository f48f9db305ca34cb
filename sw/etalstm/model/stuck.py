"""What a machine waits for in which nothing happens any more."""

import numpy as np

from etalstm.model.machine.machine import Machine
from etalstm_hw.contract import Engine, Opcode

_WAITS = ("wait_load", "wait_mac", "wait_vector", "wait_store")


def describe(machine: Machine, table: np.ndarray) -> str:
    """Say where a program stands, and what every engine that has something to do waits for.

    Parameters
    ----------
    machine : Machine
    table : array of INSTRUCTION
        The program.
    """
    sequencer = machine.sequencer[0]
    found = [f"the program stands at instruction {sequencer['index']} of {len(table)}"]
    if sequencer["out"]:
        opcode = Opcode(int(machine.instances[sequencer["out_slot"]]["opcode"])).name
        found.append(f"the sequencer waits to hand on a {opcode}")
    for engine in Engine:
        queue = machine.queues[0, engine]
        if queue["current"] >= 0:
            one = machine.instances[queue["current"]]
            found.append(f"{engine.name} has not taken its {Opcode(int(one['opcode'])).name}{_supply(machine, engine)}")
        elif queue["head"] < queue["tail"]:
            one = machine.instances[queue["index"][queue["head"] % len(queue["index"])]]
            waits = _unmet(machine, one) or "nothing"
            found.append(f"{engine.name} holds a {Opcode(int(one['opcode'])).name} back, which waits for {waits}")
    return "; ".join(found)


def _supply(machine: Machine, engine: Engine) -> str:
    """Say what a MAC instruction has of scalars."""
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
