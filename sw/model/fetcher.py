"""The broadcaster up to its block buffers: see hw/broadcast/requests.py, hw/broadcast/fetcher.py."""

from numba import njit

from etalstm.model.codec import begin_decompression, step_decompressor
from etalstm.model.indexed import INDEX, STREAM, VECTORS, drop_plan, give_index, plan_at, step_requests, stream_item
from etalstm.model.latencies import BLOCK_PLANS
from etalstm.model.masks import fill_masks
from etalstm.model.queues import offered, take
from etalstm.model.reader import beat_at, last_beat, step_reader, take_beat
from etalstm.model.state import EMITTER, FETCHER, NEVER, RING, record, wake

# States of hw/broadcast/requests.py: TAKE has a cycle, LOCATE and CHECK have one each, OFFER as many as it takes.
_TAKE, _LOCATE, _CHECK, _OFFER = range(4)

ENGINE = record(
    "state", "cast", "block", "left", "filling", "filling_from", "part", "current", "beats_left", "free", "bank",
    "full", "stream_reading",
)  # fmt: skip
"""The block that is asked for, the block that is being filled, and how many buffers are free."""


@njit
def _walk(cycle, engine, queue, asked, reader, table, blocks, wakes):
    """Ask for blocks one after the other; tell whether there is more to ask for."""
    item, part, beat, beats = -1, VECTORS, 0, 0
    if engine.state == _OFFER:
        item = engine.block
        beat, beats = blocks[item % len(blocks)].address, blocks[item % len(blocks)].beats
        if table[engine.cast].compressed:
            part, beats = INDEX, 1
    head = stream_item(asked)
    start, length = (blocks[head % len(blocks)].stream_start, blocks[head % len(blocks)].stream_beats) if head >= 0 else (0, 0)
    taken = step_requests(cycle, asked, reader, BLOCK_PLANS, item, part, beat, beats, start, length)
    if engine.state == _TAKE:
        if offered(queue, cycle):
            engine.cast = queue.current
            engine.block, engine.left = table[engine.cast].first_block, table[engine.cast].blocks
            engine.state = _LOCATE
            take(queue, wakes, cycle)
    elif engine.state != _OFFER:
        engine.state += 1
    elif taken:
        engine.block += 1
        engine.left -= 1
        engine.state = _LOCATE if engine.left else _TAKE
    return engine.state != _TAKE or head >= 0


@njit
def _begin(cycle, engine, asked, codec, blocks):
    """Begin to fill a buffer, if there is a plan and a buffer is free."""
    if plan_at(asked) > cycle:
        return
    engine.current, engine.part = drop_plan(asked)
    engine.filling, engine.filling_from = 1, cycle + 1
    block = blocks[engine.current % len(blocks)]
    if engine.part == STREAM:
        engine.stream_reading = 1
        begin_decompression(codec, block.elements, block.kept, 0)


@njit
def _take(cycle, engine, asked, reader, codec, blocks, table, counted):
    """Take a beat; tell whether the block's last beat is written in this cycle."""
    there = beat_at(reader) <= cycle
    if engine.part == STREAM:
        ends_stream = there and last_beat(reader)
        took, _, ends = step_decompressor(codec, there and engine.stream_reading, ends_stream, True)
        if took:
            take_beat(reader)
            engine.stream_reading = not ends_stream
            counted.read[blocks[engine.current % len(blocks)].kind] += 1
        return ends
    if not there:
        return False
    counted.read[blocks[engine.current % len(blocks)].kind] += 1
    return take_beat(reader)


@njit
def step_fetcher(
    cycle, engine, queue, asked, reader, port, codec, table, blocks, banks, masks, values, given, random, sizes,
    counted, wakes,
):  # fmt: skip
    """Ask for blocks, fill a buffer, hand a full one to the emitter."""
    following = step_reader(cycle, reader, port, sizes.latency)
    if _walk(cycle, engine, queue, asked, reader, table, blocks, wakes):
        following = cycle + 1
    if engine.filling and engine.filling_from <= cycle:
        if not engine.full and _take(cycle, engine, asked, reader, codec, blocks, table, counted):
            engine.full = 1
            block = blocks[engine.current % len(blocks)]
            cast = table[block.cast]
            bank = banks[engine.bank]
            fill_masks(engine.bank, bank, block, engine.current, cast, masks, values, given, random, sizes, counted)
            wake(wakes, EMITTER, cycle)  # the walker takes the block in this cycle if it can
        if not engine.full:
            following = min(following, cycle + 1 if engine.part == STREAM else max(cycle + 1, beat_at(reader)))
    elif not engine.filling:
        if plan_at(asked) <= cycle and asked.parts[asked.head % RING] == INDEX:
            if beat_at(reader) <= cycle:
                item, _ = drop_plan(asked)
                take_beat(reader)
                give_index(cycle, asked)
                counted.read[blocks[item % len(blocks)].kind] += 1
                following = cycle + 1
            following = min(following, max(cycle + 1, beat_at(reader)))
        elif engine.free:
            _begin(cycle, engine, asked, codec, blocks)
            following = min(following, cycle + 1 if engine.filling else max(cycle + 1, plan_at(asked)))
    wakes[FETCHER] = following
