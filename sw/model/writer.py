"""The writer of a channel and the write channels of its port: see hw/dma/writer.py, hw/dma/share.py, sim/memory.cpp.

A shared port is seen by the channel that is served last: the others, which do the same, come before it.
"""

from etalstm.hw.contract import Counter
from etalstm.model.latencies import ADDRESS, DONE, FIFO, MEMORY_BURSTS, WRITES_AHEAD, WRITES_OUTSTANDING
from etalstm.model.state import BURST_BEATS, NEVER, RING, STORE, compiled, complete, record

_WRITTEN = int(Counter.WRITE_BEATS)

WRITER = record(
    "managers", "hops", "left", "active_from", "beat", "kind", "final", "head", "tail", "sent", "data_at",
    "accepted", "answered", "offered_until", "last_answer", lengths=RING, begins=RING, finals=RING, kinds=RING,
    accepts=RING, answers=RING,
)  # fmt: skip
"""The transfer that is being cut and its bursts: `head` is the one whose data go out, `data_at` when the register at
the port is free again, `answers` the cycles of the responses."""


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
def step_writer(cycle, writer):
    """Begin the next burst if there is room; tell whether one is waiting."""
    if writer.left == 0:
        return False
    if writer.active_from > cycle or writer.offered_until > cycle:
        return True
    unsent = writer.tail - writer.head
    # a response frees its place in the cycle after it came
    while writer.answered < writer.head and writer.answers[writer.answered % RING] < cycle:
        writer.answered += 1
    if unsent >= WRITES_AHEAD or writer.tail - writer.answered >= WRITES_OUTSTANDING:
        return True
    length = min(BURST_BEATS - writer.beat % BURST_BEATS, writer.left)
    place = writer.tail % RING
    writer.lengths[place], writer.begins[place], writer.kinds[place] = length, cycle, writer.kind
    writer.left -= length
    writer.beat += length
    writer.finals[place] = writer.final and writer.left == 0
    writer.tail += 1
    accepted = max(cycle + ADDRESS + writer.hops, writer.accepted + 1)
    slots = MEMORY_BURSTS // writer.managers
    if writer.tail > slots:
        before = writer.tail - 1 - slots
        # Where the response before is not known, the address stands until it is.
        # The first manager's response came as much earlier as its address is accepted.
        freed = writer.answers[before % RING] + 2 - writer.managers
        accepted = NEVER if before >= writer.head else max(accepted, freed)
    writer.accepts[place] = accepted
    if accepted < NEVER:
        writer.accepted = accepted + writer.managers - 1
        writer.accepts[place] = writer.accepted
        writer.offered_until = writer.accepted - writer.hops
    else:
        writer.offered_until = NEVER
    return True


@compiled
def _settle(writer):
    """Find the cycle in which the address that stands at the port is accepted, once that is known."""
    if writer.offered_until < NEVER:
        return
    place = (writer.tail - 1) % RING
    before = writer.tail - 1 - MEMORY_BURSTS // writer.managers
    if before < writer.head:
        freed = writer.answers[before % RING] + 2 - writer.managers
        accepted = max(writer.begins[place] + ADDRESS + writer.hops, freed)
        writer.accepted = max(accepted, writer.accepted + 1) + writer.managers - 1
        writer.accepts[place] = writer.accepted
        writer.offered_until = writer.accepted - writer.hops


@compiled
def data_room(cycle, writer):
    """Tell whether a beat can be given in this cycle."""
    if writer.head == writer.tail or writer.begins[writer.head % RING] + FIFO > cycle:
        return False
    return writer.data_at <= cycle


@compiled
def give_data(cycle, writer, done, wakes, counted, latency):
    """Give a beat; it is at the port in the next cycle, and there until the memory takes it."""
    place = writer.head % RING
    counted[_WRITTEN + writer.kinds[place]] += 1
    writer.sent += 1
    taken = max(cycle + 1, writer.accepts[place] + 1)
    if writer.sent == 1:  # the others' data come before, the first one's as soon as its address is accepted
        others = writer.managers - 1
        first = max(cycle + 1, writer.accepts[place] + 1 - others)
        taken = max(taken, first + others * writer.lengths[place])
    writer.data_at = taken
    if writer.sent < writer.lengths[place]:
        return
    writer.sent = 0
    answer = max(taken + latency, writer.last_answer + 1)
    writer.answers[place] = writer.last_answer = answer
    writer.head += 1
    _settle(writer)
    if writer.finals[place]:
        complete(done, wakes, STORE, answer + DONE)
