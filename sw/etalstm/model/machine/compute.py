"""A channel's PEs: the VECTOR engine, the MAC engine with its FIFO of scalars, and what the PEs do in each cycle.

See etalstm_hw.compute.elementwise, elements and operands, etalstm_hw.compute.mac, and for the kinds of cycles
etalstm_hw.compute.compute and etalstm_hw.machine.channel, `_classify`.
"""

from etalstm.model.machine import latencies, state
from etalstm.model.machine.latencies import BUFFERED_FIFO, MAC_SUM
from etalstm.model.machine.products import old_sums_until
from etalstm.model.machine.queues import POSITIONS, TIMES, completed_at, met_at, offered, record_pop, take, there_at
from etalstm.model.machine.state import NEVER, RING, compiled, complete, record, wake
from etalstm_hw.config import MOST_BANKS
from etalstm_hw.contract import OF_BYTES, OF_ONE_OPERAND, SLOTS, Counter, Cycle, Source, VectorOp
from etalstm_hw.contract.integers import WORD_BYTES

_ACTIVATION = int(Counter.ACTIVATION)
WRITES = 128  # cycles ahead that writes of the scratch memory are known
SCRATCH, PARAMETER, SUMS = int(Source.SCRATCH), int(Source.PARAMETER), int(Source.SUMS)
MULTIPLY, SIGMOID, TANH, PACK = (int(getattr(VectorOp, name)) for name in ("MULTIPLY", "SIGMOID", "TANH", "PACK"))
OF_INTEGERS = int(VectorOp.CONVERT)  # the first one
_OF_BYTES = tuple(int(op) for op in OF_BYTES)
_LONE = tuple(int(op) for op in OF_ONE_OPERAND)

VECTOR_ENGINE = record(
    "valid", "op", "a", "b", "keeps", "after", "end", "inner", "outer", "a_bank", "b_bank", "d_bank", "needs_b",
    "has_b", "has_parameter", "last_write", "units_free", "pe_at", "b_read_at", "sums_at", "waiting_at", "stream",
    writes=WRITES, written_banks=WRITES, bank_read_at=MOST_BANKS,
)  # fmt: skip
"""The element at the output, its operands read so far, and until when issued elements keep ports and units busy.

``keeps``: a byte of a word is made, which is not written yet. ``needs_b``: b is a word of the scratch memory's only
copy, which its issue may have to wait for.
"""


@compiled
def slot(cycle):
    """Give the number of a cycle's slot, its bits reversed: see etalstm_hw.compute.slots."""
    number, reverse = cycle % SLOTS, 0
    for _ in range(5):
        reverse = reverse << 1 | number & 1
        number >>= 1
    return reverse


@compiled
def _is_activation(engine):
    """Tell whether the activation units execute the element: they pack, too, and do what there is with integers."""
    return engine.op == SIGMOID or engine.op == TANH or engine.op == PACK or engine.op >= OF_INTEGERS


@compiled
def writes_to(cycle, engine, bank):
    """Tell whether a result is written to a bank in a cycle."""
    return engine.writes[cycle % WRITES] == cycle and engine.written_banks[cycle % WRITES] == bank


@compiled
def _read_b(cycle, engine):
    """Read operand b from its bank."""
    engine.has_b = 1
    engine.b_read_at = engine.bank_read_at[engine.b_bank] = cycle


@compiled
def _blocked_until(cycle, engine, sizes):
    """Read ahead what the element needs; give the first cycle in which it may be issued, as far as the PEs and the port
    of the sums let it.
    """
    alone = engine.op in _LONE
    first = cycle
    if engine.after and cycle <= engine.last_write:
        return engine.last_write + 1
    if engine.needs_b and not engine.has_b:
        _read_b(cycle, engine)
        if engine.a == SCRATCH and engine.a_bank == engine.b_bank:
            first = cycle + 1
    if not alone and engine.a == PARAMETER and engine.b == PARAMETER and not engine.has_parameter:
        engine.has_parameter = 1
        first = cycle + 1
    if _is_activation(engine):
        return max(first, engine.units_free, engine.last_write - latencies.WRITE_ACTIVATION + 1)
    earliest = latencies.WRITE_PRODUCT if engine.op == MULTIPLY else latencies.WRITE_SUM
    return max(first, engine.last_write - earliest + 1)


@compiled
def _issue(cycle, engine, sizes, done, counted, wakes):
    """Note what the element occupies, and its instruction's completion with the last one."""
    if _is_activation(engine):
        first, last = cycle + latencies.WRITE_ACTIVATION, cycle + latencies.ACTIVATION + 1 + sizes.banks
        engine.units_free = cycle + sizes.banks
        counted[_ACTIVATION] += sizes.lanes
    else:
        first = last = cycle + (latencies.WRITE_PRODUCT if engine.op == MULTIPLY else latencies.WRITE_SUM)
        engine.pe_at = cycle
    for write in range(first, first if engine.keeps else last + 1):
        engine.writes[write % WRITES] = write
        engine.written_banks[write % WRITES] = engine.d_bank
    engine.last_write = last
    if engine.a == SCRATCH:
        engine.bank_read_at[engine.a_bank] = cycle
    elif engine.a == SUMS:
        engine.sums_at = cycle
    engine.has_parameter = 0
    if engine.end:
        complete(done, wakes, state.VECTOR, last)


@compiled
def _find_b(cycle, engine, instruction, sizes):
    """Find out where the next element lies and goes to; read b with the element before, or keep that one's b."""
    i, outer, inner = instruction, engine.outer, engine.inner
    engine.a_bank = (i.lane_bank + outer * i.outer_bank + inner * i.inner_bank) % MOST_BANKS
    engine.b_bank = (i.b_bank + outer * i.b_outer_bank + inner * i.b_inner_bank) % MOST_BANKS
    engine.d_bank = (i.d_bank + outer * i.d_outer_bank + inner * i.d_inner_bank) % MOST_BANKS
    engine.needs_b = sizes.scratch_reads == 1 and engine.b == SCRATCH and engine.op not in _LONE
    engine.has_b = i.b_stays and inner != 0
    free = engine.b_read_at != cycle and engine.bank_read_at[engine.b_bank] != cycle
    if engine.needs_b and not engine.has_b and not engine.after and free:
        _read_b(cycle, engine)


@compiled
def _keeps_others_out(cycle, engine, queue, table, sizes):
    """Keep reads from outside from the scratch memory, if the next element's b would be read with the one at hand.

    That one waits for nothing but the port of the sums.
    """
    if sizes.scratch_reads != 1 or engine.b_read_at == cycle or not offered(queue, cycle):
        return
    i = table[queue.current]
    begins, stays = engine.inner == 0, i.b_stays and engine.inner != 0
    after = i.serial and begins and engine.outer != 0
    if i.b_source == SCRATCH and i.op not in _LONE and not after and not stays:
        engine.b_read_at = cycle


@compiled
def _advance(cycle, engine, instruction, sizes):
    """Put the instruction's next element to the output, and read its b if it can be; tell whether it is the last."""
    engine.valid = 1
    engine.op, engine.a, engine.b = instruction.op, instruction.a_source, instruction.b_source
    engine.stream = instruction.stream
    engine.after = instruction.serial and engine.inner == 0 and engine.outer != 0
    _find_b(cycle, engine, instruction, sizes)
    whole = engine.inner % WORD_BYTES == WORD_BYTES - 1
    engine.inner += 1
    engine.keeps = engine.op in _OF_BYTES and not whole and engine.inner != instruction.inner
    if engine.inner == instruction.inner:
        engine.inner = 0
        engine.outer += 1
    engine.end = engine.outer == instruction.outer
    if engine.end:
        engine.outer = 0
    return engine.end


@compiled
def step_vector(cycle, engine, products, queue, table, sizes, done, counted, wakes):
    """Issue the element at the output if nothing keeps it, and bring the next.

    ``products`` are the engines of products, where these are integers.
    """
    issued, following = False, cycle + 1
    if engine.valid:
        free = _blocked_until(cycle, engine, sizes)
        if free > cycle:
            following = free
        else:
            shared = sizes.elementwise + sizes.forward + sizes.backward > 0
            has_pes = _is_activation(engine) or not shared or slot(cycle) < sizes.elementwise
            of_sums = sizes.streams and engine.a == SUMS
            has_sums = not of_sums or old_sums_until(cycle, products[engine.stream], sizes.tile_sums) <= cycle
            issued = has_pes and has_sums
            if issued:
                _issue(cycle, engine, sizes, done, counted, wakes)
            elif has_sums:
                engine.waiting_at = cycle
            elif has_pes:
                _keeps_others_out(cycle, engine, queue, table, sizes)
    if not engine.valid or issued:
        engine.valid = 0
        if offered(queue, cycle):
            if _advance(cycle, engine, table[queue.current], sizes):
                take(queue, wakes, cycle)
        else:
            following = NEVER
    wakes[state.VECTORS] = following


BEGINS, EMPTY, NULL, LAST = 1, 2, 4, 8  # flags of a scalar

SCALARS = record(*POSITIONS, inner=RING, marks=RING, **TIMES)  # scalars on their way to the channels

MAC_ENGINE = record("valid", "mac", "begins", "address", "backward", "end", "tile", "issued_at", "since")
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
        taken = vector.sums_at == cycle or store.sums_at == cycle
        if not engine.begins and (taken or cycle - sums[engine.address] <= MAC_SUM):
            return False
        if not _may_use_pes(cycle, engine, vector, sizes):
            return False
        sums[engine.address] = cycle
        engine.issued_at = cycle
    if engine.end:
        complete(done, wakes, state.MAC, cycle + MAC_SUM)
    return True


@compiled
def _make_step(cycle, engine, queue, scalars, instruction, wakes):
    """Combine instruction and scalar; take them with the last step that they have."""
    entry = scalars.head % RING
    flags = scalars.marks[entry]
    null = flags & NULL != 0
    last_tile = null or engine.tile + 1 == instruction.tiles
    engine.mac = not null
    engine.begins = flags & BEGINS != 0
    engine.backward = instruction.backward
    engine.address = instruction.sums + scalars.inner[entry] * instruction.tiles + engine.tile
    engine.end = flags & LAST != 0 and last_tile
    engine.valid, engine.since = 1, cycle + 1
    engine.tile = 0 if last_tile else engine.tile + 1
    if last_tile:
        record_pop(scalars, cycle)
        wake(wakes, state.EMITTER, cycle + latencies.NEWS + 1)
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
    wakes[state.MACS] = following


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


_MAC, _ELEMENTWISE, _SUMS_PORT, _HAZARD, _EMPTY = (int(kind) for kind in list(Cycle)[:5])
_WAIT_LOAD, _WAIT_VECTOR, _WAIT_STORE, _NO_MAC, _IDLE, _SHARE = (int(kind) for kind in list(Cycle)[5:])


@compiled
def kind(cycle, channel, m, table, sizes):
    """Say what a channel's PEs did in a cycle, or why they did nothing."""
    engine, vector = m.mac[channel], m.vector[channel]
    if engine.issued_at == cycle:
        return _MAC
    if vector.pe_at == cycle:
        return _ELEMENTWISE
    return idle_kind(cycle, channel, m, table, sizes)


@compiled
def idle_kind(cycle, channel, m, table, sizes):
    """Say why a channel's PEs did nothing in a cycle."""
    engine, vector = m.mac[channel], m.vector[channel]
    if vector.waiting_at == cycle:
        return _SHARE
    if engine.valid and engine.mac and engine.since <= cycle:
        if not engine.begins and (vector.sums_at == cycle or m.store[channel].sums_at == cycle):
            return _SUMS_PORT
        if not engine.begins and cycle - m.sums[channel, engine.address] <= MAC_SUM:
            return _HAZARD
        return _SHARE
    queue, done = m.queues[channel, state.MAC], m.done[channel]
    if engine.valid or (queue.current >= 0 and queue.valid_from <= cycle):
        return _EMPTY
    if queue.head < queue.tail and there_at(queue) <= cycle:
        instruction = table[queue.numbers[queue.head % RING]]
        if completed_at(done, state.LOAD, instruction.wait_load) + 1 > cycle:
            return _WAIT_LOAD
        if completed_at(done, state.VECTOR, instruction.wait_vector) + 1 > cycle:
            return _WAIT_VECTOR
        if met_at(instruction, m.done, channel) > cycle:
            return _WAIT_STORE
    return _NO_MAC if _busy(cycle, channel, m) else _IDLE


@compiled
def _busy(cycle, channel, m):
    """Tell whether anything is left to do in the channel."""
    for number in range(channel, len(m.scalars), len(m.mac)):
        if m.scalars[number].head < m.scalars[number].tail:
            return True
    for engine in (state.LOAD, state.MAC, state.VECTOR, state.STORE):
        queue, done = m.queues[channel, engine], m.done[channel, engine]
        if queue.current >= 0 or queue.head < queue.tail:
            return True
        pulse = 0 if engine in (state.MAC, state.VECTOR) else 1
        if done.count and done.times[(done.count - 1) % state.DONE_RING] - pulse >= cycle:
            return True
    return _transfers(channel, m)


@compiled
def _transfers(channel, m):
    """Tell whether LOAD or STORE have taken an instruction that is not completed."""
    store, asked, writer = m.store[channel], m.asked[len(m.fetcher) + channel], m.writer[channel]
    if m.load[channel].active or asked.head < asked.tail or asked.wait_head < asked.wait_tail:
        return True
    if store.scatter_left or store.vectors_left or store.beats_head < store.beats_tail or m.log[channel].state:
        return True
    return writer.left != 0 or writer.landed < writer.tail
