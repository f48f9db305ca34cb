"""Running the machine: parts that act cycle by cycle, and cycles left out in which none does."""

from pathlib import Path

from etalstm.hw import contract, distance
from etalstm.hw.contract import Counter, Cycle
from etalstm.hw.distance import ROUND_TRIP, STAGES
from etalstm.model import emitter, fetcher, load, mac, queues, sequencer, store
from etalstm.model import vector as vectors
from etalstm.model.classify import idle_kind, kind
from etalstm.model.latencies import DRAIN, QUIET
from etalstm.model.queues import offered
from etalstm.model.state import (
    CAST,
    EMITTER,
    FETCHER,
    LOAD,
    LOADS,
    MAC,
    MACS,
    NEVER,
    PARTS,
    QUEUES,
    SEQUENCER,
    STORE,
    STORES,
    VECTOR,
    VECTORS,
    compiled,
    entry_point,
)
from etalstm.model.stretch import others, shift, skip_scalars
from etalstm.stale import drop_older_code

AT_BOUNDARY, ENDED, STUCK = range(3)
"""Why :func:`run` came back: a part of the program begins, its end was reached, nothing happens any more."""

_CYCLES, _KINDS, _PHASE = int(Counter.CYCLES), int(Counter.CYCLE_KINDS), int(Counter.MAC_PHASE)
_MAC = int(Cycle.MAC)
_MOVED = int(Counter.SCALARS_SEEN)  # the first of the counters that stand still with the machine
_STRETCH = 64  # cycles without anything but MACs that are worth a look
_PATIENCE = 1 << 18  # turns of `run` without any progress before it gives up

drop_older_code(Path(__file__).parent, (Path(module.__file__) for module in (contract, distance)))


@compiled
def _step(cycle, m, p, sizes):
    """Ask every part that has something to do."""
    wakes, table = m.wakes, m.instances
    if wakes[SEQUENCER] <= cycle:
        sequencer.step_sequencer(cycle, m, p, sizes)
    if wakes[FETCHER] <= cycle:
        fetcher.step_fetcher(
            cycle, m.fetcher[0], m.queues[CAST], m.asked[0], m.readers[1], m.ports[1], m.decompressors[0], table,
            p.blocks, m.banks, m.masks, m.values, p, m.random, sizes, m.counted, wakes,
        )  # fmt: skip
    if wakes[EMITTER] <= cycle:
        emitter.step_emitter(
            cycle, m.emitter[0], m.banks, m.masks, m.values, m.scalars[0], m.begun, m.fetcher[0], sizes, wakes
        )
    if wakes[VECTORS] <= cycle:
        vectors.step_vector(cycle, m.vector[0], m.queues[VECTOR], table, sizes, m.done, m.counted, wakes)
    if wakes[STORES] <= cycle:
        store.step_store(
            cycle, m.store[0], m.queues[STORE], m.transposer[0], m.log[0], m.compressor[0], m.writer[0], table,
            m.vector[0], sizes, m.done, m.counted, wakes,
        )  # fmt: skip
    if wakes[LOADS] <= cycle:
        load.step_load(
            cycle, m.load[0], m.queues[LOAD], m.asked[1], m.readers[2], m.ports[2], m.decompressors[1], table,
            m.vector[0], sizes, m.done, m.counted, wakes,
        )  # fmt: skip
    if wakes[MACS] <= cycle:
        mac.step_mac(
            cycle, m.mac[0], m.queues[MAC], m.scalars[0], table, m.vector[0], m.store[0], m.sums, sizes, m.done, wakes
        )
    if wakes[QUEUES] <= cycle:
        queues.step_queues(cycle, m.queues, table, m.done, wakes)


@compiled
def _others(wakes):
    """Give the next cycle in which a part other than the MAC engine has something to do."""
    soonest = NEVER
    for part in range(PARTS):
        if part != MACS:
            soonest = min(soonest, wakes[part])
    return soonest


@compiled
def _in_mac_phase(cycle, engine, queue):
    """Tell whether an instruction has MACs to issue."""
    return engine.valid != 0 or (queue.current >= 0 and queue.valid_from <= cycle)


@compiled
def _count(cycle, until, m, sizes):
    """Count the cycles from one in which something was done to the next."""
    m.counted[_KINDS + kind(cycle, m, m.instances, sizes)] += 1
    if _in_mac_phase(cycle, m.mac[0], m.queues[MAC]):
        m.counted[_PHASE] += until - cycle
    if until > cycle + 1:
        m.counted[_KINDS + idle_kind(cycle + 1, m, m.instances, sizes)] += until - cycle - 1


@entry_point
def run(m, p, sizes):
    """Run a program until the sequencer comes to a boundary, if there are any, or to the program's end.

    Returns
    -------
    int
        AT_BOUNDARY, ENDED or STUCK. ``m.sequencer[0].cycle`` is the machine's time then.
    """
    cycle, turns, moved = m.sequencer[0].cycle, 0, 0
    fixed = sizes.elementwise + sizes.forward + sizes.backward > 0  # shares of the PEs
    m.sequencer[0].arrived = m.sequencer[0].starved = 0
    while True:
        _step(cycle, m, p, sizes)
        soonest = _others(m.wakes)
        tiles = 0
        if m.wakes[MACS] == cycle + 1 < soonest:
            last = mac.run_tiles(cycle, soonest, m.mac[0], m.queues[MAC], m.instances, m.sums, sizes)
            tiles = last - cycle
        following = max(min(soonest, max(m.wakes[MACS], cycle + 1 + tiles)), cycle + 1)
        if following == NEVER:
            if m.sequencer[0].halted_at < NEVER:
                _count(cycle, _end(m), m, sizes)
            m.sequencer[0].cycle = cycle
            break
        if tiles:
            m.counted[_KINDS + kind(cycle, m, m.instances, sizes)] += 1
            m.counted[_KINDS + _MAC] += tiles
            m.counted[_PHASE] += following - cycle
        elif m.mac[0].issued_at == cycle and following == cycle + 1:  # the most frequent case, without a call
            m.counted[_KINDS + _MAC] += 1
            m.counted[_PHASE] += _in_mac_phase(cycle, m.mac[0], m.queues[MAC])
        else:
            _count(cycle, following, m, sizes)
        rest = others(m.wakes)
        if rest > following + _STRETCH and m.mac[0].mac and not fixed and offered(m.queues[MAC], cycle):
            tiles = m.instances[m.queues[MAC].current].tiles
            scalars = skip_scalars(rest - following, m.emitter[0], m.banks, m.masks, m.scalars[0], tiles, sizes)
            if scalars:
                shift(following, scalars * tiles, m.scalars[0], m.sums, m.wakes)
                m.counted[_KINDS + _MAC] += scalars * tiles
                m.counted[_PHASE] += scalars * tiles
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
    for engine in range(CAST + 1):
        if m.queues[engine].current >= 0 or m.queues[engine].head < m.queues[engine].tail:
            return False
    return True


@compiled
def _progress(m):
    """Give a sum that grows as long as instructions, scalars or beats move."""
    moved = m.sequencer[0].instance + m.scalars[0].head + m.writer[0].head
    for engine in range(CAST + 1):
        moved += m.done[engine].count + m.queues[engine].head
    for counter in range(_MOVED, len(m.counted)):
        moved += m.counted[counter]
    return moved


@compiled
def _end(m):
    """Give the cycles of a program whose parts have all come to rest."""
    busy = 0
    for engine in (LOAD, STORE):
        if m.done[engine].count:
            busy = max(busy, queues.completed_at(m.done, engine, m.done[engine].count) - 1)
    for engine in (MAC, VECTOR):
        if m.done[engine].count:
            busy = max(busy, queues.completed_at(m.done, engine, m.done[engine].count))
    busy = max(busy + STAGES, m.sequencer[0].halted_at, m.sequencer[0].sent_at + ROUND_TRIP)
    return busy + QUIET + 4 + DRAIN
