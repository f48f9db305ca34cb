"""The instruction queues: see hw/queue.py."""

from numba import njit

from etalstm.model.latencies import BUFFERED_FIFO, COUNTED, RENDEZVOUS
from etalstm.model.state import (
    CAST,
    FETCHER,
    LOAD,
    LOADS,
    MAC,
    MACS,
    NEVER,
    QUEUES,
    RING,
    SEQUENCER,
    STORE,
    STORES,
    VECTOR,
    VECTORS,
    completed_at,
    record,
    wake,
)

QUEUE = record("head", "tail", "valid_from", "current", "taken", pushed=RING, index=RING)
"""FIFO of instructions (numbers in the table) and the one at the output, -1 if there is none."""


@njit
def has_room(queue, depth, cycle):
    """Tell whether an instruction can enter in this cycle: the FIFO's register holds one besides its memory."""
    level = queue.tail - queue.head
    if level == 0:
        return True
    return level - (queue.pushed[queue.head % RING] + BUFFERED_FIFO <= cycle) < depth - 1


@njit
def push(queue, wakes, instruction, cycle):
    """Put an instruction in."""
    place = queue.tail % RING
    queue.pushed[place] = cycle
    queue.index[place] = instruction
    queue.tail += 1
    wake(wakes, QUEUES, cycle + 1)


@njit
def met_at(instruction, done):
    """Give the cycle in which an instruction's waits are met."""
    met = 0
    if instruction.wait_load:
        met = max(met, completed_at(done, LOAD, instruction.wait_load) + COUNTED)
    if instruction.wait_mac:
        met = max(met, completed_at(done, MAC, instruction.wait_mac) + COUNTED)
    if instruction.wait_vector:
        met = max(met, completed_at(done, VECTOR, instruction.wait_vector) + COUNTED)
    if instruction.wait_store:
        later = RENDEZVOUS if instruction.everyone else COUNTED
        met = max(met, completed_at(done, STORE, instruction.wait_store) + later)
    return met


@njit
def _owner(engine):
    """Give the part that takes an engine's instructions."""
    if engine == LOAD:
        return LOADS
    if engine == MAC:
        return MACS
    if engine == VECTOR:
        return VECTORS
    return STORES if engine == STORE else FETCHER


@njit
def step_queues(cycle, queues, table, done, wakes):
    """Let the first instruction of each queue go that may."""
    following = NEVER
    for engine in range(CAST + 1):
        queue = queues[engine]
        if queue.current >= 0 and not queue.taken:
            continue
        if queue.taken:
            queue.current = -1
            queue.taken = 0
        if queue.tail == queue.head:
            continue
        first = queue.index[queue.head % RING]
        ready = max(queue.pushed[queue.head % RING] + BUFFERED_FIFO, met_at(table[first], done))
        if ready > cycle:
            following = min(following, ready)
            continue
        queue.head += 1
        queue.current = first
        queue.valid_from = cycle + 1
        wake(wakes, _owner(engine), cycle + 1)
        wake(wakes, SEQUENCER, cycle + 1)
    wakes[QUEUES] = following


@njit
def offered(queue, cycle):
    """Tell whether an instruction is at the queue's output."""
    return queue.current >= 0 and queue.valid_from <= cycle and not queue.taken


@njit
def take(queue, wakes, cycle):
    """Take the instruction at the output; the next may be there in the following cycle."""
    queue.taken = 1
    wake(wakes, QUEUES, cycle)
