"""The memory port of a channel, or of those that share one: see etalstm_hw.axi.share, sim/etalstm_sim/cpp/memory.cpp.

Readers and writers offer addresses, which the port takes in turn, one a cycle. A shared port has a register of its own
behind them.
"""

from etalstm.model.machine.latencies import DONE, MEMORY_BURSTS, RENDEZVOUS, WRITES_SHARED
from etalstm.model.machine.state import (
    LOADS,
    NEVER,
    PORT_READS,
    PORT_WRITES,
    QUEUES,
    RING,
    SEQUENCER,
    STORE,
    compiled,
    complete,
    record,
    wake,
)

READ_PORT = record("last", "free", "accepted", "count", ends=RING)
"""The manager served last, when the data channel is free, the last address's cycle, the ends of bursts."""

WRITE_PORT = record("last", "granted", "accepted", "landed", "beats", owners=RING, accepts=RING, answers=RING)
"""The manager served last; bursts whose address was taken from a manager, and by the memory; those whose data have
gone out, and how many beats of the next one have."""


@compiled
def _next_manager(last, managers, cycle):
    """Give whose address is taken next, -1 if none is offered."""
    count = len(managers)
    for distance in range(1, count + 1):
        manager = (last + distance) % count
        if managers[manager].offered <= cycle:
            return manager
    return -1


@compiled
def _free_at(port, outstanding):
    """Give the cycle in which the address before has gone and fewer than so many bursts are in flight."""
    if port.count < outstanding:
        return port.accepted
    return max(port.accepted, port.ends[(port.count - outstanding) % RING] + 1)


@compiled
def step_read_port(cycle, port, readers, outstanding, latency, wakes):
    """Take a reader's address if there is room; its data come once those before have."""
    manager, shared = _next_manager(port.last, readers, cycle), len(readers) > 1
    wakes[0, PORT_READS] = NEVER
    if manager < 0:
        return
    free = _free_at(port, outstanding) if shared else cycle
    if free > cycle:
        wakes[0, PORT_READS] = free
        return
    accepted = max(cycle + shared, _free_at(port, MEMORY_BURSTS))
    reader = readers[manager]
    place = (reader.tail - 1) % RING
    reader.starts[place] = max(accepted + latency, port.free)
    reader.offered, reader.address_from = NEVER, cycle if shared else accepted
    port.last, port.accepted, port.free = manager, accepted, reader.starts[place] + reader.lengths[place]
    port.ends[port.count % RING] = port.free - 1
    port.count += 1
    wake(wakes[manager], LOADS, cycle)
    wakes[0, PORT_READS] = cycle + 1


@compiled
def _take_data(cycle, port, writers, done, wakes, latency):
    """Pass a beat of the burst whose turn it is."""
    place = port.landed % RING
    if port.landed == port.accepted or port.accepts[place] >= cycle:
        return
    owner = port.owners[place]
    writer = writers[owner]
    if writer.shown_from > cycle:
        return
    writer.shown_from = NEVER
    port.beats += 1
    number = writer.landed % RING
    if port.beats < writer.lengths[number]:
        return
    answer = cycle + latency
    if port.landed:
        answer = max(answer, port.answers[(port.landed - 1) % RING] + 1)
    port.answers[place] = writer.answers[number] = answer
    port.beats = 0
    port.landed += 1
    writer.landed += 1
    if writer.finals[number]:
        _complete(done, wakes, owner, answer + DONE)


@compiled
def _complete(done, wakes, channel, cycle):
    """Note that a channel's next STORE is completed in `cycle`; others may wait for that."""
    complete(done[channel], wakes[channel], STORE, cycle)
    for other in range(len(wakes)):
        wakes[other, QUEUES] = 0
    wake(wakes[0], SEQUENCER, cycle + RENDEZVOUS)  # a LOAD_ROWS may wait for it


@compiled
def _memory_takes(cycle, port):
    """Tell whether the memory takes an address in this cycle."""
    if port.accepted < MEMORY_BURSTS:
        return True
    before = port.accepted - MEMORY_BURSTS
    return before < port.landed and port.answers[before % RING] < cycle


@compiled
def _accept(cycle, port):
    port.accepts[port.accepted % RING] = cycle
    port.accepted += 1


@compiled
def step_write_port(cycle, port, writers, done, wakes, latency):
    """Pass a beat; pass an address to the memory, and take one from a writer."""
    shared, waiting = len(writers) > 1, port.granted - port.landed
    _take_data(cycle, port, writers, done, wakes, latency)
    room = _memory_takes(cycle, port)
    if port.granted > port.accepted and room:
        _accept(cycle, port)
    manager = -1
    if port.granted == port.accepted and waiting < WRITES_SHARED and (shared or room):
        manager = _next_manager(port.last, writers, cycle)
    if manager >= 0:
        port.owners[port.granted % RING], port.last = manager, manager
        port.granted += 1
        writers[manager].offered = NEVER
        if not shared:
            _accept(cycle, port)
    offered = False
    for writer in range(len(writers)):
        offered = offered or writers[writer].offered < NEVER
    wakes[0, PORT_WRITES] = cycle + 1 if offered or port.landed < port.granted else NEVER
