"""The machine as the model has it: parts that act cycle by cycle, and cycles left out in which none does."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.hw import contract, distance
from etalstm.hw.contract import LOOP_DEPTH, Counter, Cycle
from etalstm.hw.distance import ROUND_TRIP, STAGES
from etalstm.model import (
    codec,
    emitter,
    fetcher,
    indexed,
    load,
    log,
    mac,
    masks,
    queues,
    reader,
    rows,
    sequencer,
    store,
)
from etalstm.model import vector as vectors
from etalstm.model import writer as writers
from etalstm.model.classify import idle_kind, kind
from etalstm.model.latencies import DRAIN, PROGRAM_BURSTS, PROGRAM_DEPTH, QUIET, READER_DEPTH
from etalstm.model.loops import make_stack
from etalstm.model.queues import offered
from etalstm.model.state import (
    CAST,
    DONE,
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
    Sizes,
)
from etalstm.model.stretch import others, shift, skip_scalars
from etalstm.model.table import INSTRUCTION
from etalstm.stale import drop_older_code

_CYCLES, _KINDS, _PHASE = int(Counter.CYCLES), int(Counter.CYCLE_KINDS), int(Counter.MAC_PHASE)
_MAC = int(Cycle.MAC)
_MOVED = int(Counter.SCALARS_SEEN)  # the first of the counters that stand still with the machine
_STRETCH = 64  # cycles without anything but MACs that are worth a look
_PATIENCE = 1 << 18  # turns of `run` without any progress before it gives up

drop_older_code(Path(__file__).parent, (Path(module.__file__) for module in (contract, distance)))


class Machine(NamedTuple):
    """Records of all parts."""

    queues: np.ndarray
    done: np.ndarray
    wakes: np.ndarray
    sequencer: np.ndarray
    readers: np.ndarray  # of the program, the broadcaster, LOAD
    ports: np.ndarray
    asked: np.ndarray  # by the broadcaster, by LOAD
    decompressors: np.ndarray
    fetcher: np.ndarray
    emitter: np.ndarray
    banks: np.ndarray
    masks: np.ndarray
    values: np.ndarray
    begun: np.ndarray
    random: np.ndarray
    scalars: np.ndarray
    vector: np.ndarray
    mac: np.ndarray
    sums: np.ndarray
    load: np.ndarray
    store: np.ndarray
    transposer: np.ndarray
    compressor: np.ndarray
    log: np.ndarray
    writer: np.ndarray
    counted: np.ndarray  # in the order of Counter: of one channel, and of what there is once; reads of all channels
    rows: np.ndarray
    instances: np.ndarray
    stack: np.ndarray
    before: np.ndarray


class Tables(NamedTuple):
    """A program, and what is known of its operands; what was not counted from data is empty, and drawn.

    Members
    -------
    table, blocks : arrays of INSTRUCTION and BLOCK
    masks : array, uint32
        Of each group of every block that is broadcast, in order.
    places : array, int64
        Where the masks of each block begin.
    block_streams, streams : arrays, int64, (n, 3)
        Kept elements, first beat and beats of every stream: of blocks that are broadcast, of LOAD and STORE.
    rows : array, int64
        A bit for each gate that is needed, of every lane of the maps of LOAD_ROWS.
    extrapolate : bool
        Turns of loops that have become steady are only counted.
    """

    table: np.ndarray
    blocks: np.ndarray
    masks: np.ndarray
    places: np.ndarray
    block_streams: np.ndarray
    streams: np.ndarray
    rows: np.ndarray
    extrapolate: bool


def tables_of(table: np.ndarray, blocks: np.ndarray, *, extrapolate: bool = False) -> Tables:
    """Give a program of which nothing was counted."""
    none = np.zeros(0, np.int64)
    return Tables(
        table, blocks, none.astype(np.uint32), none, none.reshape(0, 3), none.reshape(0, 3), none, extrapolate
    )


def make_machine(sizes: Sizes, queue_depth: int, seed: int = 1) -> Machine:
    """Make a machine that is reset."""
    groups = sizes.broadcast_words
    inner = contract.cast_sums(sizes.lanes, sizes.broadcast_words)
    machine = Machine(
        queues=np.zeros(CAST + 1, queues.QUEUE),
        done=np.zeros(CAST + 1, DONE),
        wakes=np.zeros(PARTS, np.int64),
        sequencer=np.zeros(1, sequencer.ENGINE),
        readers=np.zeros(3, reader.READER),
        ports=np.zeros(3, reader.PORT),
        asked=np.zeros(2, indexed.ASKED),
        decompressors=np.zeros(2, codec.DECOMPRESSOR),
        fetcher=np.zeros(1, fetcher.ENGINE),
        emitter=np.zeros(1, emitter.ENGINE),
        banks=np.zeros(2, masks.BANK),
        masks=np.zeros((2, groups), np.int64),
        values=np.zeros((2, groups), np.int64),
        begun=np.zeros(inner, np.int64),
        random=np.array([seed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF], np.uint64),
        scalars=np.zeros(1, mac.SCALARS),
        vector=np.zeros(1, vectors.ENGINE),
        mac=np.zeros(1, mac.ENGINE),
        sums=np.full(queue_depth + 1, -1000, np.int64),
        load=np.zeros(1, load.ENGINE),
        store=np.zeros(1, store.ENGINE),
        transposer=np.zeros(1, store.TRANSPOSER),
        compressor=np.zeros(1, codec.COMPRESSOR),
        log=np.zeros(1, log.LOG),
        writer=np.zeros(1, writers.WRITER),
        counted=np.zeros(Counter.COUNT, np.int64),
        rows=np.zeros(1, rows.ROWS),
        instances=np.zeros(sequencer.INSTANCES, INSTRUCTION),
        stack=make_stack(),
        before=np.zeros((LOOP_DEPTH + 1, Counter.COUNT), np.int64),
    )
    _reset(machine, sizes)
    return machine


def _reset(machine: Machine, sizes: Sizes) -> None:
    machine.queues["current"] = -1
    machine.asked["checked_at"] = NEVER
    machine.load["prepared_at"] = machine.store["prepared_at"] = NEVER
    machine.store["to_vectors"] = machine.store["to_writer"] = 1
    machine.store["free"] = 16
    machine.fetcher["free"] = 2
    for name in ("pe_at", "scratch_at", "queue_at", "waiting_at", "last_write"):
        machine.vector[name] = -1
    machine.vector["writes"] = -1
    machine.store["queue_at"] = machine.mac["issued_at"] = -1
    shared = sizes.managers > 1
    machine.ports["managers"], machine.ports["hops"] = (1, 1, sizes.managers), (1, 0, int(shared))
    machine.ports["accepted"] = -1
    machine.ports["outstanding"] = (0, 0, sizes.outstanding if shared else 0)
    machine.writer["managers"], machine.writer["hops"], machine.writer["accepted"] = sizes.managers, int(shared), -1
    depths = (PROGRAM_DEPTH, READER_DEPTH, READER_DEPTH)
    bursts = (PROGRAM_BURSTS, sizes.outstanding, sizes.outstanding)
    machine.readers["depth"], machine.readers["free"], machine.readers["outstanding"] = depths, depths, bursts
    machine.rows["needed"] = -1
    words = sizes.beat_words, sizes.codec_words  # the broadcaster's decompressor takes whole beats
    machine.decompressors["words"] = words
    machine.decompressors["factor"] = [sizes.beat_words // count for count in words]
    machine.compressor["words"], machine.compressor["factor"] = words[1], sizes.beat_words // words[1]


@njit
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


@njit
def _others(wakes):
    """Give the next cycle in which a part other than the MAC engine has something to do."""
    soonest = NEVER
    for part in range(PARTS):
        if part != MACS:
            soonest = min(soonest, wakes[part])
    return soonest


@njit
def _in_mac_phase(cycle, engine, queue):
    """Tell whether an instruction has MACs to issue."""
    return engine.valid != 0 or (queue.current >= 0 and queue.valid_from <= cycle)


@njit
def _count(cycle, until, m, sizes):
    """Count the cycles from one in which something was done to the next."""
    m.counted[_KINDS + kind(cycle, m, m.instances, sizes)] += 1
    if _in_mac_phase(cycle, m.mac[0], m.queues[MAC]):
        m.counted[_PHASE] += until - cycle
    if until > cycle + 1:
        m.counted[_KINDS + idle_kind(cycle + 1, m, m.instances, sizes)] += until - cycle - 1


@njit(cache=True)
def run(m, p, sizes, limit):
    """Run a program from its start to its end.

    Returns
    -------
    cycles : int
        Those of turns that were only counted included; -1 if nothing moves any more before the HALT.
    """
    cycle = turns = moved = 0
    fixed = sizes.elementwise + sizes.forward + sizes.backward > 0  # shares of the PEs
    m.sequencer[0].halted_at = NEVER
    m.sequencer[0].length = len(p.table)
    while cycle < limit:
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
        cycle = following
        turns += 1
        if turns % _PATIENCE == 0:
            now = _progress(m)
            if now == moved:
                return -1
            moved = now
    if m.sequencer[0].halted_at == NEVER:
        return -1
    m.counted[_CYCLES] = _end(m) + m.sequencer[0].skipped
    return m.counted[_CYCLES]


@njit
def _progress(m):
    """Give a sum that grows as long as instructions, scalars or beats move."""
    moved = m.sequencer[0].instance + m.scalars[0].head + m.writer[0].head
    for engine in range(CAST + 1):
        moved += m.done[engine].count + m.queues[engine].head
    return moved + m.counted[_MOVED:].sum()


@njit
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
