"""What the middle of the machine knows of FIFOs in the channels."""

import numpy as np

from etalstm.model.machine import queues
from etalstm.model.machine.latencies import NEWS
from etalstm.model.machine.state import NEVER, record
from etalstm_hw.contract.distance import STAGES
from tests.model.python import from_python

all_show_room, record_pop, room_at, shows_room = from_python(
    queues.all_show_room, queues.record_pop, queues.room_at, queues.shows_room
)
FIFO = record(*queues.POSITIONS, **queues.TIMES)


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


def test_room_is_known_of_when_the_news_of_every_channel_has_come():
    fifos, depth = np.zeros(2, FIFO), 1
    for fifo in fifos:
        send(fifo, 0)
    full_at = STAGES + NEWS + 1
    assert all_show_room(fifos, depth, full_at - 1) and not all_show_room(fifos, depth, full_at)
    record_pop(fifos[0], 10)
    assert not all_show_room(fifos, depth, 10 + NEWS + 1)
    assert room_at(fifos, depth) == NEVER
    record_pop(fifos[1], 20)
    assert not all_show_room(fifos, depth, 20 + NEWS)
    assert room_at(fifos, depth) == 20 + NEWS + 1
    assert all_show_room(fifos, depth, room_at(fifos, depth))
