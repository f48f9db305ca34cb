"""Readers, writers and memory ports: see etalstm_hw.axi.reader, bursts, writer, share; sim/etalstm_sim/cpp/memory.cpp.

Some ports belong to one reader alone. At a port for channels, readers and writers offer addresses, which the port takes
in turn, one a cycle. A port that several channels share has a register of its own behind them.
"""

from etalstm.model.machine import latencies, state
from etalstm.model.machine.latencies import ADDRESS, DONE, FIFO, WRITES_AHEAD, WRITES_OUTSTANDING, WRITES_SHARED
from etalstm.model.machine.state import BURST_BEATS, NEVER, RING, compiled, complete, record, wake
from etalstm_hw.contract import Counter

PORT = record("hops", "outstanding", "free", "accepted", "count", ends=RING)
"""Read channel of a port: registers before it, bursts that may be in flight at the first of them, when its data are
free, the last address, the ends of bursts.
"""

READER = record(
    "depth", "outstanding", "active_from", "left", "beat", "free", "head", "ended", "tail", "taken", "address_from",
    "offered", starts=RING, lengths=RING, lasts=RING,
)  # fmt: skip
"""The transfer that is being cut (none if `left` is 0) and the bursts under way; `head` is the one being taken.

At a port for channels the newest burst's address stands from `offered` on, NEVER if none does. When its data come is
known as soon as the port has taken it.
"""


@compiled
def takes_transfer(reader):
    """Tell whether a transfer can be taken in this cycle, in which :func:`step_reader` has been asked already."""
    return reader.left == 0


@compiled
def give_transfer(reader, beat, beats, cycle):
    """Have so many beats read from `beat` on."""
    reader.beat, reader.left, reader.active_from = beat, beats, cycle + 1


@compiled
def send_burst(offered, port, length, latency):
    """Pass an address to the memory that stands at the reader in cycle `offered`; give its data's first cycle."""
    accepted = max(offered + port.hops, port.accepted + 1)
    if port.count >= latencies.MEMORY_BURSTS:
        accepted = max(accepted, port.ends[(port.count - latencies.MEMORY_BURSTS) % RING] + 1)
    if port.count >= port.outstanding:
        accepted = max(accepted, port.ends[(port.count - port.outstanding) % RING] + 1 + port.hops)
    start = max(accepted + latency, port.free)
    port.accepted, port.free = accepted, start + length
    port.ends[port.count % RING] = start + length - 1
    port.count += 1
    return start


@compiled
def _begin_burst(cycle, reader):
    """Cut the next burst if there is room; tell whether there is one, else in which cycle to ask again."""
    if reader.left == 0:
        return False, NEVER
    while reader.ended < reader.tail:
        entry = reader.ended % RING
        if reader.starts[entry] + reader.lengths[entry] - 1 >= cycle:
            break
        reader.ended += 1
    length = min(BURST_BEATS - reader.beat % BURST_BEATS, reader.left)
    earliest = max(reader.active_from, reader.address_from)
    if reader.tail - reader.ended >= reader.outstanding:
        entry = reader.ended % RING
        earliest = max(earliest, reader.starts[entry] + reader.lengths[entry])
    if earliest > cycle:
        return False, min(earliest, NEVER)
    if reader.free < length:
        return False, NEVER  # until beats are taken
    entry = reader.tail % RING
    reader.lengths[entry] = length
    reader.left -= length
    reader.lasts[entry] = reader.left == 0
    reader.beat += length
    reader.free -= length
    reader.tail += 1
    return True, NEVER


@compiled
def step_reader(cycle, reader, port, latency):
    """Request the next burst if there is room; give the cycle in which to ask again, unless a beat is taken before."""
    begins, following = _begin_burst(cycle, reader)
    if not begins:
        return following
    entry = (reader.tail - 1) % RING
    reader.starts[entry] = send_burst(cycle + ADDRESS, port, reader.lengths[entry], latency)
    reader.address_from = max(cycle + 1, port.accepted - port.hops)
    return cycle + 1 if reader.left else NEVER


@compiled
def step_sharing_reader(cycle, reader, wakes):
    """Offer the next burst to the port if there is room; like :func:`step_reader`."""
    begins, following = _begin_burst(cycle, reader)
    if not begins:
        return following
    reader.starts[(reader.tail - 1) % RING] = reader.address_from = NEVER
    reader.offered = cycle + ADDRESS
    wake(wakes, state.PORT_READS, cycle + ADDRESS)
    return NEVER  # until the port has taken the address


@compiled
def beat_at(reader):
    """Give the cycle in which the next beat is at the output, NEVER if it was not requested."""
    if reader.head == reader.tail:
        return NEVER
    return reader.starts[reader.head % RING] + reader.taken + latencies.BUFFERED_FIFO


@compiled
def take_beat(reader):
    """Take a beat; tell whether it is the last of its transfer."""
    entry = reader.head % RING
    reader.taken += 1
    reader.free += 1
    if reader.taken < reader.lengths[entry]:
        return False
    reader.taken = 0
    reader.head += 1
    return reader.lasts[entry] != 0


@compiled
def last_beat(reader):
    """Tell whether the next beat is the last of its transfer."""
    entry = reader.head % RING
    return reader.taken + 1 == reader.lengths[entry] and reader.lasts[entry] != 0


_WRITTEN = int(Counter.WRITE_BEATS)

WRITER = record(
    "left", "active_from", "beat", "kind", "final", "head", "tail", "written", "landed", "answered", "offered",
    "shown_from", lengths=RING, begins=RING, finals=RING, kinds=RING, answers=RING,
)  # fmt: skip
"""The transfer that is being cut and its bursts: of `head` data are given, of `landed` they go out at the port.

The newest burst's address stands at the port from `offered` on, a beat from `shown_from` on; NEVER if none does.
`answers` are the cycles of the responses.
"""


@compiled
def takes_writes(writer):
    """Tell whether a transfer can be taken in this cycle, in which :func:`step_writer` has been asked already."""
    return writer.left == 0


@compiled
def give_writes(writer, beat, beats, final, kind, cycle):
    """Have so many beats written from `beat` on; `final` with the last transfer of an instruction."""
    writer.beat, writer.left, writer.active_from = beat, beats, cycle + 1
    writer.final, writer.kind = final, kind


@compiled
def step_writer(cycle, writer, wakes):
    """Begin the next burst if there is room; tell whether one is waiting."""
    if writer.left == 0:
        return False
    if writer.active_from > cycle or writer.offered < NEVER:
        return True
    # a response makes room in the cycle after it came
    while writer.answered < writer.landed and writer.answers[writer.answered % RING] < cycle:
        writer.answered += 1
    if writer.tail - writer.head >= WRITES_AHEAD or writer.tail - writer.answered >= WRITES_OUTSTANDING:
        return True
    length = min(BURST_BEATS - writer.beat % BURST_BEATS, writer.left)
    entry = writer.tail % RING
    writer.lengths[entry], writer.begins[entry], writer.kinds[entry] = length, cycle, writer.kind
    writer.left -= length
    writer.beat += length
    writer.finals[entry] = writer.final and writer.left == 0
    writer.tail += 1
    writer.offered = cycle + ADDRESS
    wake(wakes, state.PORT_WRITES, cycle + ADDRESS)
    return True


@compiled
def data_room(cycle, writer):
    """Tell whether a beat can be given in this cycle."""
    if writer.head == writer.tail or writer.begins[writer.head % RING] + FIFO > cycle:
        return False
    return writer.shown_from == NEVER


@compiled
def give_data(cycle, writer, counted):
    """Give a beat; it is at the port in the next cycle, and there until the memory takes it."""
    entry = writer.head % RING
    counted[_WRITTEN + writer.kinds[entry]] += 1
    writer.shown_from = cycle + 1
    writer.written += 1
    if writer.written == writer.lengths[entry]:
        writer.written = 0
        writer.head += 1


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
    wakes[0, state.PORT_READS] = NEVER
    if manager < 0:
        return
    free = _free_at(port, outstanding) if shared else cycle
    if free > cycle:
        wakes[0, state.PORT_READS] = free
        return
    accepted = max(cycle + shared, _free_at(port, latencies.MEMORY_BURSTS))
    reader = readers[manager]
    entry = (reader.tail - 1) % RING
    reader.starts[entry] = max(accepted + latency, port.free)
    reader.offered, reader.address_from = NEVER, cycle if shared else accepted
    port.last, port.accepted, port.free = manager, accepted, reader.starts[entry] + reader.lengths[entry]
    port.ends[port.count % RING] = port.free - 1
    port.count += 1
    wake(wakes[manager], state.LOADS, cycle)
    wakes[0, state.PORT_READS] = cycle + 1


@compiled
def _take_data(cycle, port, writers, done, wakes, every_wakes, latency):
    """Pass a beat of the burst whose turn it is."""
    entry = port.landed % RING
    if port.landed == port.accepted or port.accepts[entry] >= cycle:
        return
    owner = port.owners[entry]
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
    port.answers[entry] = writer.answers[number] = answer
    port.beats = 0
    port.landed += 1
    writer.landed += 1
    if writer.finals[number]:
        _complete(done, wakes, every_wakes, owner, answer + DONE)


@compiled
def _complete(done, wakes, every_wakes, channel, cycle):
    """Note that a channel's next STORE is completed in `cycle`; all others may wait for that."""
    complete(done[channel], wakes[channel], state.STORE, cycle)
    for other in range(len(every_wakes)):
        every_wakes[other, state.QUEUES] = 0
    wake(wakes[0], state.SEQUENCER, cycle + latencies.BARRIER)  # a LOAD_ROWS may wait for it


@compiled
def _memory_takes(cycle, port):
    """Tell whether the memory takes an address in this cycle."""
    if port.accepted < latencies.MEMORY_BURSTS:
        return True
    before = port.accepted - latencies.MEMORY_BURSTS
    return before < port.landed and port.answers[before % RING] < cycle


@compiled
def _accept(cycle, port):
    port.accepts[port.accepted % RING] = cycle
    port.accepted += 1


@compiled
def step_write_port(cycle, port, writers, done, wakes, every_wakes, latency):
    """Pass a beat; pass an address to the memory, and take one from a writer.

    `done` and `wakes` are of the channels at the port, `every_wakes` of all channels.
    """
    shared, waiting = len(writers) > 1, port.granted - port.landed
    _take_data(cycle, port, writers, done, wakes, every_wakes, latency)
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
    wakes[0, state.PORT_WRITES] = cycle + 1 if offered or port.landed < port.granted else NEVER
