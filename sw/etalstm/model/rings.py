"""What waits in the machine's rings, in order, for :mod:`etalstm.model.fingerprint`.

Entries are collected from the oldest that matters to the newest. Cycles count from now on. An instruction is told by
its text, its address within a burst, and how many completions of each engine it still waits for.
"""

from etalstm.model.machine import state
from etalstm.model.machine.compute import WRITES
from etalstm.model.machine.fetcher import ITEM_BLOCKS
from etalstm.model.machine.latencies import MEMORY_BURSTS
from etalstm.model.machine.products import OLD
from etalstm.model.machine.state import BURST_BEATS, DONE_RING, NEVER, RING, compiled, entry_point

ELSEWHERE = {
    "queues": "head tail known_head known_tail current numbers pushed popped",
    "done": "count times",
    "sequencer": (
        "length following taken_number buffered_number checked_number depth out_slot following_slot streams blocks "
        "row_lanes arrived starved cycle dispatched"
    ),
    "readers": "head ended tail starts lengths lasts",
    "ports": "count ends",
    "read_port": "count ends",
    "write_port": "granted accepted landed owners accepts answers",
    "asked": ("head tail wait_head wait_tail index_head index_tail items kinds pushed waiting waiting_since indices"),
    "fetcher": "cast current",
    "scalars": "head tail known_head known_tail inner marks pushed popped",
    "check": "checked",
    "distributors": "head tail current arrays pushed",
    "streams": "arrays",
    "engines": "reads ended old_from",
    "ended": "engines last",
    "vector": "writes written_banks",
    "load": "current",
    "store": "reading scatter beats_head beats_tail stream_head stream_tail items pushed lasts streams",
    "compressor": "position mask_position read",
    "log": "stream transfer total_head total_tail totals total_at",
    "rows": "offered",
    "writer": "head tail landed answered lengths begins finals kinds answers",
}
"""Fields that are collected here, or that no part looks at any more."""

_PAST = 256  # cycles, and completions, after which it does not matter any more how long ago
_FAR = 1 << 40


@compiled
def _put(out, value):
    out[0] += 1
    out[out[0]] = value


@compiled
def _put_time(out, time, cycle):
    _put(out, _FAR if time >= NEVER else max(time - cycle, -_PAST))


@compiled
def _put_times(out, ring, first, last, size, cycle):
    """Collect the times of a ring's entries."""
    _put(out, last - first)
    for entry in range(first, last):
        _put_time(out, ring[entry % size], cycle)


@compiled
def _put_recent(out, ring, count, size, cycle):
    """Collect the times of a ring's newest entries, as far as they matter."""
    first = count
    while first > max(0, count - size) and ring[(first - 1) % size] >= cycle - _PAST:
        first -= 1
    _put_times(out, ring, first, count, size, cycle)


@compiled
def _put_values(out, ring, first, last):
    _put(out, last - first)
    for entry in range(first, last):
        _put(out, ring[entry % RING])


@compiled
def _put_wait(out, wait, done, engine):
    """Collect how many completions are missing; with 0 an instruction does not wait."""
    _put(out, _FAR if wait == 0 else max(wait - done[engine].count, -_PAST))


@compiled
def _put_instruction(out, slot, m):
    """Collect an instruction that is under way."""
    one = m.instances[slot]
    _put(out, one.text)
    _put(out, one.opcode)
    _put(out, one.address % BURST_BEATS)
    _put(out, one.outer)
    _put(out, one.beats)
    _put(out, one.more)
    _put(out, one.stream_start % BURST_BEATS)
    for channel in range(len(m.done)):
        _put_wait(out, one.wait_load, m.done[channel], state.LOAD)
        _put_wait(out, one.wait_mac, m.done[channel], state.MAC)
        _put_wait(out, one.wait_vector, m.done[channel], state.VECTOR)
        _put_wait(out, one.wait_store, m.done[channel], state.STORE)


@compiled
def _put_instructions(out, ring, first, last, m):
    _put(out, last - first)
    for entry in range(first, last):
        _put_instruction(out, ring[entry % RING], m)


@compiled
def _put_item(out, item, m):
    """Collect a block of a CAST."""
    _put_instruction(out, item // ITEM_BLOCKS, m)
    _put(out, item % ITEM_BLOCKS)


@compiled
def _put_requests(out, ring, first, last, m, of_blocks):
    """Collect instructions, or blocks of CASTs."""
    _put(out, last - first)
    for entry in range(first, last):
        if of_blocks:
            _put_item(out, ring[entry % RING], m)
        else:
            _put_instruction(out, ring[entry % RING], m)


@compiled
def _put_link(out, fifo, cycle):
    """Collect when entries came and went, as far as the middle of the machine does not know of it yet."""
    _put(out, fifo.head - fifo.known_head)
    _put_times(out, fifo.pushed, min(fifo.head, fifo.known_tail), fifo.tail, RING, cycle)
    _put_times(out, fifo.popped, fifo.known_head, fifo.head, RING, cycle)
    _put(out, fifo.tail - fifo.head)


@compiled
def _queues(out, cycle, channel, m):
    for engine in range(state.CAST + 1):
        queue, done = m.queues[channel, engine], m.done[channel, engine]
        if engine == state.CAST:  # in the middle itself
            _put_times(out, queue.pushed, queue.head, queue.tail, RING, cycle)
        else:
            _put_link(out, queue, cycle)
        _put_instructions(out, queue.numbers, queue.head, queue.tail, m)
        _put(out, queue.current >= 0)
        if queue.current >= 0:
            _put_instruction(out, queue.current, m)
        _put_recent(out, done.times, done.count, DONE_RING, cycle)
    for number in range(channel, len(m.scalars), len(m.mac)):
        scalars = m.scalars[number]
        _put_link(out, scalars, cycle)
        _put_values(out, scalars.inner, scalars.head, scalars.tail)
        _put_values(out, scalars.marks, scalars.head, scalars.tail)


@compiled
def _sequencer(out, m, table):
    engine = m.sequencer[0]
    for number in range(state.CAST):
        for channel in range(len(m.done)):
            _put(out, engine.dispatched[number] - m.done[channel, number].count)
    if engine.taken:
        _put(out, table[engine.taken_number].text)
    if engine.buffered:
        _put(out, table[engine.buffered_number].text)
    if engine.checked:
        _put(out, table[engine.checked_number].text)
    if engine.out:
        _put_instruction(out, engine.out_slot, m)
    if engine.out > 1:
        _put_instruction(out, engine.following_slot, m)


@compiled
def _reads(out, cycle, reader):
    first = min(reader.head, reader.ended)
    _put(out, reader.head - first)
    _put(out, reader.ended - first)
    _put_times(out, reader.starts, first, reader.tail, RING, cycle)
    _put_values(out, reader.lengths, first, reader.tail)
    _put_values(out, reader.lasts, first, reader.tail)


@compiled
def _port(out, cycle, port):
    _put_recent(out, port.ends, port.count, RING, cycle)


@compiled
def _requests(out, cycle, m):
    for number in range(len(m.asked)):
        asked = m.asked[number]
        _put_values(out, asked.kinds, asked.head, asked.tail)
        _put_times(out, asked.pushed, asked.head, asked.tail, RING, cycle)
        _put_times(out, asked.waiting_since, asked.wait_head, asked.wait_tail, RING, cycle)
        _put_times(out, asked.indices, asked.index_head, asked.index_tail, RING, cycle)
        of_fetcher = number < len(m.fetcher)
        _put_requests(out, asked.items, asked.head, asked.tail, m, of_fetcher)
        _put_requests(out, asked.waiting, asked.wait_head, asked.wait_tail, m, of_fetcher)
    for number in range(len(m.fetcher)):
        if m.fetcher[number].state:
            _put_instruction(out, m.fetcher[number].cast, m)
        if m.fetcher[number].filling:
            _put_item(out, m.fetcher[number].current, m)
    for channel in range(len(m.load)):
        if m.load[channel].active:
            _put_instruction(out, m.load[channel].current, m)


@compiled
def _arrays(out, cycle, m):
    """Collect the arrays of digits that are under way."""
    if m.check[0].checking:
        _put_instruction(out, m.check[0].checked, m)
    for port in range(len(m.distributors)):
        engine = m.distributors[port]
        if engine.busy:
            _put_instruction(out, engine.current, m)
        _put_instructions(out, engine.arrays, engine.head, engine.tail, m)
        _put_times(out, engine.pushed, engine.head, engine.tail, RING, cycle)
    for number in range(len(m.streams)):
        stream = m.streams[number]
        for slot in range(len(stream.arrays)):
            if stream.free_from[slot] == NEVER:
                _put_instruction(out, stream.arrays[slot], m)


@compiled
def _products(out, cycle, channel, m):
    """Collect what the engines of products have ended of what others have not, and when they read old sums."""
    least, most = NEVER, 0
    for number in range(m.engines.shape[1]):
        engine = m.engines[channel, number]
        least, most = min(least, engine.ended), max(most, engine.ended)
        for read in range(engine.reads, engine.reads + OLD):
            _put_time(out, engine.old_from[read % OLD], cycle)
    for number in range(m.engines.shape[1]):
        _put(out, m.engines[channel, number].ended - least)
    _put_values(out, m.ended[channel].engines, least, most)
    _put_times(out, m.ended[channel].last, least, most, RING, cycle)


@compiled
def _store(out, cycle, channel, m):
    store, log, codec = m.store[channel], m.log[channel], m.compressor[channel]
    _put_times(out, store.pushed, store.beats_head, store.beats_tail, RING, cycle)
    _put_values(out, store.lasts, store.beats_head, store.beats_tail)
    _put_instructions(out, store.items, store.beats_head, store.beats_tail, m)
    _put_instructions(out, store.streams, store.stream_head, store.stream_tail, m)
    if store.vectors_left:
        _put_instruction(out, store.reading, m)
    if store.scatter_left:
        _put_instruction(out, store.scatter, m)
    if log.state or log.transfer:
        _put_instruction(out, log.stream, m)
    _put(out, 1 + (log.transfer - 1) % BURST_BEATS if log.transfer else 0)
    _put_values(out, log.totals, log.total_head, log.total_tail)
    _put_times(out, log.total_at, log.total_head, log.total_tail, RING, cycle)
    given = codec.read * codec.words
    _put(out, codec.position - given)
    _put(out, codec.mask_position - given if codec.open else 0)


@compiled
def _writes(out, cycle, channel, m):
    writer, vector = m.writer[channel], m.vector[channel]
    _put(out, writer.landed - writer.answered)
    _put(out, writer.head - writer.landed)
    _put(out, writer.tail - writer.head)
    _put_times(out, writer.answers, writer.answered, writer.landed, RING, cycle)
    _put_times(out, writer.begins, writer.head, writer.tail, RING, cycle)
    _put_values(out, writer.lengths, writer.landed, writer.tail)
    _put_values(out, writer.finals, writer.landed, writer.tail)
    _put_values(out, writer.kinds, writer.head, writer.tail)
    for ahead in range(WRITES):
        slot = (cycle + ahead) % WRITES
        if vector.writes[slot] == cycle + ahead:
            _put(out, 2 * ahead + vector.written_banks[slot])


@compiled
def _write_port(out, cycle, port):
    _put_values(out, port.owners, port.landed, port.granted)
    _put_times(out, port.accepts, port.landed, port.accepted, RING, cycle)
    _put_times(out, port.answers, max(0, port.landed - MEMORY_BURSTS), port.landed, RING, cycle)


@entry_point
def collect_rings(cycle, m, table, out):
    """Collect what waits in all rings, and last what is fetched of the program.

    Give the length of it in `out` without the program's, and with it.
    """
    out[0] = 0
    _sequencer(out, m, table)
    for number in range(state.FETCH + 1, len(m.readers)):
        _reads(out, cycle, m.readers[number])
    for number in range(state.FETCH + 1, len(m.ports)):
        _port(out, cycle, m.ports[number])
    _port(out, cycle, m.read_port[0])
    _requests(out, cycle, m)
    _arrays(out, cycle, m)
    _write_port(out, cycle, m.write_port[0])
    for channel in range(len(m.store)):
        _queues(out, cycle, channel, m)
        _products(out, cycle, channel, m)
        _store(out, cycle, channel, m)
        _writes(out, cycle, channel, m)
    length = out[0] + 1
    _put(out, m.sequencer[0].following - m.sequencer[0].number)
    _reads(out, cycle, m.readers[state.FETCH])
    _port(out, cycle, m.ports[state.FETCH])
    return length, out[0] + 1
