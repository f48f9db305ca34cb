"""A machine whose channels can be divided, and programs that do something else in every group."""

from dataclasses import replace

import numpy as np

from etalstm_hw.config import preset
from etalstm_hw.contract import GROUP_BITS, Memory, Opcode, Source, Start, Traffic, VectorOp, encode

CONFIG = replace(preset("test"), channels=4, broadcasters=4)
WINDOW_BYTES = 8192  # 512 vectors of a beat each
SERIAL = {"wait_load": 1, "wait_mac": 1, "wait_vector": 1, "wait_store": 1, "everyone": 1}
HALT = encode(Opcode.HALT)

# Vectors of a window. What a program reads of them is there from the start.
WEIGHTS, BIAS, SCALARS, MAP, ROWS, SQUARE = 0, 16, 18, 24, 32, 96
SUMS, COLUMNS, LOADED_ROWS, EXCHANGED, INDEX, LOG = 128, 192, 256, 320, 448, 449
BATCH, TILES, ROW_LANES = 2, 2, 3


def words_of(seed):
    """Give random windows, uint32 (channels, vectors, lanes): of scalars and maps most are zero."""
    generator = np.random.default_rng(seed)
    windows = generator.standard_normal((CONFIG.channels, WINDOW_BYTES // 16, CONFIG.lanes), np.float32)
    for first, last, share in ((SCALARS, MAP, 0.5), (MAP, ROWS, 0.85)):
        part = windows[:, first:last]
        part[generator.random(part.shape) < share] = 0
    return windows.view(np.uint32)


def products(size):
    """Two blocks of every channel of a group, to sums of their own; nothing holds back a group that is ahead."""
    load = {"kind": Traffic.WEIGHTS, "outer": 1, "inner_stride": 1}
    yield encode(Opcode.LOAD, **load, address=WEIGHTS, memory=Memory.WEIGHTS, inner=BIAS - WEIGHTS)
    yield encode(Opcode.LOAD, **load, address=BIAS, memory=Memory.BIAS, inner=TILES)
    for number in range(2 * size):
        channel, tile = divmod(number, 2)
        yield encode(
            Opcode.CAST, kind=Traffic.ACTIVATIONS, address=SCALARS, channel=channel, tile=tile, tiles_per_channel=2,
            blocks=1, gates=1, batch=BATCH, lanes=CONFIG.lanes, last_lanes=3, tiles=TILES, start=1, finish=1,
        )  # fmt: skip
        yield encode(Opcode.MAC, wait_load=1, sums=number * BATCH * TILES, tiles=TILES, start=Start.BIAS)
    yield encode(
        Opcode.STORE, wait_mac=1, kind=Traffic.DELTAS, address=SUMS, memory=Memory.SUMS, outer=1,
        inner=2 * size * BATCH * TILES, inner_stride=1,
    )  # fmt: skip


def squares(size):
    """Transpose the same square into the window of every channel of the group."""
    inner = {"kind": Traffic.WEIGHTS, "memory": Memory.SCRATCH, "outer": 1, "inner_stride": 1}
    yield encode(Opcode.LOAD, **SERIAL, **inner, address=SQUARE, inner=4)
    for target in range(size):
        yield encode(
            Opcode.TRANSPOSE, **SERIAL, kind=Traffic.WEIGHTS, address=COLUMNS + 4 * target, target=target, outer=1,
            inner_stride=1, rows=3, lanes=4, lane_beats=1, channel_beats=4 * size,
        )  # fmt: skip


def rows(size):
    """Load the rows that any group has a use for, and store them."""
    count = 4 * ROW_LANES * size
    common = {"kind": Traffic.WEIGHTS, "memory": Memory.SCRATCH, "lane_address": 16}
    yield encode(
        Opcode.LOAD_ROWS, **SERIAL, **common, address=ROWS, outer=count, inner=1, outer_stride=1, map=MAP,
        tiles_per_channel=1, lanes=CONFIG.lanes, last_lanes=ROW_LANES,
    )  # fmt: skip
    yield encode(Opcode.STORE, **SERIAL, **common, address=LOADED_ROWS, outer=1, inner=count, inner_stride=1)


def exchange(groups):
    """Add what the channels at the same position in all groups have, plain and out of streams."""
    inner = {"kind": Traffic.WEIGHTS, "memory": Memory.SCRATCH, "outer": 1, "inner": 4, "inner_stride": 1}
    yield encode(Opcode.LOAD, **SERIAL, **inner, address=SUMS, group_stride=2)
    yield encode(
        Opcode.STORE, **SERIAL, **inner, address=INDEX, compressed=1, threshold=2, first=1, start=LOG, end=LOG + 16
    )
    for group in range(1, groups + 1):
        for other in ({"address": SUMS, "group_stride": 3}, {"address": INDEX, "compressed": 1}):
            yield encode(Opcode.LOAD, **SERIAL, **inner, **other, group=group, lane_address=4)
            yield encode(
                Opcode.VECTOR, **SERIAL, op=VectorOp.ADD, a_source=Source.SCRATCH, b_source=Source.SCRATCH, b=4,
                outer=1, inner=4, a_inner=1, b_inner=1, d_inner=1,
            )  # fmt: skip
        yield encode(Opcode.STORE, **SERIAL, **inner, address=EXCHANGED + 4 * group)


def program(groups):
    """Give the words of a program that does all of it."""
    size = CONFIG.channels // groups
    return [*products(size), *squares(size), *rows(size), *exchange(groups), HALT]


def wrong_programs(groups):
    """Give programs that name a channel or a group which there is not, with the engine and the status."""
    size = CONFIG.channels // groups
    common = {"outer": 1, "inner": 1, "memory": Memory.SCRATCH}
    cast = {"tiles_per_channel": 1, "blocks": 1, "gates": 1, "batch": 1, "lanes": 1, "last_lanes": 1, "tiles": 1}
    block = {"tiles_per_channel": 1, "lanes": 4, "last_lanes": 4, "outer": 16, "inner": 1}
    yield "LOAD", "BAD_FIELD", encode(Opcode.LOAD, **common, group=min(groups + 1, (1 << GROUP_BITS) - 1))
    yield "STORE", "BAD_ADDRESS", encode(Opcode.TRANSPOSE, outer=1, rows=1, lanes=1, target=size)
    yield "CAST", "BAD_ADDRESS", encode(Opcode.CAST, **cast, channel=size)
    yield "SEQUENCER", "BAD_ADDRESS", encode(Opcode.LOAD_ROWS, **block, channel=size)
