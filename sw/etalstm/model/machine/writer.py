"""The writer of a channel, up to its port: see etalstm_hw.axi.writer."""

from etalstm.model.machine.latencies import ADDRESS, FIFO, WRITES_AHEAD, WRITES_OUTSTANDING
from etalstm.model.machine.state import BURST_BEATS, NEVER, PORT_WRITES, RING, compiled, record, wake
from etalstm_hw.contract import Counter

_WRITTEN = int(Counter.WRITE_BEATS)

WRITER = record(
    "left", "active_from", "beat", "kind", "final", "head", "tail", "sent", "landed", "answered", "offered",
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
    # a response frees its place in the cycle after it came
    while writer.answered < writer.landed and writer.answers[writer.answered % RING] < cycle:
        writer.answered += 1
    if writer.tail - writer.head >= WRITES_AHEAD or writer.tail - writer.answered >= WRITES_OUTSTANDING:
        return True
    length = min(BURST_BEATS - writer.beat % BURST_BEATS, writer.left)
    place = writer.tail % RING
    writer.lengths[place], writer.begins[place], writer.kinds[place] = length, cycle, writer.kind
    writer.left -= length
    writer.beat += length
    writer.finals[place] = writer.final and writer.left == 0
    writer.tail += 1
    writer.offered = cycle + ADDRESS
    wake(wakes, PORT_WRITES, cycle + ADDRESS)
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
    place = writer.head % RING
    counted[_WRITTEN + writer.kinds[place]] += 1
    writer.shown_from = cycle + 1
    writer.sent += 1
    if writer.sent == writer.lengths[place]:
        writer.sent = 0
        writer.head += 1
