"""The broadcaster up to its block buffers: see etalstm_hw.broadcast.requests, etalstm_hw.broadcast.fetcher."""

from etalstm.model.machine import indexed
from etalstm.model.machine.axi import beat_at, last_beat, step_reader, take_beat
from etalstm.model.machine.codec import begin_decompression, step_decompressor, window_of
from etalstm.model.machine.latencies import BLOCK_PLANS
from etalstm.model.machine.masks import fill_masks
from etalstm.model.machine.queues import offered, take
from etalstm.model.machine.state import BURST_BEATS, EMITTER, FETCHER, NEVER, RING, compiled, record, wake
from etalstm_hw.contract import Counter

# States of etalstm_hw.broadcast.requests: TAKE has a cycle, LOCATE and CHECK have one each, OFFER as many as it takes.
_TAKE, _LOCATE, _CHECK, _OFFER = range(4)
ITEM_BLOCKS = 1 << 12  # an item is the instance of a CAST, times this, and the number of one of its blocks
_READ = int(Counter.READ_BEATS)

ENGINE = record(
    "state", "cast", "block", "left", "filling", "filling_from", "kind", "current", "beats_left", "free", "bank",
    "full", "stream_reading", "group",
)  # fmt: skip
"""The block that is asked for, the block that is being filled, how many buffers are free, and whose they are."""


@compiled
def _block(item, table, blocks):
    """Give the block of an item."""
    return blocks[table[item // ITEM_BLOCKS].first_block + item % ITEM_BLOCKS]


@compiled
def _stream(item, table, blocks, given, group):
    """Give first beat and beats of an item's stream in a group, and where its counts begin."""
    if given.block_streams.size:
        found = given.block_streams[group, table[item // ITEM_BLOCKS].given_number + item % ITEM_BLOCKS]
        return found[0], found[1], found[2]
    block = _block(item, table, blocks)
    start = table[item // ITEM_BLOCKS].text % BURST_BEATS  # as of any stream that is not given
    return start + item % ITEM_BLOCKS * block.stream_beats, block.stream_beats, 0


@compiled
def walk_blocks(cycle, engine, given_cast, asked, reader, table, blocks, given):
    """Ask for blocks one after the other; tell whether the instruction that is given, -1 if none is, was taken."""
    item, kind, beat, beats = -1, indexed.VECTORS, 0, 0
    if engine.state == _OFFER:
        cast = table[engine.cast]
        item = engine.cast * ITEM_BLOCKS + engine.block
        beat, beats = (
            cast.address + blocks[cast.first_block + engine.block].address,
            blocks[cast.first_block + engine.block].beats,
        )
        if table[engine.cast].compressed:
            kind, beats = indexed.INDEX, 1
    head = indexed.stream_item(asked)
    start = length = 0
    if head >= 0:
        start, length, _ = _stream(head, table, blocks, given, engine.group)
    taken = indexed.step_requests(cycle, asked, reader, BLOCK_PLANS, item, kind, beat, beats, start, length)
    if engine.state == _TAKE:
        if given_cast >= 0:
            engine.cast = given_cast
            engine.block, engine.left = 0, table[engine.cast].blocks
            engine.state = _LOCATE
            return True
    elif engine.state != _OFFER:
        engine.state += 1
    elif taken:
        engine.block += 1
        engine.left -= 1
        engine.state = _LOCATE if engine.left else _TAKE
    return False


@compiled
def _begin(cycle, engine, asked, codec, table, blocks, given):
    """Begin to fill a buffer, if there is a plan and a buffer is free."""
    if indexed.plan_at(asked) > cycle:
        return
    engine.current, engine.kind = indexed.drop_plan(asked)
    engine.filling, engine.filling_from = 1, cycle + 1
    if engine.kind == indexed.STREAM:
        engine.stream_reading = 1
        block = _block(engine.current, table, blocks)
        _, _, counts_from = _stream(engine.current, table, blocks, given, engine.group)
        begin_decompression(codec, block.elements, block.kept, counts_from, 0)


@compiled
def _take(cycle, engine, asked, reader, codec, table, counts, counted):
    """Take a beat; tell whether the block's last beat is written in this cycle."""
    there = beat_at(reader) <= cycle
    if engine.kind == indexed.STREAM:
        ends_stream = there and last_beat(reader)
        took, _, ends = step_decompressor(codec, there and engine.stream_reading, ends_stream, True, counts)
        if took:
            take_beat(reader)
            engine.stream_reading = not ends_stream
            counted[_READ + table[engine.current // ITEM_BLOCKS].kind] += 1
        return ends
    if not there:
        return False
    counted[_READ + table[engine.current // ITEM_BLOCKS].kind] += 1
    return take_beat(reader)


@compiled
def _fill(
    cycle, engine, asked, reader, codec, banks, blocks, table, masks, values, given, random, sizes, counted, wakes
):  # fmt: skip
    """Take a beat of the block that is being filled; give the cycle in which to ask again, if nothing moves before."""
    if engine.full or engine.filling_from > cycle:
        return max(cycle + 1, engine.filling_from) if not engine.full else NEVER
    before = window_of(codec)
    if _take(cycle, engine, asked, reader, codec, table, given.counts, counted):
        engine.full = 1
        block, cast = _block(engine.current, table, blocks), table[engine.current // ITEM_BLOCKS]
        number = engine.current % ITEM_BLOCKS
        first = given.firsts[engine.group, cast.given_number + number] if len(given.masks) else 0
        fill_masks(
            engine.bank, banks[engine.bank], block, number, cast, masks, values, given.masks[first:], random, sizes,
            counted,
        )  # fmt: skip
        wake(wakes, EMITTER, cycle)  # the walker takes the block in this cycle if it can
    return cycle + 1 if engine.kind == indexed.STREAM and window_of(codec) != before else NEVER


@compiled
def _next_plan(cycle, engine, asked, reader, codec, table, blocks, given, counted):
    """Take an index that has come, or begin to fill a buffer that is free."""
    if indexed.plan_at(asked) <= cycle and asked.kinds[asked.head % RING] == indexed.INDEX:
        if beat_at(reader) <= cycle:
            item, _ = indexed.drop_plan(asked)
            take_beat(reader)
            indexed.give_index(cycle, asked)
            counted[_READ + table[item // ITEM_BLOCKS].kind] += 1
    elif engine.free:
        _begin(cycle, engine, asked, codec, table, blocks, given)


@compiled
def step_fetcher(
    cycle, engine, queue, asked, reader, port, codec, table, blocks, banks, masks, values, given, random, sizes,
    counted, wakes,
):  # fmt: skip
    """Ask for blocks, fill a buffer, hand a full one to the emitter."""
    before = (indexed.progress_of(asked, reader), engine.state, engine.filling, engine.full)
    following = step_reader(cycle, reader, port, sizes.latency)
    cast = queue.current if offered(queue, cycle) else -1
    if walk_blocks(cycle, engine, cast, asked, reader, table, blocks, given):
        take(queue, wakes, cycle)
    if engine.filling:
        again = _fill(
            cycle, engine, asked, reader, codec, banks, blocks, table, masks, values, given, random, sizes, counted,
            wakes,
        )  # fmt: skip
        following = min(following, again)
    else:
        _next_plan(cycle, engine, asked, reader, codec, table, blocks, given, counted)
    if before != (indexed.progress_of(asked, reader), engine.state, engine.filling, engine.full):
        following = cycle + 1
    wakes[FETCHER] = min(following, indexed.following_event(cycle, asked, reader))
