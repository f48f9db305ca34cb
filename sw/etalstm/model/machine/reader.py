"""Readers, and memory ports that belong to one alone.

See etalstm_hw.axi.reader, etalstm_hw.axi.bursts, sim/etalstm_sim/cpp/memory.cpp.
"""

from etalstm.model.machine.latencies import ADDRESS, BUFFERED_FIFO, MEMORY_BURSTS
from etalstm.model.machine.state import BURST_BEATS, NEVER, PORT_READS, RING, compiled, record, wake

PORT = record("hops", "free", "accepted", "count", ends=RING)
"""Read channel of a port: registers before it, when its data are free, the last address, the ends of bursts."""

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
    if port.count >= MEMORY_BURSTS:
        accepted = max(accepted, port.ends[(port.count - MEMORY_BURSTS) % RING] + 1)
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
        place = reader.ended % RING
        if reader.starts[place] + reader.lengths[place] - 1 >= cycle:
            break
        reader.ended += 1
    length = min(BURST_BEATS - reader.beat % BURST_BEATS, reader.left)
    earliest = max(reader.active_from, reader.address_from)
    if reader.tail - reader.ended >= reader.outstanding:
        place = reader.ended % RING
        earliest = max(earliest, reader.starts[place] + reader.lengths[place])
    if earliest > cycle:
        return False, min(earliest, NEVER)
    if reader.free < length:
        return False, NEVER  # until beats are taken
    place = reader.tail % RING
    reader.lengths[place] = length
    reader.left -= length
    reader.lasts[place] = reader.left == 0
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
    place = (reader.tail - 1) % RING
    reader.starts[place] = send_burst(cycle + ADDRESS, port, reader.lengths[place], latency)
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
    wake(wakes, PORT_READS, cycle + ADDRESS)
    return NEVER  # until the port has taken the address


@compiled
def beat_at(reader):
    """Give the cycle in which the next beat is at the output, NEVER if it was not requested."""
    if reader.head == reader.tail:
        return NEVER
    return reader.starts[reader.head % RING] + reader.taken + BUFFERED_FIFO


@compiled
def take_beat(reader):
    """Take a beat; tell whether it is the last of its transfer."""
    place = reader.head % RING
    reader.taken += 1
    reader.free += 1
    if reader.taken < reader.lengths[place]:
        return False
    reader.taken = 0
    reader.head += 1
    return reader.lasts[place] != 0


@compiled
def last_beat(reader):
    """Tell whether the next beat is the last of its transfer."""
    place = reader.head % RING
    return reader.taken + 1 == reader.lengths[place] and reader.lasts[place] != 0
