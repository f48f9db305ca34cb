"""Memory ports and the readers behind them: see hw/dma/reader.py, hw/dma/bursts.py, hw/dma/share.py, sim/memory.cpp.

A shared port is seen by the channel that is served last: the others, which do the same, come before it.
"""

from etalstm.model.latencies import ADDRESS, BUFFERED_FIFO, MEMORY_BURSTS
from etalstm.model.state import BURST_BEATS, NEVER, RING, compiled, record

PORT = record("managers", "hops", "outstanding", "free", "accepted", "count", ends=RING)
"""Read channel of a port: managers and cycles before it, when it is free, the last address, the ends of bursts.

``outstanding`` bursts of all managers are in flight at most; 0: each manager has a limit of its own alone.
"""

READER = record(
    "depth", "outstanding", "active_from", "left", "beat", "free", "head", "ended", "tail", "taken", "address_from",
    starts=RING, lengths=RING, lasts=RING,
)  # fmt: skip
"""The transfer that is being cut (none if `left` is 0) and the bursts under way; `head` is the one being taken."""


@compiled
def takes_transfer(reader):
    """Tell whether a transfer can be taken in this cycle, in which :func:`step_reader` has been asked already."""
    return reader.left == 0


@compiled
def give_transfer(reader, beat, beats, cycle):
    """Have so many beats read from `beat` on."""
    reader.beat, reader.left, reader.active_from = beat, beats, cycle + 1


@compiled
def _send(port, offered, length, latency):
    """Pass an address that stands at the reader in cycle `offered` to the memory; give its data's first cycle."""
    accepted = max(offered + port.hops, port.accepted + 1)
    for _ in range(port.managers):
        if port.count >= MEMORY_BURSTS:
            accepted = max(accepted, port.ends[(port.count - MEMORY_BURSTS) % RING] + 1)
        if port.outstanding and port.count >= port.outstanding:
            accepted = max(accepted, port.ends[(port.count - port.outstanding) % RING] + 1 + port.hops)
        start = max(accepted + latency, port.free)
        port.accepted, port.free = accepted, start + length
        port.ends[port.count % RING] = start + length - 1
        port.count += 1
        accepted += 1
    return start


@compiled
def step_reader(cycle, reader, port, latency):
    """Request the next burst if there is room; give the cycle in which to ask again, unless a beat is taken before."""
    if reader.left == 0:
        return NEVER
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
        return earliest
    if reader.free < length:
        return NEVER  # until beats are taken
    place = reader.tail % RING
    reader.starts[place] = _send(port, cycle + ADDRESS, length, latency)
    reader.address_from = max(cycle + 1, port.accepted - port.hops)
    reader.lengths[place] = length
    reader.left -= length
    reader.lasts[place] = reader.left == 0
    reader.beat += length
    reader.free -= length
    reader.tail += 1
    return cycle + 1 if reader.left else NEVER


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
