"""Records of the machine as the model has it."""

from typing import NamedTuple

import numpy as np

from etalstm.model.machine import (
    axi,
    codec,
    compute,
    emitter,
    fetcher,
    indexed,
    load,
    masks,
    products,
    queues,
    rows,
    senders,
    sequencer,
    store,
)
from etalstm.model.machine.latencies import MEMORY_BURSTS, MERGE, PROGRAM_BURSTS, PROGRAM_DEPTH, READER_DEPTH
from etalstm.model.machine.state import CAST, DONE, FETCH, NEVER, PARTS, Sizes
from etalstm.model.machine.table import INSTRUCTION
from etalstm_hw.contract import Counter, cast_sums


class Machine(NamedTuple):
    """Records of all parts: those of a channel for each channel that is modelled, in their order.

    A memory port serves one channel after the other, and so they drift apart. Where several groups are modelled, those
    of a group follow those of the group before.
    """

    queues: np.ndarray
    done: np.ndarray
    wakes: np.ndarray
    sequencer: np.ndarray
    readers: np.ndarray  # of the program, the broadcasters' fetchers, the channels' LOAD
    ports: np.ndarray  # of the program, the broadcasters' fetchers
    read_port: np.ndarray  # of the channels
    write_port: np.ndarray
    asked: np.ndarray  # by the broadcasters' fetchers, by LOAD
    decompressors: np.ndarray
    fetcher: np.ndarray
    emitter: np.ndarray
    banks: np.ndarray
    masks: np.ndarray
    values: np.ndarray
    begun: np.ndarray
    random: np.ndarray
    scalars: np.ndarray  # of a stream for each channel, then of the next stream
    check: np.ndarray  # of each group
    distributors: np.ndarray
    streams: np.ndarray  # of a group, then of the next group
    lines: np.ndarray  # of each stream and bank: how many digits of a line are not zero
    engines: np.ndarray
    ended: np.ndarray
    vector: np.ndarray
    mac: np.ndarray
    sums: np.ndarray
    load: np.ndarray
    store: np.ndarray
    transposer: np.ndarray
    compressor: np.ndarray
    log: np.ndarray
    writer: np.ndarray
    counted: np.ndarray  # in the order of Counter: of these channels, and of what there is once; reads of all channels
    rows: np.ndarray
    instances: np.ndarray
    stack: np.ndarray
    words: np.ndarray  # all of the above, one after the other


def _shapes(sizes: Sizes, queue_depth: int) -> dict[str, tuple]:
    """Give the records of each part: their dtype and how many there are."""
    patches, groups, channels = sizes.broadcast_words, sizes.groups, sizes.groups * sizes.modelled
    inner, streams = cast_sums(sizes.lanes, sizes.broadcast_words), max(1, sizes.streams)
    lines, fetchers = sizes.sequence_lines if sizes.streams else 1, sizes.fetchers
    return {
        "queues": (queues.QUEUE, (channels, CAST + 1)),
        "done": (DONE, (channels, CAST + 1)),
        "wakes": (np.int64, (channels, PARTS)),
        "sequencer": (sequencer.ENGINE, 1),
        "readers": (axi.READER, 1 + fetchers + channels),
        "ports": (axi.PORT, 1 + fetchers),
        "read_port": (axi.READ_PORT, channels // sizes.managers),
        "write_port": (axi.WRITE_PORT, channels // sizes.managers),
        "asked": (indexed.ASKED, fetchers + channels),
        "decompressors": (codec.DECOMPRESSOR, fetchers + channels),
        "fetcher": (fetcher.ENGINE, fetchers),
        "emitter": (emitter.ENGINE, groups),
        "banks": (masks.BANK, (groups, 2)),
        "masks": (np.int64, (groups, 2, patches)),
        "values": (np.int64, (groups, 2, patches)),
        "begun": (np.int64, (groups, inner)),
        "random": (np.uint64, 1),
        "scalars": (compute.SCALARS, streams * channels),
        "check": (senders.CHECK, groups),
        "distributors": (senders.DISTRIBUTOR, fetchers),
        "streams": (senders.STREAM, groups * streams),
        "lines": (np.int64, (groups * streams, senders.SLOTS, lines)),
        "engines": (products.ENGINE, (channels, streams)),
        "ended": (products.ENDED, channels),
        "vector": (compute.VECTOR_ENGINE, channels),
        "mac": (compute.MAC_ENGINE, channels),
        "sums": (np.int64, (channels, queue_depth + 1)),
        "load": (load.ENGINE, channels),
        "store": (store.ENGINE, channels),
        "transposer": (store.TRANSPOSER, channels),
        "compressor": (codec.COMPRESSOR, channels),
        "log": (store.LOG, channels),
        "writer": (axi.WRITER, channels),
        "counted": (np.int64, int(Counter.COUNT)),
        "rows": (rows.ROWS, 1),
        "instances": (INSTRUCTION, rows.INSTANCES + rows.OFFERED),
        "stack": (sequencer.LOOP_BODY, sequencer.STACK_DEPTH),
    }


def make_machine(sizes: Sizes, queue_depth: int, length: int) -> Machine:
    """Make a machine that is reset, for a program of so many instructions."""
    shapes = _shapes(sizes, queue_depth)
    counts = [np.dtype(dtype).itemsize // 8 * int(np.prod(shape)) for dtype, shape in shapes.values()]
    words = np.zeros(sum(counts), np.int64)
    parts = np.split(words, np.cumsum(counts)[:-1])
    records = {
        name: part.view(dtype).reshape(shape)
        for part, (name, (dtype, shape)) in zip(parts, shapes.items(), strict=True)
    }
    machine = Machine(**records, words=words)
    machine.sequencer["length"], machine.sequencer["halted_at"] = length, NEVER
    machine.sums[:] = -1000
    _reset(machine, sizes)
    return machine


def _reset(machine: Machine, sizes: Sizes) -> None:
    machine.queues["current"] = -1
    machine.asked["checked_at"] = NEVER
    machine.load["prepared_at"] = machine.store["prepared_at"] = NEVER
    machine.store["to_vectors"] = machine.store["to_writer"] = 1
    machine.store["free"] = 16
    machine.fetcher["free"], machine.fetcher["group"] = 2, np.arange(sizes.fetchers) * sizes.groups // sizes.fetchers
    for name in ("pe_at", "b_read_at", "bank_read_at", "sums_at", "waiting_at", "last_write"):
        machine.vector[name] = -1
    machine.vector["writes"] = -1
    machine.store["sums_at"] = machine.mac["issued_at"] = -1
    fetchers, channels = sizes.fetchers, sizes.groups * sizes.modelled
    machine.ports["accepted"], machine.ports["outstanding"] = -1, NEVER
    of_program = machine.ports[FETCH : FETCH + 1]
    of_program["hops"], of_program["outstanding"] = MERGE, min(sizes.outstanding, MEMORY_BURSTS)
    if sizes.modelled == sizes.channels:
        machine.load["stands_for"] = 1
    else:
        machine.load["stands_for"][0] = sizes.channels
    machine.readers["offered"] = machine.writer["offered"] = machine.writer["shown_from"] = NEVER
    depths = [PROGRAM_DEPTH, *[READER_DEPTH] * (fetchers + channels)]
    bursts = [PROGRAM_BURSTS, *[sizes.outstanding] * (fetchers + channels)]
    machine.readers["depth"], machine.readers["free"], machine.readers["outstanding"] = depths, depths, bursts
    machine.rows["needed"] = -1
    machine.streams["full_from"], machine.load["weights_at"], machine.load["weights_before"] = NEVER, -2, -2
    machine.engines["old_from"] = -sizes.tile_sums
    # the broadcasters' decompressors take whole beats
    words = [*[sizes.beat_words] * fetchers, *[sizes.codec_words] * channels]
    machine.decompressors["words"] = words
    machine.decompressors["factor"] = [sizes.beat_words // count for count in words]
    machine.compressor["words"], machine.compressor["factor"] = words[-1], sizes.beat_words // words[-1]
