"""The LOAD engine: see etalstm_hw.dma.load and etalstm_hw.dma.requests."""

from etalstm.model.machine import indexed
from etalstm.model.machine.axi import beat_at, last_beat, step_sharing_reader, take_beat
from etalstm.model.machine.codec import begin_decompression, step_decompressor, stream_of, window_of
from etalstm.model.machine.compute import writes_to
from etalstm.model.machine.latencies import DONE, LOAD_PLANS
from etalstm.model.machine.queues import offered, take
from etalstm.model.machine.state import LOAD, LOADS, NEVER, compiled, complete, record
from etalstm_hw.contract import Counter, Memory

SCRATCH, WEIGHTS, _READ = int(Memory.SCRATCH), int(Memory.WEIGHTS), int(Counter.READ_BEATS)

ENGINE = record(
    "prepared_at", "active", "kind", "current", "reading", "stands_for", "weights_at", "weights_before", "side",
    "turn", "beat", "bank", "turn_bank",
)  # fmt: skip
"""The instruction that is being requested, and the plan whose beats are taken.

What is read is counted for all channels that the engine `stands_for`. Weights were taken last in ``weights_at``, for
the port ``side`` of each copy; for the other one in ``weights_before``. The next ``beat`` is written to a vector in
``bank``; ``turn`` vectors are left of this turn of the inner loop, which has begun in ``turn_bank``.
"""


@compiled
def _request(cycle, engine, queue, asked, reader, table, given, channel, wakes):
    """Ask for the instruction at the queue, two cycles after the one before, or for a stream."""
    item, kind, beat, beats = -1, indexed.VECTORS, 0, 0
    if offered(queue, cycle):
        engine.prepared_at = min(engine.prepared_at, cycle + 1)
        if engine.prepared_at <= cycle:
            item = queue.current
            beat, beats = table[item].address, table[item].beats
            if table[item].compressed:
                kind, beats = indexed.INDEX, 1
    head = indexed.stream_item(asked)
    start = length = 0
    if head >= 0:
        start, length, _ = stream_of(table[head], given, channel)
    if indexed.step_requests(cycle, asked, reader, LOAD_PLANS, item, kind, beat, beats, start, length):
        take(queue, wakes, cycle)
        engine.prepared_at = NEVER


@compiled
def _begin(cycle, engine, asked, codec, table, given, channel):
    """Take the next plan if there is one."""
    engine.active = indexed.plan_at(asked) <= cycle
    if engine.active:
        engine.current, engine.kind = indexed.drop_plan(asked)
        engine.turn, engine.beat = table[engine.current].inner, 0
        engine.bank = engine.turn_bank = table[engine.current].lane_bank
        if engine.kind == indexed.STREAM:
            instruction = table[engine.current]
            engine.reading = 1
            _, _, counts_from = stream_of(instruction, given, channel)
            begin_decompression(codec, instruction.elements, instruction.kept, counts_from, instruction.bf16)


@compiled
def _walk(engine, instruction, sizes):
    """Go on to the next beat's bank."""
    engine.beat += 1
    if engine.beat < sizes.vector_beats:
        return
    engine.beat = 0
    engine.turn -= 1
    if engine.turn:
        engine.bank ^= instruction.inner_bank
    else:
        engine.turn = instruction.inner
        engine.turn_bank ^= instruction.outer_bank
        engine.bank = engine.turn_bank


@compiled
def _take(cycle, engine, asked, reader, codec, instruction, counts, vector, sizes, counted):
    """Take a beat and write one, as far as they are there; tell whether the plan at hand ends."""
    writable = instruction.memory != SCRATCH or not writes_to(cycle, vector, engine.bank)
    there = beat_at(reader) <= cycle
    if engine.kind == indexed.STREAM:
        beat_last = there and last_beat(reader)
        took, gave, ends = step_decompressor(codec, there and engine.reading, beat_last, writable, counts)
        if gave:
            _walk(engine, instruction, sizes)
        if took:
            take_beat(reader)
            engine.reading = not beat_last
            counted[_READ + instruction.kind] += engine.stands_for
        return ends
    if not there or (engine.kind == indexed.VECTORS and not writable):
        return False
    if instruction.memory == WEIGHTS:
        engine.weights_before, engine.weights_at, engine.side = engine.weights_at, cycle, 1 - engine.side
    counted[_READ + instruction.kind] += engine.stands_for
    _walk(engine, instruction, sizes)
    ends = take_beat(reader)
    if engine.kind == indexed.INDEX:
        indexed.give_index(cycle, asked)
    return ends


@compiled
def _write(cycle, engine, asked, reader, codec, table, counts, vector, sizes, done, counted, wakes):
    """Go on with the plan at hand; tell whether it ends, and whether to ask again though nothing comes."""
    instruction, before = table[engine.current], window_of(codec)
    ends = _take(cycle, engine, asked, reader, codec, instruction, counts, vector, sizes, counted)
    if ends and engine.kind != indexed.INDEX and not instruction.more:
        complete(done, wakes, LOAD, cycle + DONE)
    if engine.kind == indexed.STREAM:
        return ends, window_of(codec) != before or codec.valid != 0 or codec.full != 0
    return ends, beat_at(reader) <= cycle  # the lanes write something else


@compiled
def step_load(
    cycle, engine, queue, asked, reader, codec, table, given, channel, vector, sizes, done, counted, wakes
):  # fmt: skip
    """Request what instructions ask for, and write what has come."""
    before = (indexed.progress_of(asked, reader), engine.active, engine.prepared_at)
    following, ends = step_sharing_reader(cycle, reader, wakes), False
    _request(cycle, engine, queue, asked, reader, table, given, channel, wakes)
    if engine.active:
        ends, again = _write(
            cycle, engine, asked, reader, codec, table, given.counts, vector, sizes, done, counted, wakes
        )
        following = cycle + 1 if again else following
    if not engine.active or ends:
        _begin(cycle, engine, asked, codec, table, given, channel)
    if ends or before != (indexed.progress_of(asked, reader), engine.active, engine.prepared_at):
        following = cycle + 1
    wakes[LOADS] = min(following, indexed.following_event(cycle, asked, reader))
