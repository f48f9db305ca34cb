"""Transfers that are asked for ahead, and those of streams by way of their indices: see etalstm_hw.dma.indexed."""

from etalstm.model.machine.axi import beat_at, give_transfer, takes_transfer
from etalstm.model.machine.latencies import FIFO, STREAMS_AHEAD
from etalstm.model.machine.state import BURST_BEATS, NEVER, RING, compiled, record

VECTORS, INDEX, STREAM = range(3)  # hw.dma.indexed.BeatKind

ASKED = record(
    "head", "tail", "wait_head", "wait_tail", "index_head", "index_tail", "checked_at", items=RING, kinds=RING,
    pushed=RING, waiting=RING, waiting_since=RING, indices=RING,
)  # fmt: skip
"""Plans of transfers under way; requests that wait for their index; indices that have come."""


@compiled
def plan_at(asked):
    """Give the cycle in which the next plan can be read."""
    return asked.pushed[asked.head % RING] + FIFO if asked.head < asked.tail else NEVER


@compiled
def drop_plan(asked):
    """Take the next plan: its item and kind."""
    entry = asked.head % RING
    asked.head += 1
    return asked.items[entry], asked.kinds[entry]


@compiled
def _ask(cycle, asked, reader, item, kind, beat, beats):
    give_transfer(reader, beat, beats, cycle)
    entry = asked.tail % RING
    asked.items[entry], asked.kinds[entry], asked.pushed[entry] = item, kind, cycle
    asked.tail += 1


@compiled
def give_index(cycle, asked):
    """Hand over an index that was read."""
    asked.indices[asked.index_tail % RING] = cycle
    asked.index_tail += 1


@compiled
def stream_item(asked):
    """Give the item whose stream is asked for next, -1 if there is none."""
    return asked.waiting[asked.wait_head % RING] if asked.wait_head < asked.wait_tail else -1


@compiled
def progress_of(asked, reader):
    """Give a number that grows whenever a request or a beat moves."""
    moved = asked.head + asked.tail + asked.wait_head + asked.wait_tail + asked.index_head + asked.index_tail
    return moved + reader.tail + reader.head * BURST_BEATS + reader.taken


@compiled
def following_event(cycle, asked, reader):
    """Give the next cycle in which what has been asked for comes, if nothing moves before."""
    soonest = NEVER
    for time in (plan_at(asked), asked.checked_at, beat_at(reader)):
        if time > cycle:
            soonest = min(soonest, time)
    if asked.index_head < asked.index_tail:
        time = asked.indices[asked.index_head % RING] + FIFO
        if time > cycle:
            soonest = min(soonest, time)
    if asked.wait_head < asked.wait_tail:
        time = asked.waiting_since[asked.wait_head % RING] + FIFO
        if time > cycle:
            soonest = min(soonest, time)
    return soonest


@compiled
def step_requests(cycle, asked, reader, depth, item, kind, beat, beats, stream_start, stream_beats):
    """Ask for a request (none if `item` is below 0) or, if it cannot be offered, for the first stream whose index came.

    Give whether the request was taken.
    """
    waits = asked.wait_tail - asked.wait_head
    room = takes_transfer(reader) and asked.tail - asked.head < depth
    own = item >= 0 and (waits < STREAMS_AHEAD if kind == INDEX else waits == 0)
    there = asked.index_head < asked.index_tail and asked.indices[asked.index_head % RING] + FIFO <= cycle
    there = there and waits > 0 and asked.waiting_since[asked.wait_head % RING] + FIFO <= cycle
    streams = not own and there and asked.checked_at <= cycle and room
    if streams:
        _ask(cycle, asked, reader, asked.waiting[asked.wait_head % RING], STREAM, stream_start, stream_beats)
        asked.wait_head += 1
        asked.index_head += 1
        asked.checked_at = NEVER
    elif there and asked.checked_at == NEVER:
        asked.checked_at = cycle + 1
    if own and room:
        _ask(cycle, asked, reader, item, kind, beat, beats)
        if kind == INDEX:
            asked.waiting[asked.wait_tail % RING] = item
            asked.waiting_since[asked.wait_tail % RING] = cycle
            asked.wait_tail += 1
        return True
    return False
