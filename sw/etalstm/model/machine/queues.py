"""The instruction queues, and the FIFOs between the middle of the machine and its channels.

See etalstm_hw.program.queue, etalstm_hw.machine.tree and etalstm_hw.machine.channel. The two ends of a FIFO have one
clock: ``pushed`` is the cycle in which an entry arrives at the channel.
"""

from etalstm.model.machine import state
from etalstm.model.machine.latencies import BARRIER, BUFFERED_FIFO, COUNTED, NEWS, REFILL
from etalstm.model.machine.state import (
    CAST,
    LOAD,
    MAC,
    NEVER,
    RING,
    STORE,
    VECTOR,
    compiled,
    completed_at,
    record,
    wake,
)
from etalstm_hw.contract.distance import STAGES

POSITIONS = ("head", "tail", "known_head", "known_tail")
"""Entries taken and put in, and how many of each the middle knows of."""

TIMES = {"pushed": RING, "popped": RING}


@compiled
def record_pop(fifo, cycle):
    """Take the first entry."""
    fifo.popped[fifo.head % RING] = cycle
    fifo.head += 1


@compiled
def shows_room(fifo, depth, cycle):
    """Tell whether fewer than `depth` entries waited ``NEWS`` cycles ago: the middle of the machine knows nothing
    newer.

    Cycles must not go back from one call to the next.
    """
    said = cycle - NEWS
    while fifo.known_tail < fifo.tail and fifo.pushed[fifo.known_tail % RING] < said:
        fifo.known_tail += 1
    while fifo.known_head < fifo.head and fifo.popped[fifo.known_head % RING] < said:
        fifo.known_head += 1
    return fifo.known_tail - fifo.known_head < depth


@compiled
def all_show_room(fifos, depth, cycle):
    """Tell whether all of the channels' FIFOs show room."""
    room = True
    for channel in range(len(fifos)):
        room = shows_room(fifos[channel], depth, cycle) and room
    return room


@compiled
def room_at(fifos, depth):
    """Give the cycle in which the middle knows of room in all FIFOs, as far as entries were taken; else NEVER.

    :func:`all_show_room` has been asked before.
    """
    latest = 0
    for channel in range(len(fifos)):
        fifo = fifos[channel]
        if fifo.known_tail - fifo.known_head < depth:
            continue
        if fifo.known_head == fifo.head:
            return NEVER
        latest = max(latest, fifo.popped[fifo.known_head % RING] + NEWS + 1)
    return latest


@compiled
def give_scalar(cycle, scalars, inner, marks, wakes):
    """Put a scalar on its way to the channels."""
    for channel in range(len(scalars)):
        fifo = scalars[channel]
        entry = fifo.tail % RING
        fifo.pushed[entry], fifo.inner[entry], fifo.marks[entry] = cycle + STAGES, inner, marks
        fifo.tail += 1
        wake(wakes[channel], state.MACS, cycle + STAGES + BUFFERED_FIFO)


QUEUE = record(*POSITIONS, "valid_from", "current", "taken", numbers=RING, **TIMES)
"""FIFO of instructions (numbers in the table) and the one at the output, -1 if there is none."""


@compiled
def there_at(queue):
    """Give the cycle from which on a queue's first instruction is in the register behind its FIFO.

    The register is empty for a cycle after the instruction before has left it.
    """
    entry = queue.head % RING
    return max(queue.pushed[entry] + BUFFERED_FIFO, queue.popped[(queue.head - 1) % RING] + REFILL if queue.head else 0)


@compiled
def has_room(queues, engine, depth, cycle):
    """Tell whether an instruction can be put into the queues of an engine in this cycle.

    A broadcaster's queue lies in the middle; it is that of its group's first channel. Its FIFO's register holds an
    instruction besides its memory.
    """
    if engine != CAST:
        return all_show_room(queues[:, engine], depth, cycle)
    for channel in range(len(queues)):
        queue = queues[channel, CAST]
        level = queue.tail - queue.head
        if level and level - (there_at(queue) <= cycle) >= depth - 1:
            return False
    return True


@compiled
def push(queues, wakes, instruction, engine, cycle, modelled):
    """Put an instruction into the queues of an engine. Of a group's channels so many are `modelled`; they share one
    queue of CASTs.
    """
    for channel in range(0, len(queues), modelled if engine == CAST else 1):
        queue = queues[channel, engine]
        entry = queue.tail % RING
        queue.pushed[entry] = cycle if engine == CAST else cycle + STAGES
        queue.numbers[entry] = instruction
        queue.tail += 1
        wake(wakes[channel], state.QUEUES, cycle + 1)


@compiled
def stored_by_all(done, count):
    """Give the cycle in which the last channel completes its STORE number `count`."""
    latest = 0
    for channel in range(len(done)):
        latest = max(latest, completed_at(done[channel], STORE, count))
    return latest


@compiled
def met_at(instruction, everyone, channel):
    """Give the cycle in which an instruction's waits are met in a channel; `everyone`: completions of all of them."""
    met, done = 0, everyone[channel]
    if instruction.wait_load:
        met = max(met, completed_at(done, LOAD, instruction.wait_load) + COUNTED)
    if instruction.wait_mac:
        met = max(met, completed_at(done, MAC, instruction.wait_mac) + COUNTED)
    if instruction.wait_vector:
        met = max(met, completed_at(done, VECTOR, instruction.wait_vector) + COUNTED)
    if instruction.wait_store:
        if instruction.everyone:
            later = BARRIER if instruction.engine == CAST else BARRIER + STAGES
            met = max(met, stored_by_all(everyone, instruction.wait_store) + later)
        else:
            met = max(met, completed_at(done, STORE, instruction.wait_store) + COUNTED)
    return met


@compiled
def _owner(engine):
    """Give the part that takes an engine's instructions."""
    if engine == LOAD:
        return state.LOADS
    if engine == MAC:
        return state.MACS
    if engine == VECTOR:
        return state.VECTORS
    return state.STORES if engine == STORE else state.FETCHER


@compiled
def step_queues(cycle, queues, channel, table, done, wakes):
    """Let the first instruction of each queue of a channel go that may; a broadcaster's queue is the first one's."""
    following = NEVER
    for engine in range(CAST + 1):
        queue = queues[channel, engine]
        if queue.current >= 0 and not queue.taken:
            continue
        if queue.taken:
            queue.current = -1
            queue.taken = 0
        if queue.tail == queue.head:
            continue
        first = queue.numbers[queue.head % RING]
        ready = max(there_at(queue), met_at(table[first], done, channel))
        if ready > cycle:
            following = min(following, ready)
            continue
        record_pop(queue, cycle)
        queue.current = first
        queue.valid_from = cycle + 1
        wake(wakes[channel], _owner(engine), cycle + 1)
        wake(wakes[channel], state.SEQUENCER, cycle + 1)
    wakes[channel, state.QUEUES] = following


@compiled
def offered(queue, cycle):
    """Tell whether an instruction is at the queue's output."""
    return queue.current >= 0 and queue.valid_from <= cycle and not queue.taken


@compiled
def take(queue, wakes, cycle):
    """Take the instruction at the output; the next may be there in the following cycle."""
    queue.taken = 1
    wake(wakes, state.QUEUES, cycle)
