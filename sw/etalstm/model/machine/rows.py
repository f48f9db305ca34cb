"""LOAD_ROWS as LOADs of the rows that are needed: see etalstm_hw.program.rows and etalstm_hw.program.rowmaps."""

from etalstm.model.machine.axi import send_burst
from etalstm.model.machine.latencies import ADDRESS, BARRIER, BUFFERED_FIFO, BURST, MAP_REQUEST
from etalstm.model.machine.masks import draw_bits, seed
from etalstm.model.machine.queues import has_room, push, stored_by_all
from etalstm.model.machine.state import BURST_BEATS, CAST, FETCH, LOAD, NEVER, compiled, record
from etalstm_hw.contract import MOST_GATES, Counter, Opcode, Traffic

LOAD_CODE = int(Opcode.LOAD)
_SEEN, _SKIPPED = int(Counter.ROWS_SEEN), int(Counter.ROWS_SKIPPED)
_MAP_BEATS = int(Counter.READ_BEATS) + int(Traffic.DELTAS)
PASS, TAKE, LOOK, END = range(4)
UNDER_WAY = 128  # instructions of one engine in flight: more than its queue and its open accesses can hold
INSTANCES = (CAST + 1) * UNDER_WAY
"""Slots for the program's instructions in flight. Each engine has slots of its own. So a long MAC keeps its slot
while other engines go through thousands of instructions."""
OFFERED = 256  # LOADs that a LOAD_ROWS has become and that are under way: they must not take the slots of the others

ROWS = record(
    "state", "tile", "row", "rows", "left", "run", "length", "found", "ended", "map_at", "unasked", "asked", "gone",
    "first", "base", "needed", "offered", "asked_tile", "burst_from", "end", "end_before",
)  # fmt: skip
"""The block whose map is looked at, its next row, and the run of rows that was found last.

``map_at`` is the cycle in which the next block's map is there. Maps of ``unasked`` blocks have not been asked for. The
last one that has was asked for in cycle ``asked``, and its first beat is there in cycle ``first``. Two maps of groups
are asked for or wait at once: after ``gone`` there is room for another. ``needed`` has a bit for each row of a lane.
``asked_tile`` is the tile of the next map to ask for. A burst of maps begins in cycle ``burst_from`` at the earliest,
and not before ``end_before``, when the last but one has ended. The last one ends in cycle ``end``.
"""


@compiled
def _rows_of_a_lane(instance):
    """Give how many rows a lane has, and vectors a map."""
    return 1 if instance.single else MOST_GATES


@compiled
def offers_rows(rows):
    """Tell whether rows are looked at, and wait for nothing but room in the LOAD queue."""
    return rows.state == LOOK or rows.state == END


@compiled
def supplied_at(rows, instance, done):
    """Give the cycle in which what a LOAD_ROWS waits for is stored, then the one in which its next map is there."""
    if rows.state == TAKE:
        return rows.map_at
    stored = stored_by_all(done, instance.wait_store)
    return stored + BARRIER if stored < NEVER else NEVER


@compiled
def _begin(cycle, rows, instance, m, sizes):
    """Begin with the first block."""
    of_lane, left, tile = _rows_of_a_lane(instance), instance.outer, instance.tile
    rows.tile, rows.left, rows.base, rows.unasked = tile, left, 0, 0
    while left > 0:
        last = tile == instance.tiles_per_channel - 1
        left -= of_lane * (instance.last_lanes if last else instance.lanes)
        tile = 0 if last else tile + 1
        rows.unasked += 1
    rows.asked = rows.gone = cycle
    rows.asked_tile = instance.tile
    rows.run, rows.length, rows.found, rows.needed = 0, 1, 0, -1
    if sizes.batch_groups == 1:
        rows.unasked -= 1
        _ask(rows, instance, m, sizes)
        _next_tile(rows, instance)
    _next_map(cycle, rows, instance, m, sizes)


@compiled
def _ask(rows, instance, m, sizes):
    """Ask for a map, at the port of the program's fetch; some take two bursts."""
    rows.asked = max(rows.asked + MAP_REQUEST, rows.gone + 1)
    beats, port = _rows_of_a_lane(instance) * sizes.vector_beats, m.ports[FETCH]
    beat, left, begun = instance.map + rows.asked_tile * beats, beats, rows.asked + BURST
    while left:
        length = min(BURST_BEATS - beat % BURST_BEATS, left)
        begun = max(begun, rows.burst_from, rows.end_before)
        start = send_burst(begun + ADDRESS, port, length, sizes.latency)
        rows.burst_from = max(begun + 1, port.accepted - port.hops)
        rows.end_before, rows.end = rows.end, start + length
        beat += length
        left -= length
    rows.first = rows.end - beats + BUFFERED_FIFO


@compiled
def _next_tile(rows, instance):
    rows.asked_tile = 0 if rows.asked_tile == instance.tiles_per_channel - 1 else rows.asked_tile + 1


@compiled
def _next_map(cycle, rows, instance, m, sizes):
    """Find when the next block's map is there, if the one before it is taken in a cycle; ask for those that follow."""
    beats, groups = _rows_of_a_lane(instance) * sizes.vector_beats, sizes.batch_groups
    rows.map_at = cycle
    if groups == 1:
        rows.map_at = max(rows.first, cycle + 1) + beats
        rows.gone = cycle
    if rows.unasked:
        rows.unasked -= 1
        for _ in range(groups):
            _ask(rows, instance, m, sizes)
            if groups > 1:
                rows.gone = rows.map_at
                rows.map_at = max(rows.first, rows.map_at + 1) + beats
        _next_tile(rows, instance)


@compiled
def _take(cycle, rows, instance, m, sizes):
    """Take a block's map."""
    last = rows.tile == instance.tiles_per_channel - 1
    rows.rows = _rows_of_a_lane(instance) * (instance.last_lanes if last else instance.lanes)
    rows.tile = 0 if last else rows.tile + 1
    rows.state, rows.row, rows.ended = LOOK, 0, 1
    m.counted[_MAP_BEATS] += sizes.groups * _rows_of_a_lane(instance) * sizes.vector_beats
    _next_map(cycle, rows, instance, m, sizes)


@compiled
def _offer(cycle, rows, instance, m, more, sizes, wakes):
    """Give the run of rows that was found to the LOAD queue; tell whether it was taken."""
    if not has_room(m.queues, LOAD, sizes.instruction_queue, cycle):
        return False
    engine = m.sequencer[0]
    slot = INSTANCES + rows.offered % OFFERED
    rows.offered += 1
    m.instances[slot] = m.instances[engine.out_slot]
    load = m.instances[slot]
    load.opcode, load.more, load.outer = LOAD_CODE, more, rows.length
    beats = load.inner * sizes.vector_beats
    load.address += rows.run * beats
    load.beats = rows.length * beats
    push(m.queues, wakes, slot, LOAD, cycle, sizes.modelled)
    engine.sent_at = cycle
    return True


@compiled
def _look(cycle, rows, instance, m, given, sizes, wakes):
    """Look at a row, or at a lane's four that are not needed."""
    of_lane = _rows_of_a_lane(instance)
    gate = rows.row % of_lane
    if gate == 0 and rows.needed < 0:
        if len(given.rows):
            rows.needed = given.rows[m.sequencer[0].row_lanes]
        else:
            seed(m.random, instance.text, rows.base + rows.row)
            rows.needed = draw_bits(m.random, of_lane, instance.row_threshold)
        m.sequencer[0].row_lanes += 1
    left = rows.needed >> gate
    begins = left & 1 and rows.ended
    if begins and rows.found and not _offer(cycle, rows, instance, m, 1, sizes, wakes):
        return False
    step = of_lane if gate == 0 and left == 0 else 1
    m.counted[_SEEN] += step
    m.counted[_SKIPPED] += 0 if left & 1 else step
    if begins:
        rows.run, rows.length, rows.found = rows.base + rows.row, 1, 1
    elif left & 1:
        rows.length += 1
    rows.ended = not left & 1
    rows.row += step
    if rows.row % of_lane == 0:
        rows.needed = -1
    return True


@compiled
def step_rows(cycle, m, given, sizes, wakes):
    """Do a cycle's work on the LOAD_ROWS at the output; tell whether anything moved, and whether it leaves."""
    rows, engine = m.rows[0], m.sequencer[0]
    instance = m.instances[engine.out_slot]
    if rows.state == PASS:
        if instance.wait_store and supplied_at(rows, instance, m.done) > cycle:
            return False, False
        _begin(cycle, rows, instance, m, sizes)
        rows.state = TAKE
    elif rows.state == TAKE:
        if rows.map_at <= cycle:
            _take(cycle, rows, instance, m, sizes)
    elif rows.state == LOOK:
        if not _look(cycle, rows, instance, m, given, sizes, wakes):
            return False, False
        if rows.row == rows.rows:
            rows.base += rows.rows
            rows.left -= rows.rows
            rows.state = END if rows.left <= 0 else TAKE
    elif _offer(cycle, rows, instance, m, 0, sizes, wakes):
        rows.state = PASS
        return True, True
    else:
        return False, False
    return True, False
