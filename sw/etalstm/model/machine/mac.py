"""The MAC engine and the FIFO of scalars in front of it: see etalstm_hw.compute.mac."""

from etalstm.model.machine.latencies import BUFFERED_FIFO, MAC_SUM, NEWS
from etalstm.model.machine.queues import PLACES, TIMES, offered, record_pop, take
from etalstm.model.machine.state import EMITTER, MAC, MACS, NEVER, RING, compiled, complete, record, wake
from etalstm.model.machine.vector import slot

FIRST, EMPTY, NULL, LAST = 1, 2, 4, 8  # flags of a scalar

SCALARS = record(*PLACES, inner=RING, marks=RING, **TIMES)
"""Scalars on their way to the channels."""

ENGINE = record("valid", "mac", "begins", "address", "backward", "end", "tile", "issued_at", "since")
"""The step at hand, and the number of the next tile."""


@compiled
def _scalar_there(scalars, cycle):
    return scalars.tail > scalars.head and scalars.pushed[scalars.head % RING] + BUFFERED_FIFO <= cycle


@compiled
def _may_use_pes(cycle, engine, vector, sizes):
    if vector.pe_at == cycle:
        return False
    if sizes.elementwise + sizes.forward + sizes.backward == 0:
        return True
    number = slot(cycle) - sizes.elementwise
    return 0 <= number < (sizes.backward if engine.backward else sizes.forward)


@compiled
def _leave(cycle, engine, vector, store, sums, sizes, done, wakes):
    """Tell whether the step at hand leaves in this cycle, which issues its MAC if it has one."""
    if engine.mac:
        taken = vector.queue_at == cycle or store.queue_at == cycle
        if not engine.begins and (taken or cycle - sums[engine.address] <= MAC_SUM):
            return False
        if not _may_use_pes(cycle, engine, vector, sizes):
            return False
        sums[engine.address] = cycle
        engine.issued_at = cycle
    if engine.end:
        complete(done, wakes, MAC, cycle + MAC_SUM)
    return True


@compiled
def _make_step(cycle, engine, queue, scalars, instruction, wakes):
    """Combine instruction and scalar; take them with the last step that they have."""
    place = scalars.head % RING
    flags = scalars.marks[place]
    null = flags & NULL != 0
    last_tile = null or engine.tile + 1 == instruction.tiles
    engine.mac = not null
    engine.begins = flags & FIRST != 0
    engine.backward = instruction.backward
    engine.address = instruction.queue + scalars.inner[place] * instruction.tiles + engine.tile
    engine.end = flags & LAST != 0 and last_tile
    engine.valid, engine.since = 1, cycle + 1
    engine.tile = 0 if last_tile else engine.tile + 1
    if last_tile:
        record_pop(scalars, cycle)
        wake(wakes, EMITTER, cycle + NEWS + 1)
    if engine.end:
        take(queue, wakes, cycle)


@compiled
def step_mac(cycle, engine, queue, scalars, table, vector, store, sums, sizes, done, wakes):
    """Issue the step at hand and make the next one."""
    leaves = engine.valid and _leave(cycle, engine, vector, store, sums, sizes, done, wakes)
    following = cycle + 1
    if not engine.valid or leaves:
        engine.valid = 0
        if offered(queue, cycle) and _scalar_there(scalars, cycle):
            _make_step(cycle, engine, queue, scalars, table[queue.current], wakes)
        else:
            following = NEVER
            if offered(queue, cycle) and scalars.tail > scalars.head:
                following = scalars.pushed[scalars.head % RING] + BUFFERED_FIFO
    wakes[MACS] = following


@compiled
def coming_tiles(cycle, until, engine, queue, table, sums, sizes):
    """Count the tiles of the scalar at hand that can follow in the cycles behind this one and before `until`.

    The last two tiles are left to :func:`step_mac`: with the making of the last one the scalar is taken.
    """
    if not (engine.valid and engine.mac and engine.tile) or sizes.elementwise + sizes.forward + sizes.backward:
        return 0
    most = min(until - cycle - 1, table[queue.current].tiles - 1 - engine.tile)
    if engine.begins:
        return max(most, 0)
    tiles = 0
    while tiles < most and cycle + 1 + tiles - sums[engine.address + tiles] > MAC_SUM:
        tiles += 1
    return tiles


@compiled
def pass_tiles(cycle, tiles, engine, sums):
    """Issue so many tiles of the scalar at hand in the cycles behind this one."""
    for tile in range(tiles):
        sums[engine.address + tile] = cycle + 1 + tile
    engine.address += tiles
    engine.tile += tiles
