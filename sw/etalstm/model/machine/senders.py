"""The broadcaster where products are integers: see etalstm_hw.integer.broadcaster, sequences and sender.

How many digits of a line are not zero decides how long it takes, not which. A line is a beat of bytes of one sequence
and plane: upper or lower digits.
"""

from etalstm.model.machine import indexed
from etalstm.model.machine.axi import beat_at, step_reader, take_beat
from etalstm.model.machine.fetcher import ITEM_BLOCKS, walk_blocks
from etalstm.model.machine.latencies import ARRAYS_AHEAD, BEATS_AHEAD, FIFO
from etalstm.model.machine.masks import count_bits, draw_bits, seed
from etalstm.model.machine.queues import all_show_room, give_scalar, offered, room_at, take
from etalstm.model.machine.state import EMITTER, FETCHER, NEVER, RING, compiled, record, wake
from etalstm_hw.config import BANK_ARRAYS, SENT_BANKS
from etalstm_hw.contract import Counter
from etalstm_hw.contract.integers import PLANES

_READ, _SEEN, _SKIPPED = (
    int(counter) for counter in (Counter.READ_BEATS, Counter.SCALARS_SEEN, Counter.SCALARS_SKIPPED)
)
_UPPER, _LOWER = range(PLANES)
_CHECKED = 4  # cycles from an array's SEND to its blocks: states of etalstm_hw.integer.broadcaster.ArrayCheck
SLOTS = BANK_ARRAYS * SENT_BANKS  # arrays of a stream; they take the slots in the order in which they are sent

CHECK = record("checking", "checked", "turn")
"""The SEND that is checked, and whose turn it is to bring its array."""

DISTRIBUTOR = record(
    "head", "tail", "busy", "current", "slot", "turn", "given_from", "position", "planes", "held", "gave_at",
    "gave_to", arrays=RING, pushed=RING,
)  # fmt: skip
"""Arrays whose blocks are asked for by a port, and the one that is given to the streams.

It has the ``turn`` among those of the port, and takes a ``slot``. ``position`` is the beat in its plane, of which
``planes`` are left. Up to two beats that were read are ``held``. The last beat was given in the cycle ``gave_at`` to
the stream ``gave_to``.
"""

STREAM = record(
    "sending", "picking", "plane", "left", "missing", "now", "line", "sequence", "repeat",
    "valid", "flags", "sends", "sent_flags", full_from=SLOTS, free_from=SLOTS, arrays=SLOTS,
)  # fmt: skip
"""What a stream keeps, and its picker with two stages behind it. ``now`` digits of a line are left.

A slot has an array's digits from ``full_from`` on; it may be filled from ``free_from`` on. That of the number
``sending`` is sent.
"""

ENDS, LAST, FINAL = 1, 2, 4  # flags of a digit: the last of its plane, of its sum, of its array


@compiled
def _lines_of(array, sizes):
    """Give the lines of a sequence."""
    return (array.blocks * sizes.vector_beats) << array.wide


@compiled
def _place(array, sequence, number, plane, sizes):
    """Give where a stream keeps a line: that of a sequence of its own, and of a beat and plane in it."""
    within = 2 * number + plane if array.wide else number
    return sequence * _lines_of(array, sizes) + within


@compiled
def _draw(slot, array, lines, blocks, random, sizes):
    """Draw how many digits of each line of the first sequences are not zero."""
    seed(random, array.text, 0)
    for sequence in range(array.batch):
        for block in range(array.blocks):
            one = blocks[array.first_block + block]
            for beat in range(sizes.vector_beats):
                occupied = max(0, min(sizes.line_bytes, one.occupied - beat * sizes.line_bytes))
                stream, own, number = sequence // array.own, sequence % array.own, block * sizes.vector_beats + beat
                if array.wide:
                    upper = _place(array, own, number, _UPPER, sizes)
                    lines[stream, slot, upper] = count_bits(draw_bits(random, occupied, one.upper))
                lower = _place(array, own, number, _LOWER, sizes)
                lines[stream, slot, lower] = count_bits(draw_bits(random, occupied, one.threshold))


@compiled
def _copy(group, slot, array, lines, given, sizes):
    """Take what was counted in a group: [block][plane][sequence][beat]."""
    for block in range(array.blocks):
        first = given.firsts[group, array.given_number + block]
        for plane in range(1 + array.wide):
            for sequence in range(array.batch):
                for beat in range(sizes.vector_beats):
                    line = _place(array, sequence % array.own, block * sizes.vector_beats + beat, plane, sizes)
                    lines[sequence // array.own, slot, line] = given.masks[first]
                    first += 1


@compiled
def _fill_lines(group, slot, array, lines, blocks, given, random, sizes, counted):
    """Find how many digits of each line of an array are not zero."""
    used = array.own * _lines_of(array, sizes)
    for stream in range(sizes.streams):
        lines[stream, slot, :used] = 0
    if len(given.masks):
        _copy(group, slot, array, lines, given, sizes)
    else:
        _draw(slot, array, lines, blocks, random, sizes)
    seen = array.batch * _lines_of(array, sizes) * sizes.line_bytes
    nonzero = 0
    for stream in range(sizes.streams):
        for line in range(used):
            nonzero += lines[stream, slot, line]
    counted[_SEEN] += seen
    counted[_SKIPPED] += seen - nonzero


@compiled
def _check(cycle, check, queue, wakes):
    """Check SENDs one after the other; give the one that may be fetched, or -1."""
    if check.checking == 0:
        if offered(queue, cycle):
            check.checked, check.checking = queue.current, 1
            take(queue, wakes, cycle)
        return -1
    if check.checking < _CHECKED:
        check.checking += 1
        return -1
    return check.checked


@compiled
def _begin(cycle, group, engine, port, streams, lines, table, blocks, given, random, sizes, counted):
    """Take the next array, if its slot is free in all streams; give when to ask again."""
    if engine.head == engine.tail:
        return NEVER
    slot = port + sizes.sent_ports * engine.turn
    ready = max(engine.pushed[engine.head % RING] + FIFO, engine.given_from)
    for number in range(sizes.streams):
        ready = max(ready, streams[number].free_from[slot])
    if ready > cycle:
        return ready
    engine.current = engine.arrays[engine.head % RING]
    engine.head += 1
    array = table[engine.current]
    engine.busy, engine.given_from, engine.position, engine.planes = 1, cycle + 2, 0, array.blocks << array.wide
    for number in range(sizes.streams):
        streams[number].arrays[slot] = engine.current
        streams[number].free_from[slot] = NEVER
    engine.slot, engine.turn = slot, (engine.turn + 1) % (SLOTS // sizes.sent_ports)
    _fill_lines(group, slot, array, lines, blocks, given, random, sizes, counted)
    return cycle + 2


@compiled
def _give(cycle, engine, streams, array, sizes, wakes):
    """Give a beat to a stream."""
    of_stream = array.own * sizes.vector_beats
    engine.gave_at, engine.gave_to = cycle, engine.position // of_stream
    engine.position += 1
    if engine.planes == 1 and engine.position % of_stream == 0:
        one = streams[engine.position // of_stream - 1]
        one.full_from[engine.slot] = cycle + 2
        wake(wakes, EMITTER, cycle + 2)
    if engine.position == of_stream * sizes.streams:
        engine.position = 0
        engine.planes -= 1
        if engine.planes == 0:
            engine.busy, engine.given_from = 0, cycle + 2


@compiled
def _arrive(cycle, engine, fetcher, reader, table, counted):
    """Hold the beat that has been read, if there is one and room for it."""
    if engine.held == BEATS_AHEAD or not fetcher.filling or fetcher.filling_from > cycle or beat_at(reader) > cycle:
        return
    counted[_READ + table[fetcher.current // ITEM_BLOCKS].kind] += 1
    if take_beat(reader):
        fetcher.filling = 0
    engine.held += 1


@compiled
def _distribute(cycle, there, engine, port, distributors, streams, table, sizes, wakes):
    """Give the first beat that is held if one is `there`, or one of zeros where there are no sequences any more.

    Tell whether another port's is written instead: two of them have a bank.
    """
    array = table[engine.current]
    if not there and engine.position < array.batch * sizes.vector_beats:
        return False
    to = engine.position // (array.own * sizes.vector_beats)
    for other in range(port % SENT_BANKS, port, SENT_BANKS):
        if distributors[other].gave_at == cycle and distributors[other].gave_to == to:
            return True
    if engine.position < array.batch * sizes.vector_beats:
        engine.held -= 1
    _give(cycle, engine, streams, array, sizes, wakes)
    return False


@compiled
def _step_distributor(
    cycle, group, port, distributors, send, fetcher, asked, reader, memory_port, streams, lines, table, blocks, given,
    random, sizes, counted, wakes,
):  # fmt: skip
    """Ask for blocks, those of `send` too, if it is its turn, or else -1; give these to the streams.

    Give when to ask again, and whether that SEND was taken.
    """
    engine = distributors[port]
    before = (indexed.progress_of(asked, reader), fetcher.state, fetcher.filling, engine.held)
    given_before = engine.position + (engine.planes << 32)
    following = step_reader(cycle, reader, memory_port, sizes.latency)
    if engine.tail - engine.head >= ARRAYS_AHEAD:
        send = -1
    taken = walk_blocks(cycle, fetcher, send, asked, reader, table, blocks, given)
    if taken:
        engine.arrays[engine.tail % RING], engine.pushed[engine.tail % RING] = send, cycle
        engine.tail += 1
        following = cycle + 1
    if not fetcher.filling and indexed.plan_at(asked) <= cycle:
        fetcher.current, fetcher.kind = indexed.drop_plan(asked)
        fetcher.filling, fetcher.filling_from = 1, cycle + 1
    there = engine.held != 0
    _arrive(cycle, engine, fetcher, reader, table, counted)
    if not engine.busy:
        begins = _begin(cycle, group, engine, port, streams, lines, table, blocks, given, random, sizes, counted)
        following = min(following, begins)
    elif engine.given_from > cycle:
        following = min(following, engine.given_from)
    elif _distribute(cycle, there, engine, port, distributors, streams, table, sizes, wakes):
        following = cycle + 1
    now = (indexed.progress_of(asked, reader), fetcher.state, fetcher.filling, engine.held)
    if before != now or given_before != engine.position + (engine.planes << 32):
        following = cycle + 1
    return min(following, indexed.following_event(cycle, asked, reader)), taken


@compiled
def step_distributors(
    cycle, group, check, distributors, fetchers, queue, asked, readers, ports, streams, lines, table, blocks, given,
    random, sizes, counted, wakes,
):  # fmt: skip
    """Check a group's SENDs, and have each port's fetcher and distributor bring the arrays of its turns."""
    before = check.checking
    send, turn, following = _check(cycle, check, queue, wakes), check.turn, NEVER
    for port in range(sizes.sent_ports):
        again, taken = _step_distributor(
            cycle, group, port, distributors, send if port == turn else -1, fetchers[port], asked[port],
            readers[port], ports[port], streams, lines, table, blocks, given, random, sizes, counted, wakes,
        )  # fmt: skip
        following = min(following, again)
        if taken:
            check.checking, check.turn = 0, (turn + 1) % sizes.sent_ports
    wakes[FETCHER] = cycle + 1 if check.checking != before else following


@compiled
def _line(stream, array, lines, number, sizes):
    """Count the digits of a line of the sequence and plane at hand; of one behind the last there are none."""
    if number >= array.blocks * sizes.vector_beats:
        return 0
    return lines[stream.sending, _place(array, stream.sequence, number, stream.plane, sizes)]


@compiled
def _count_plane(stream, array, lines, sizes):
    """Count the digits of the sequence and plane at hand."""
    count = 0
    for number in range(array.blocks * sizes.vector_beats):
        count += _line(stream, array, lines, number, sizes)
    return count


@compiled
def _aim(stream, array, lines, sizes):
    """Turn to a sequence and plane."""
    stream.left = _count_plane(stream, array, lines, sizes)
    stream.missing = stream.left == 0
    if stream.plane == _UPPER and (not array.wide or stream.missing):
        stream.plane = _LOWER
        return
    stream.picking, stream.line = 1, 0
    stream.now = _line(stream, array, lines, 0, sizes)


@compiled
def _pick(cycle, stream, array, flow, lines, sizes, wakes):
    """Pick a digit, or pass a line without one; tell whether there is a digit."""
    if stream.now == 0 and not stream.missing:
        stream.line += 1
        stream.now = _line(stream, array, lines, stream.line, sizes)
        return False
    if not flow:
        return True
    ends = stream.left <= 1
    last = ends and stream.plane == _LOWER
    swept = last and stream.sequence + 1 == array.own
    final = swept and stream.repeat + 1 == array.repeats
    stream.flags = (ENDS if ends else 0) | (LAST if last else 0) | (FINAL if final else 0)
    stream.left -= 1
    stream.now -= 1
    if stream.now <= 0:
        stream.line += 1
        stream.now = _line(stream, array, lines, stream.line, sizes)
    if ends:
        stream.picking = 0
        again = _UPPER if array.wide or final else _LOWER
        stream.plane = _LOWER if stream.plane == _UPPER else again
    if last:
        stream.sequence += 1
    if swept:
        stream.sequence = 0
        stream.repeat = 0 if final else stream.repeat + 1
    if final:
        stream.free_from[stream.sending], stream.full_from[stream.sending] = cycle + 1, NEVER
        stream.sending = (stream.sending + 1) % SLOTS
        wake(wakes, FETCHER, cycle + 1)
    return True


@compiled
def _step_stream(cycle, stream, lines, table, scalars, sizes, wakes):
    """Send a digit, pick the next; give when to ask again."""
    room = stream.sends and all_show_room(scalars, sizes.scalar_fifo, cycle)
    if room:
        give_scalar(cycle, scalars, 0, stream.sent_flags, wakes)
    flow = not stream.sends or room
    if flow:
        stream.sends, stream.sent_flags = stream.valid, stream.flags
        stream.valid = 0
    moves = flow
    full = stream.full_from[stream.sending]
    if stream.picking:
        array = table[stream.arrays[stream.sending]]
        moves = moves or (stream.now == 0 and not stream.missing)
        there = _pick(cycle, stream, array, flow, lines, sizes, wakes[0])
        if flow:
            stream.valid = there
    elif full <= cycle:
        moves = True
        _aim(stream, table[stream.arrays[stream.sending]], lines, sizes)
    if not moves:
        return max(room_at(scalars, sizes.scalar_fifo), cycle + 1)
    if stream.sends or stream.valid or stream.picking:
        return cycle + 1
    full = stream.full_from[stream.sending]
    return NEVER if full == NEVER else max(full, cycle + 1)


@compiled
def step_senders(cycle, channel, streams, lines, table, scalars, sizes, wakes):
    """Send a digit of each stream of a group, whose first one is `channel`; pick the next digits."""
    following, every = NEVER, len(scalars) // sizes.streams
    for number in range(sizes.streams):
        first = number * every + channel
        of_stream = scalars[first : first + len(wakes)]
        again = _step_stream(cycle, streams[number], lines[number], table, of_stream, sizes, wakes)
        following = min(following, again)
    wakes[0, EMITTER] = following
