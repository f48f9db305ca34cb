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
    queues,
    rows,
    sequencer,
    store,
)
from etalstm.model.machine.latencies import MERGE, PROGRAM_BURSTS, PROGRAM_DEPTH, READER_DEPTH
from etalstm.model.machine.state import CAST, DONE, NEVER, PARTS, Sizes
from etalstm.model.machine.table import INSTRUCTION
from etalstm_hw.contract import Counter, cast_sums


class Machine(NamedTuple):
    """Records of all parts: those of a channel for each channel at a memory port, in their order.

    The port serves one channel after the other, and so they drift apart.
    """

    queues: np.ndarray
    done: np.ndarray
    wakes: np.ndarray
    sequencer: np.ndarray
    readers: np.ndarray  # of the program, the broadcaster, the channels' LOAD
    ports: np.ndarray  # of the program, the broadcaster
    read_port: np.ndarray  # of the channels
    write_port: np.ndarray
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
    counted: np.ndarray  # in the order of Counter: of these channels, and of what there is once; reads of all channels
    rows: np.ndarray
    instances: np.ndarray
    stack: np.ndarray
    words: np.ndarray  # all of the above, one after the other


def _shapes(sizes: Sizes, queue_depth: int) -> dict[str, tuple]:
    """Give the records of each part: their dtype and how many there are."""
    patches, channels = sizes.broadcast_words, sizes.managers
    inner = cast_sums(sizes.lanes, sizes.broadcast_words)
    return {
        "queues": (queues.QUEUE, (channels, CAST + 1)),
        "done": (DONE, (channels, CAST + 1)),
        "wakes": (np.int64, (channels, PARTS)),
        "sequencer": (sequencer.ENGINE, 1),
        "readers": (axi.READER, 2 + channels),
        "ports": (axi.PORT, 2),
        "read_port": (axi.READ_PORT, 1),
        "write_port": (axi.WRITE_PORT, 1),
        "asked": (indexed.ASKED, 1 + channels),
        "decompressors": (codec.DECOMPRESSOR, 1 + channels),
        "fetcher": (fetcher.ENGINE, 1),
        "emitter": (emitter.ENGINE, 1),
        "banks": (masks.BANK, 2),
        "masks": (np.int64, (2, patches)),
        "values": (np.int64, (2, patches)),
        "begun": (np.int64, inner),
        "random": (np.uint64, 1),
        "scalars": (compute.SCALARS, channels),
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
    machine.fetcher["free"] = 2
    for name in ("pe_at", "scratch_at", "sums_at", "waiting_at", "last_write"):
        machine.vector[name] = -1
    machine.vector["writes"] = -1
    machine.store["sums_at"] = machine.mac["issued_at"] = -1
    machine.ports["accepted"], machine.ports["hops"] = -1, (MERGE, 0)
    channels = sizes.managers
    machine.load["stands_for"][0] = sizes.channels
    machine.readers["offered"] = machine.writer["offered"] = machine.writer["shown_from"] = NEVER
    depths = [PROGRAM_DEPTH, *[READER_DEPTH] * (1 + channels)]
    bursts = [PROGRAM_BURSTS, *[sizes.outstanding] * (1 + channels)]
    machine.readers["depth"], machine.readers["free"], machine.readers["outstanding"] = depths, depths, bursts
    machine.rows["needed"] = -1
    words = [sizes.beat_words, *[sizes.codec_words] * channels]  # the broadcaster's decompressor takes whole beats
    machine.decompressors["words"] = words
    machine.decompressors["factor"] = [sizes.beat_words // count for count in words]
    machine.compressor["words"], machine.compressor["factor"] = words[1], sizes.beat_words // words[1]
