"""What the middle of the machine knows of a FIFO in the channels."""

import numpy as np

from etalstm.hw.distance import STAGES
from etalstm.model.latencies import NEWS
from etalstm.model.links import PLACES, TIMES, record_pop, room_at, shows_room
from etalstm.model.state import NEVER, record

FIFO = record(*PLACES, **TIMES)


def send(fifo, cycle):
    fifo["pushed"][fifo["tail"]] = cycle + STAGES
    fifo["tail"] += 1


def test_entries_are_sent_until_the_news_of_the_full_fifo_has_come():
    fifo, depth, sent = np.zeros(1, FIFO)[0], 4, 0
    for cycle in range(40):
        if shows_room(fifo, depth, cycle):
            send(fifo, cycle)
            sent += 1
    assert sent == depth + STAGES + NEWS


def test_room_is_known_of_when_the_news_has_come():
    fifo, depth = np.zeros(1, FIFO)[0], 1
    send(fifo, 0)
    full_at = STAGES + NEWS + 1
    assert shows_room(fifo, depth, full_at - 1) and not shows_room(fifo, depth, full_at)
    assert room_at(fifo) == NEVER
    record_pop(fifo, 20)
    assert not shows_room(fifo, depth, 20 + NEWS)
    assert room_at(fifo) == 20 + NEWS + 1
    assert shows_room(fifo, depth, room_at(fifo))
