"""FIFOs in the channels, and what the middle of the machine knows of their room.

See etalstm_hw.machine.tree, etalstm_hw.machine.channel.

The two ends have one clock: ``pushed`` is the cycle in which an entry arrives at the channel.
"""

from etalstm.model.machine.latencies import NEWS
from etalstm.model.machine.state import NEVER, RING, compiled

PLACES = ("head", "tail", "known_head", "known_tail")
"""Entries taken and sent, and how many of each the middle knows of."""

TIMES = {"pushed": RING, "popped": RING}


@compiled
def record_pop(fifo, cycle):
    """Take the first entry."""
    fifo.popped[fifo.head % RING] = cycle
    fifo.head += 1


@compiled
def shows_room(fifo, depth, cycle):
    """Tell whether fewer than `depth` entries waited when the news that the middle has in this cycle set out.

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
