"""Running the machine: parts that act cycle by cycle, and cycles left out in which none does.

Long stretches of MACs are left out in closed form. While nothing but the broadcaster and the MAC engines act, the FIFO
of scalars is full, and no sum is needed again soon, each scalar takes a cycle for each of its tiles. Whole patches of
scalars are left out then, and time goes on by what they take: all else stays as it is, later.
"""

from pathlib import Path

from etalstm.host.machine_code import keep_code
from etalstm.model.machine import (
    axi,
    compute,
    emitter,
    fetcher,
    load,
    products,
    queues,
    senders,
    sequencer,
    state,
    store,
)
from etalstm.model.machine.compute import idle_kind, kind
from etalstm.model.machine.latencies import DRAIN, MAC_SUM, QUIET
from etalstm.model.machine.masks import count_bits
from etalstm.model.machine.queues import offered
from etalstm.model.machine.state import CAST, LOAD, MAC, NEVER, RING, STORE, VECTOR, compiled, entry_point
from etalstm_hw import contract
from etalstm_hw.contract import Counter, Cycle, distance
from etalstm_hw.contract.distance import ROUND_TRIP, STAGES

_LEAST = 16  # scalars that are worth it
_MARGIN = 8  # scalars that are gone through before something else happens


@compiled
def others(wakes):
    """Give the next cycle in which a part other than the broadcaster's emitter and the MAC engine acts."""
    soonest = NEVER
    for channel in range(len(wakes)):
        for part in range(state.PARTS):
            if part != state.MACS and part != state.EMITTER:
                soonest = min(soonest, wakes[channel, part])
    return soonest


@compiled
def _is_steady(engine, bank, scalars, tiles, sizes):
    """Tell whether scalars pass as fast as the MAC engine takes them, and those that wait are of the same CAST."""
    number = engine.rest_bank
    if not (engine.rest and engine.walking and engine.asked) or engine.rest_null or engine.asked_null:
        return False
    if engine.asked_bank != number or engine.walk_bank != number or engine.sweeping or engine.fresh[number]:
        return False
    if engine.remaining + _MARGIN > bank.nonzero:  # the stages behind the pick may still belong to the block before
        return False
    dense = bank.nonzero * 10 >= bank.wanted * 9
    repeats = bank.sums * tiles > 2 * MAC_SUM
    waiting = 0  # in the channel that is behind the others
    for channel in range(len(scalars)):
        waiting = max(waiting, scalars[channel].tail - scalars[channel].head)
        for number in range(scalars[channel].head, scalars[channel].tail):
            if scalars[channel].marks[number % RING] & compute.LAST:
                return False
    return dense and repeats and engine.count == bank.sums and waiting >= sizes.scalar_fifo


@compiled
def skip_scalars(room, engine, banks, masks, scalars, tiles, sizes):
    """Leave out patches of the block at hand whose scalars fit into `room` cycles; give how many scalars they have."""
    bank = banks[engine.rest_bank]
    most = min(room // tiles, engine.remaining) - _MARGIN
    if most < _LEAST or not _is_steady(engine, bank, scalars, tiles, sizes):
        return 0
    skipped, patch, ahead = 0, engine.asked_patch, engine.walk_patch - engine.asked_patch
    while patch + ahead < bank.patches - 1:
        count = count_bits(masks[engine.rest_bank, patch])
        if skipped + count > most:
            break
        skipped += count
        patch += 1
    engine.asked_patch, engine.walk_patch = patch, patch + ahead
    engine.remaining -= skipped
    return skipped


@compiled
def shift(cycle, cycles, scalars, sums, wakes):
    """Delay what the emitter and the MAC engines do, and have done just before `cycle`, by so many cycles."""
    for channel in range(len(wakes)):
        for entry in range(RING):
            scalars[channel].pushed[entry] += cycles
            scalars[channel].popped[entry] += cycles
        for address in range(sums.shape[1]):
            if sums[channel, address] >= cycle - 2 * MAC_SUM:
                sums[channel, address] += cycles
        for part in (state.EMITTER, state.MACS):
            if wakes[channel, part] < NEVER:
                wakes[channel, part] += cycles


AT_BOUNDARY, ENDED, STUCK = range(3)
"""Why :func:`run` came back: a section of the program begins, its end was reached, nothing happens any more."""

_CYCLES, _KINDS, _PHASE = int(Counter.CYCLES), int(Counter.CYCLE_KINDS), int(Counter.MAC_PHASE)
_MAC = int(Cycle.MAC)
_MOVED = int(Counter.SCALARS_SEEN)  # the first of the counters that stand still with the machine
_STRETCH = 64  # cycles without anything but MACs that are worth a look
_PATIENCE = 1 << 18  # turns of `run` without any progress before it gives up

keep_code(Path(__file__).parent.rglob("*.py"), (*contract.PARTS, distance))


@compiled
def _soonest(wakes, part):
    """Give the next cycle in which a part has something to do, in any channel."""
    soonest = NEVER
    for channel in range(len(wakes)):
        soonest = min(soonest, wakes[channel, part])
    return soonest


@compiled
def _turn(cycle, wakes, part):
    """Tell whether a part that exists once has something to do. If so its wake is cleared: the part sets the next
    itself.
    """
    if _soonest(wakes, part) > cycle:
        return False
    for channel in range(len(wakes)):
        wakes[channel, part] = NEVER
    return True


@compiled
def step(cycle, m, p, sizes):
    """Ask every part that has something to do."""
    if _turn(cycle, m.wakes, state.SEQUENCER):
        sequencer.step_sequencer(cycle, m, p, sizes)
    for group in range(sizes.groups):
        _step_group(cycle, group, m, p, sizes)
    for port in range(len(m.read_port)):
        _step_port(cycle, port, m, sizes)
    for channel in range(len(m.mac)):
        _step_channel(cycle, channel, m, p, sizes)


@compiled
def _step_group(cycle, group, m, p, sizes):
    """Ask those parts that a group has once."""
    first, last = group * sizes.modelled, (group + 1) * sizes.modelled
    wakes, scalars = m.wakes[first:last], m.scalars[first:last]
    banks, masks, values = m.banks[group], m.masks[group], m.values[group]
    if sizes.streams:
        _step_senders(cycle, group, m, p, sizes)
    elif _turn(cycle, wakes, state.FETCHER):
        fetcher.step_fetcher(
            cycle, m.fetcher[group], m.queues[first, CAST], m.asked[group], m.readers[1 + group], m.ports[1 + group],
            m.decompressors[group], m.instances, p.blocks, banks, masks, values, p, m.random, sizes, m.counted,
            wakes[0],
        )  # fmt: skip
    if not sizes.streams and _turn(cycle, wakes, state.EMITTER):
        emitter.step_emitter(
            cycle, m.emitter[group], banks, masks, values, scalars, m.begun[group], m.fetcher[group], sizes, wakes
        )


@compiled
def _step_port(cycle, port, m, sizes):
    """Ask those parts that the channels at a memory port have once."""
    first, last = port * sizes.managers, (port + 1) * sizes.managers
    wakes = m.wakes[first:last]
    if _turn(cycle, wakes, state.PORT_READS):
        readers = m.readers[1 + sizes.fetchers + first : 1 + sizes.fetchers + last]
        axi.step_read_port(cycle, m.read_port[port], readers, sizes.outstanding, sizes.latency, wakes)
    if _turn(cycle, wakes, state.PORT_WRITES):
        writers, done = m.writer[first:last], m.done[first:last]
        axi.step_write_port(cycle, m.write_port[port], writers, done, wakes, m.wakes, sizes.latency)


@compiled
def _step_senders(cycle, group, m, p, sizes):
    """Ask those parts that send a group's digits."""
    first, last, port = group * sizes.modelled, (group + 1) * sizes.modelled, group * sizes.sent_ports
    of_group, wakes = slice(group * sizes.streams, (group + 1) * sizes.streams), m.wakes[first:last]
    streams, lines = m.streams[of_group], m.lines[of_group]
    if _turn(cycle, wakes, state.FETCHER):
        senders.step_distributors(
            cycle, group, m.check[group], m.distributors[port:], m.fetcher[port:], m.queues[first, CAST],
            m.asked[port:], m.readers[1 + port :], m.ports[1 + port :], streams, lines, m.instances, p.blocks, p,
            m.random, sizes, m.counted, wakes[0],
        )  # fmt: skip
    if _turn(cycle, wakes, state.EMITTER):
        senders.step_senders(cycle, first, streams, lines, m.instances, m.scalars, sizes, wakes)


@compiled
def _step_channel(cycle, channel, m, p, sizes):
    """Ask those parts of a channel that have something to do."""
    wakes, queues_of, vector, done = m.wakes[channel], m.queues[channel], m.vector[channel], m.done[channel]
    number, table = sizes.fetchers + channel, m.instances
    if wakes[state.VECTORS] <= cycle:
        products_of = m.engines[channel]
        compute.step_vector(cycle, vector, products_of, queues_of[VECTOR], table, sizes, done, m.counted, wakes)
    if wakes[state.STORES] <= cycle:
        store.step_store(
            cycle, m.store[channel], queues_of[STORE], m.transposer[channel], m.log[channel], m.compressor[channel],
            m.writer[channel], table, p, channel, vector, sizes, m.counted, wakes,
        )  # fmt: skip
    if wakes[state.LOADS] <= cycle:
        load.step_load(
            cycle, m.load[channel], queues_of[LOAD], m.asked[number], m.readers[1 + number], m.decompressors[number],
            table, p, channel, vector, sizes, done, m.counted, wakes,
        )  # fmt: skip
    if wakes[state.MACS] <= cycle and sizes.streams:
        products.step_products(
            cycle, m.mac[channel], m.engines[channel], m.ended[channel], queues_of[MAC],
            m.scalars[channel :: len(m.mac)], table, m.load[channel], sizes, done, wakes,
        )  # fmt: skip
    elif wakes[state.MACS] <= cycle:
        compute.step_mac(
            cycle, m.mac[channel], queues_of[MAC], m.scalars[channel], table, vector, m.store[channel],
            m.sums[channel], sizes, done, wakes,
        )  # fmt: skip
    if wakes[state.QUEUES] <= cycle:
        queues.step_queues(cycle, m.queues, channel, table, m.done, m.wakes)


@compiled
def _pass_tiles(cycle, until, m, sizes):
    """Issue tiles of the scalars at hand in every channel while nothing else acts; give how many."""
    tiles = until - cycle - 1
    for channel in range(len(m.mac)):
        if m.wakes[channel, state.MACS] != cycle + 1:
            return 0
        queue = m.queues[channel, MAC]
        coming = compute.coming_tiles(cycle, until, m.mac[channel], queue, m.instances, m.sums[channel], sizes)
        tiles = min(tiles, coming)
        if tiles <= 0:
            return 0
    for channel in range(len(m.mac)):
        compute.pass_tiles(cycle, tiles, m.mac[channel], m.sums[channel])
    return tiles


@compiled
def _all_issue(cycle, m):
    """Tell whether every channel has issued a MAC."""
    issued = 0
    for channel in range(len(m.mac)):
        issued += m.mac[channel].issued_at == cycle
    return issued == len(m.mac)


@compiled
def _may_skip(cycle, m):
    """Tell whether every channel works on MACs of the same instruction."""
    current = m.queues[0, MAC].current
    for channel in range(len(m.mac)):
        queue = m.queues[channel, MAC]
        if not m.mac[channel].mac or not offered(queue, cycle) or queue.current != current:
            return False
    return True


@compiled
def _in_mac_phase(cycle, engine, queue):
    """Tell whether an instruction has MACs to issue."""
    return engine.valid != 0 or (queue.current >= 0 and queue.valid_from <= cycle)


@compiled
def _count(cycle, until, m, sizes):
    """Count the cycles from one in which something was done to the next."""
    for channel in range(len(m.mac)):
        m.counted[_KINDS + kind(cycle, channel, m, m.instances, sizes)] += 1
        if _in_mac_phase(cycle, m.mac[channel], m.queues[channel, MAC]):
            m.counted[_PHASE] += until - cycle
        if until > cycle + 1:
            m.counted[_KINDS + idle_kind(cycle + 1, channel, m, m.instances, sizes)] += until - cycle - 1


@entry_point
def run(m, p, sizes):
    """Run a program until the sequencer comes to a boundary, if there are any, or to the program's end.

    Gives AT_BOUNDARY, ENDED or STUCK. ``m.sequencer[0].cycle`` is the machine's time then.
    """
    cycle, turns, moved = m.sequencer[0].cycle, 0, 0
    fixed = sizes.elementwise + sizes.forward + sizes.backward > 0  # shares of the PEs
    one_group = sizes.groups == 1
    m.sequencer[0].arrived = m.sequencer[0].starved = 0
    while True:
        step(cycle, m, p, sizes)
        rest = others(m.wakes)
        soonest = min(rest, _soonest(m.wakes, state.EMITTER))
        tiles = _pass_tiles(cycle, soonest, m, sizes)
        following = max(min(soonest, max(_soonest(m.wakes, state.MACS), cycle + 1 + tiles)), cycle + 1)
        if following == NEVER:
            if m.sequencer[0].halted_at < NEVER:
                _count(cycle, _end(m), m, sizes)
            m.sequencer[0].cycle = cycle
            break
        if tiles:
            _count(cycle, cycle + 1, m, sizes)
            m.counted[_KINDS + _MAC] += tiles * len(m.mac)
            m.counted[_PHASE] += tiles * len(m.mac)
        elif following == cycle + 1 and _all_issue(cycle, m):  # the most frequent case
            for channel in range(len(m.mac)):
                m.counted[_KINDS + _MAC] += 1
                m.counted[_PHASE] += _in_mac_phase(cycle, m.mac[channel], m.queues[channel, MAC])
        else:
            _count(cycle, following, m, sizes)
        if rest > following + _STRETCH and one_group and not fixed and _may_skip(cycle, m):
            tiles = m.instances[m.queues[0, MAC].current].tiles
            scalars = skip_scalars(rest - following, m.emitter[0], m.banks[0], m.masks[0], m.scalars, tiles, sizes)
            if scalars:
                shift(following, scalars * tiles, m.scalars, m.sums, m.wakes)
                m.counted[_KINDS + _MAC] += scalars * tiles * len(m.mac)
                m.counted[_PHASE] += scalars * tiles * len(m.mac)
                following += scalars * tiles
        cycle = m.sequencer[0].cycle = following
        if m.sequencer[0].arrived and len(p.boundaries) > 1:
            return AT_BOUNDARY
        turns += 1
        if turns % _PATIENCE == 0:
            now = _progress(m)
            if now == moved:
                return STUCK
            moved = now
    if m.sequencer[0].halted_at == NEVER or not _at_rest(m):
        return STUCK
    m.sequencer[0].cycle = _end(m)
    return ENDED


@compiled
def _at_rest(m):
    """Tell whether every engine has taken all of its instructions."""
    for channel in range(len(m.queues)):
        for engine in range(CAST + 1):
            queue = m.queues[channel, engine]
            if queue.current >= 0 or queue.head < queue.tail:
                return False
    return True


@compiled
def _progress(m):
    """Give a sum that grows as long as instructions, scalars or beats move."""
    moved = 0
    for engine in range(CAST + 1):
        moved += m.sequencer[0].dispatched[engine]
    for channel in range(len(m.queues)):
        moved += m.scalars[channel].head + m.writer[channel].head
        for engine in range(CAST + 1):
            moved += m.done[channel, engine].count + m.queues[channel, engine].head
    for counter in range(_MOVED, len(m.counted)):
        moved += m.counted[counter]
    return moved


@compiled
def _end(m):
    """Give the cycles of a program whose parts have all come to rest."""
    busy = 0
    for channel in range(len(m.done)):
        done = m.done[channel]
        for engine in (LOAD, STORE):
            if done[engine].count:
                busy = max(busy, queues.completed_at(done, engine, done[engine].count) - 1)
        for engine in (MAC, VECTOR):
            if done[engine].count:
                busy = max(busy, queues.completed_at(done, engine, done[engine].count))
    busy = max(busy + STAGES, m.sequencer[0].halted_at, m.sequencer[0].sent_at + ROUND_TRIP)
    return busy + QUIET + 4 + DRAIN
