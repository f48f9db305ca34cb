"""What a channel's PEs do in a cycle: see etalstm_hw.compute.compute and etalstm_hw.machine.channel, `_classify`."""

from etalstm.model.machine.latencies import BUFFERED_FIFO, MAC_SUM
from etalstm.model.machine.queues import completed_at, met_at
from etalstm.model.machine.state import DONE_RING, LOAD, MAC, RING, STORE, VECTOR, compiled
from etalstm_hw.contract import Cycle

_MAC, _ELEMENTWISE, _QUEUE_PORT, _HAZARD, _EMPTY = (int(kind) for kind in list(Cycle)[:5])
_WAIT_LOAD, _WAIT_VECTOR, _WAIT_STORE, _NO_MAC, _IDLE, _SHARE = (int(kind) for kind in list(Cycle)[5:])


@compiled
def kind(cycle, channel, m, table, sizes):
    """Say what a channel's PEs did in a cycle, or why they did nothing."""
    engine, vector = m.mac[channel], m.vector[channel]
    if engine.issued_at == cycle:
        return _MAC
    if vector.pe_at == cycle:
        return _ELEMENTWISE
    return idle_kind(cycle, channel, m, table, sizes)


@compiled
def idle_kind(cycle, channel, m, table, sizes):
    """Say why a channel's PEs did nothing in a cycle."""
    engine, vector = m.mac[channel], m.vector[channel]
    if vector.waiting_at == cycle:
        return _SHARE
    if engine.valid and engine.mac and engine.since <= cycle:
        if not engine.begins and (vector.queue_at == cycle or m.store[channel].queue_at == cycle):
            return _QUEUE_PORT
        if not engine.begins and cycle - m.sums[channel, engine.address] <= MAC_SUM:
            return _HAZARD
        return _SHARE
    queue, done = m.queues[channel, MAC], m.done[channel]
    if engine.valid or (queue.current >= 0 and queue.valid_from <= cycle):
        return _EMPTY
    if queue.head < queue.tail and queue.pushed[queue.head % RING] + BUFFERED_FIFO <= cycle:
        instruction = table[queue.index[queue.head % RING]]
        if completed_at(done, LOAD, instruction.wait_load) + 1 > cycle:
            return _WAIT_LOAD
        if completed_at(done, VECTOR, instruction.wait_vector) + 1 > cycle:
            return _WAIT_VECTOR
        if met_at(instruction, m.done, channel) > cycle:
            return _WAIT_STORE
    return _NO_MAC if _busy(cycle, channel, m) else _IDLE


@compiled
def _busy(cycle, channel, m):
    """Tell whether anything is left to do in the channel."""
    if m.scalars[channel].head < m.scalars[channel].tail:
        return True
    for engine in (LOAD, MAC, VECTOR, STORE):
        queue, done = m.queues[channel, engine], m.done[channel, engine]
        if queue.current >= 0 or queue.head < queue.tail:
            return True
        pulse = 0 if engine in (MAC, VECTOR) else 1
        if done.count and done.times[(done.count - 1) % DONE_RING] - pulse >= cycle:
            return True
    return _transfers(channel, m)


@compiled
def _transfers(channel, m):
    """Tell whether LOAD or STORE have taken an instruction that is not completed."""
    store, asked, writer = m.store[channel], m.asked[1 + channel], m.writer[channel]
    if m.load[channel].active or asked.head < asked.tail or asked.wait_head < asked.wait_tail:
        return True
    if store.scatter_left or store.vectors_left or store.beats_head < store.beats_tail or m.log[channel].state:
        return True
    return writer.left != 0 or writer.landed < writer.tail
