"""Fetching and dispatching a program: see hw/sequencer.py, hw/dma/rows.py, hw/dma/rowmaps.py."""

from numba import njit

from etalstm.hw.contract import Opcode
from etalstm.model.queues import has_room, push
from etalstm.model.reader import beat_at, give_transfer, step_reader, take_beat
from etalstm.model.state import NEVER, SEQUENCER, record

HALT, LOAD_ROWS = int(Opcode.HALT), int(Opcode.LOAD_ROWS)

ENGINE = record("place", "held", "held_from", "number", "halted_at", "beats", "row_state", "run", "row_from")
"""Beats of the instruction that have come; the instruction that stands at the output."""


@njit
def start_program(engine, reader, beats):
    """Ask for a program's beats in cycle 0."""
    engine.halted_at = NEVER
    give_transfer(reader, 0, beats, 0)


@njit
def step_sequencer(cycle, engine, reader, port, queues, table, sizes, counted, wakes):
    """Take a beat, or dispatch the instruction that they made."""
    following = step_reader(cycle, reader, port, sizes.latency)
    if not engine.held:
        if beat_at(reader) <= cycle:
            take_beat(reader)
            counted.program += 1
            engine.place += 1
            if engine.place == sizes.instruction_beats:
                engine.place, engine.held, engine.held_from = 0, 1, cycle + 1
        following = min(following, cycle + 1 if engine.held else max(cycle + 1, beat_at(reader)))
    elif engine.held_from <= cycle:
        instruction = table[engine.number % len(table)]
        if instruction.opcode == HALT:
            engine.halted_at = min(engine.halted_at, cycle)
            following = NEVER
        else:
            queue = queues[instruction.engine]
            if has_room(queue, sizes.instruction_queue, cycle):
                push(queue, wakes, engine.number % len(table), cycle)
                engine.held = 0
                engine.number += 1
                following = cycle + 1
            elif has_room(queue, sizes.instruction_queue, cycle + 2):
                following = cycle + 1
    wakes[SEQUENCER] = following
