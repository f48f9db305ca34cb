"""The STORE engine and its logs of streams: see etalstm_hw.dma.store, log, vectors, scatter and transpose."""

from etalstm.model.machine.axi import data_room, give_data, give_writes, step_writer, takes_writes
from etalstm.model.machine.codec import begin_compression, step_compressor, stream_of
from etalstm.model.machine.latencies import FIFO, LOG_BEATS
from etalstm.model.machine.queues import offered, take
from etalstm.model.machine.state import BURST_BEATS, NEVER, RING, STORES, compiled, record
from etalstm_hw.contract import Memory, Opcode

IDLE, BEGIN, LOOK, GATHER, BURST, INDEX, CONCLUDE = range(7)

LOG = record(
    "state", "stream", "position", "written", "there", "complete", "burst", "left", "transfer", "transfer_beats",
    "final", "entered", "level", "total_head", "total_tail", "pushed_at", totals=RING, total_at=RING, positions=2,
)  # fmt: skip
"""The state machine; `level` beats wait, `left` of them may be written; `transfer` is 1 while one is offered."""


@compiled
def log_busy(log):
    """Tell whether a stream is being written."""
    return log.state != IDLE or log.transfer != 0


@compiled
def collects(log):
    """Tell whether a beat of a stream is taken."""
    return log.level < LOG_BEATS and log.total_tail - log.total_head < 2


@compiled
def collect(cycle, log, last):
    """Take a beat."""
    log.level += 1
    log.entered += 1
    if last:
        log.totals[log.total_tail % RING], log.total_at[log.total_tail % RING] = log.entered, cycle
        log.total_tail += 1
        log.entered = 0


@compiled
def begin_log(log, item):
    """Take a stream."""
    log.stream, log.state = item, BEGIN


@compiled
def step_log(cycle, log, instruction, hold, writer, data_taken, entered):
    """Do a cycle's work; `data_taken`: a beat of `data` went out; `entered`: beats of the stream before this cycle."""
    wanted = log.state == INDEX or log.state == BURST
    taken = wanted and not log.transfer and log.left == 0
    if log.transfer and takes_writes(writer) and not hold:
        give_writes(writer, log.transfer - 1, log.transfer_beats, log.final, instruction.kind, cycle)
        log.transfer = 0
    state = log.state
    if state == BEGIN:
        log.position = instruction.start if instruction.first else log.positions[instruction.log]
        log.written = 0
        if not hold:
            log.state = LOOK
    elif state == LOOK:
        known = log.total_head < log.total_tail and log.total_at[log.total_head % RING] + FIFO <= cycle
        log.complete = known
        log.there = (log.totals[log.total_head % RING] if known else entered) - log.written
        log.state = GATHER
    elif state == GATHER:
        to_boundary = BURST_BEATS - log.position % BURST_BEATS
        log.burst = min(log.there, to_boundary)
        if log.complete and log.there == 0:
            log.state = INDEX
        else:
            log.state = BURST if log.complete or log.there >= to_boundary else LOOK
    elif state == CONCLUDE and data_taken:
        log.total_head += 1
        log.state = IDLE
    if data_taken and state != CONCLUDE:
        log.left -= 1
        log.level -= 1
    if taken and state == BURST:
        log.transfer, log.transfer_beats, log.final = 1 + log.position, log.burst, 0
        log.position += log.burst
        log.written += log.burst
        log.left = log.burst
        log.state = LOOK
    elif taken:
        log.transfer, log.transfer_beats, log.final = 1 + instruction.address, 1, 1
        log.positions[instruction.log] = log.position
        log.state = CONCLUDE


@compiled
def offers_data(log):
    """Tell whether a beat can be written."""
    return log.left != 0 or log.state == CONCLUDE


SCRATCH, TRANSPOSE = int(Memory.SCRATCH), int(Opcode.TRANSPOSE)

ENGINE = record(
    "prepared_at", "to_vectors", "to_writer", "reading", "vectors_left", "inner_left", "turn", "bank", "turn_bank",
    "span", "free", "cut_from", "scatter", "scatter_left", "scatter_from", "sums_at", "beats_head", "beats_tail",
    "stream_head", "stream_tail", items=RING, pushed=RING, lasts=RING, streams=RING,
)  # fmt: skip
"""Which of reader and writer has still to take the instruction; the vectors being read, in beats that are queued.

``turn`` vectors are left of this turn of the inner loop, which has begun in ``turn_bank``; ``bank`` is the next one's.
"""

TRANSPOSER = record("filling", "emptying", "beat", "out", full=2, beats=2)
"""Two pages: which one is filled and which is emptied, and the beats that each gives; a beat is at the output."""


@compiled
def _take(cycle, engine, queue, log, codec, table, sizes, reading, wakes):
    """Hand an instruction to the reader of vectors and to scatter or log; tell whether one is at the queue.

    `reading`: the reader had vectors left before this cycle's.
    """
    if not offered(queue, cycle):
        engine.prepared_at, engine.to_vectors, engine.to_writer = NEVER, 1, 1
        return False
    if engine.prepared_at == NEVER:
        engine.prepared_at = cycle + 1
        return True
    if engine.prepared_at > cycle:
        return True
    number = queue.current
    instruction = table[number]
    compress, logging = instruction.compressed, log_busy(log)
    if engine.to_vectors and (compress or not logging) and not reading:
        engine.to_vectors = 0
        _begin_vectors(cycle, engine, instruction, number, sizes)
        if compress:
            engine.streams[engine.stream_tail % RING] = number
            engine.stream_tail += 1
    if engine.to_writer:
        if compress and log.state == 0:
            engine.to_writer = 0
            begin_log(log, number)
        elif not compress and not logging and engine.scatter_left == 0:
            engine.to_writer = 0
            engine.scatter, engine.scatter_from = number, cycle + 1
            engine.scatter_left = instruction.outer * instruction.lanes if instruction.opcode == TRANSPOSE else 1
    if not engine.to_vectors and not engine.to_writer:
        take(queue, wakes, cycle)
        engine.prepared_at, engine.to_vectors, engine.to_writer = NEVER, 1, 1
    return True


@compiled
def _begin_vectors(cycle, engine, instruction, number, sizes):
    """Read the vectors of an instruction from the next cycle on."""
    engine.reading, engine.cut_from = number, max(engine.cut_from, cycle + 1)
    if instruction.opcode == TRANSPOSE:
        engine.inner_left = instruction.rows
        engine.vectors_left = instruction.outer * instruction.rows
        engine.span = -(-instruction.lanes // sizes.beat_words)
    else:
        engine.inner_left = engine.vectors_left = instruction.outer * instruction.inner
        engine.span = sizes.vector_beats
    engine.turn = _turn_of(instruction)
    engine.bank = engine.turn_bank = instruction.lane_bank


@compiled
def _turn_of(instruction):
    """Count the vectors of an inner loop."""
    return instruction.rows if instruction.opcode == TRANSPOSE else instruction.inner


@compiled
def _walk(engine, instruction):
    """Go on to the next vector's bank."""
    engine.turn -= 1
    if engine.turn:
        engine.bank ^= instruction.inner_bank
    else:
        engine.turn = _turn_of(instruction)
        engine.turn_bank ^= instruction.outer_bank
        engine.bank = engine.turn_bank


@compiled
def _read(cycle, engine, vector, table):
    """Read a vector if its port is free and the FIFO has room; its beats follow each other from the next cycle on."""
    if engine.vectors_left == 0 or engine.cut_from > cycle or engine.free < engine.span:
        return
    instruction = table[engine.reading]
    scratch = instruction.opcode == TRANSPOSE or instruction.memory == SCRATCH
    if scratch:
        if vector.b_read_at == cycle or vector.bank_read_at[engine.bank] == cycle:
            return
    elif vector.sums_at == cycle:
        return
    else:
        engine.sums_at = cycle
    _walk(engine, instruction)
    engine.vectors_left -= 1
    engine.inner_left -= 1
    ends = engine.inner_left == 0
    for beat in range(engine.span):
        entry = engine.beats_tail % RING
        engine.items[entry], engine.pushed[entry] = engine.reading, cycle + 1 + beat
        engine.lasts[entry] = ends and beat + 1 == engine.span
        engine.beats_tail += 1
    engine.free -= engine.span
    engine.cut_from = cycle + engine.span
    if instruction.opcode == TRANSPOSE and ends:
        engine.inner_left = instruction.rows


@compiled
def _beat_there(cycle, engine):
    return engine.beats_head < engine.beats_tail and engine.pushed[engine.beats_head % RING] + FIFO <= cycle


@compiled
def _scatter(cycle, engine, writer, table, sizes):
    """Give the writer the next transfer of the instruction at hand.

    The lanes of a TRANSPOSE are transfers of their own. Where each begins makes no difference: it lies within a vector,
    and vectors do not cross the end of a burst.
    """
    if engine.scatter_left == 0 or engine.scatter_from > cycle or not takes_writes(writer):
        return
    instruction = table[engine.scatter]
    engine.scatter_left -= 1
    give_writes(writer, instruction.address, instruction.beats, engine.scatter_left == 0, instruction.kind, cycle)


@compiled
def _fill(engine, square, item, instruction):
    """Put the beat at hand into the transposer's page; give whether it was taken."""
    page = square.filling
    if square.full[page]:
        return False
    if engine.lasts[engine.beats_head % RING]:
        square.beats[page], square.full[page] = instruction.lanes * instruction.beats, 1
        square.filling = 1 - page
    return True


@compiled
def _empty(square, reads, room):
    """Take the beat at the transposer's output if there is room for it, and read the next one if there is any."""
    page = square.emptying
    if square.out and not room:
        return
    square.out = reads
    if not reads:
        return
    square.beat += 1
    if square.beat == square.beats[page]:
        square.beat = square.full[page] = 0
        square.emptying = 1 - page


@compiled
def _drop(engine):
    engine.beats_head += 1
    engine.free += 1


@compiled
def _move_data(cycle, engine, square, log, codec, writer, table, given, channel, counted):
    """Pass a beat to the writer and one into transposer or compressor; give if one came from the log, and its level."""
    room, logged = data_room(cycle, writer), False
    entered = log.entered
    there = _beat_there(cycle, engine)
    item = engine.items[engine.beats_head % RING]
    empties = square.full[square.emptying] != 0
    opcode, compressed = table[item].opcode, table[item].compressed
    if there and opcode == TRANSPOSE and _fill(engine, square, item, table[item]):
        _drop(engine)
    if empties or square.out:
        if square.out and room:
            give_data(cycle, writer, counted)
        _empty(square, empties, room)
    elif offers_data(log):
        if room:
            give_data(cycle, writer, counted)
            logged = True
    elif there and opcode != TRANSPOSE and not compressed and room:
        give_data(cycle, writer, counted)
        _drop(engine)
    there = there and compressed
    if engine.stream_head < engine.stream_tail and codec.beat == codec.all_beats:
        first = table[engine.streams[engine.stream_head % RING]]
        _, _, counts_from = stream_of(first, given, channel)
        begin_compression(codec, first.elements, first.kept, counts_from, first.bf16)
        engine.stream_head += 1
    beat_last = engine.lasts[engine.beats_head % RING] != 0
    took, gave, last = step_compressor(codec, there, beat_last, collects(log), given.counts)
    if took:
        _drop(engine)
    if gave:
        collect(cycle, log, last)
    return logged, entered


@compiled
def step_store(
    cycle, engine, queue, square, log, codec, writer, table, given, channel, vector, sizes, counted, wakes
):  # fmt: skip
    """Take instructions, read vectors, and write what they become."""
    waiting = step_writer(cycle, writer, wakes)
    busy = log_busy(log)
    scattering = engine.scatter_left != 0
    _scatter(cycle, engine, writer, table, sizes)
    reading = engine.vectors_left != 0
    _read(cycle, engine, vector, table)
    active = _take(cycle, engine, queue, log, codec, table, sizes, reading, wakes)
    logged, entered = _move_data(cycle, engine, square, log, codec, writer, table, given, channel, counted)
    if busy:
        step_log(cycle, log, table[log.stream], scattering, writer, logged, entered)
    more = active or waiting or engine.vectors_left or engine.beats_head < engine.beats_tail or engine.scatter_left
    more = (
        more
        or log_busy(log)
        or square.full[0]
        or square.full[1]
        or square.out
        or engine.stream_head < engine.stream_tail
    )
    wakes[STORES] = cycle + 1 if more else NEVER
