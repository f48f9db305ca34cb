"""The broadcaster, in parts and whole, against a plain model of the CAST instruction."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from etalstm_hw.axi.reader import ReadBeat
from etalstm_hw.broadcast.blocks import BlockBuffer
from etalstm_hw.broadcast.broadcaster import Broadcaster
from etalstm_hw.broadcast.emitter import ScalarEmitter
from etalstm_hw.broadcast.fetcher import BlockFetcher
from etalstm_hw.broadcast.masks import NonzeroMasks, PatchSizes
from etalstm_hw.config import preset
from etalstm_hw.contract import BINARY32, Opcode, Status
from etalstm_hw.stream import instruction_layout
from etalstm_sim.benches.bench import run_bench
from etalstm_sim.benches.identified import Identified
from tests.hw.broadcast.cast import CastModel, random_memory

LANES, BEAT_WORDS, WORDS, CHANNELS = 8, 4, 128, 2
VECTOR_BEATS = LANES // BEAT_WORDS
STRIDE = 1 << 17
MODEL = CastModel(LANES, BEAT_WORDS, WORDS, STRIDE)
SENDS_ZEROS = replace(MODEL, send_zeros=True)


class Dut(Elaboratable):
    """Fetcher, buffer and emitter, with the reader played by the test."""

    def __init__(self):
        self.fetcher = BlockFetcher(
            BINARY32,
            beat_words=BEAT_WORDS,
            vector_beats=VECTOR_BEATS,
            words=WORDS,
            address_bits=20,
        )
        self.masks = NonzeroMasks(BINARY32, PatchSizes(LANES, BEAT_WORDS, WORDS))
        self.emitter = ScalarEmitter(BINARY32, lanes=LANES, beat_words=BEAT_WORDS, words=WORDS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetcher, m.submodules.emitter = fetcher, emitter = self.fetcher, self.emitter
        m.submodules.buffer = buffer = BlockBuffer(beat_bits=32 * BEAT_WORDS, words=WORDS, beat_words=BEAT_WORDS)
        m.submodules.masks = masks = self.masks
        connect(m, fetcher.o, emitter.i)
        connect(m, emitter.masks, masks.read)
        m.d.comb += [
            masks.block.eq(fetcher.block),
            masks.write_data.eq(fetcher.write_data),
            masks.write_enable.eq(fetcher.write_enable),
            fetcher.release.eq(emitter.release),
            buffer.write_address.eq(fetcher.write_address),
            buffer.write_data.eq(fetcher.write_data),
            buffer.write_enable.eq(fetcher.write_enable),
            buffer.read_address.eq(emitter.read_address),
            buffer.read_enable.eq(emitter.read_enable),
            emitter.read_data.eq(buffer.read_data),
        ]
        return m


def run(casts, memory, stall, seed, send_zeros=0):
    rng = random.Random(seed)
    dut = Dut()
    received = []
    layout = instruction_layout(Opcode.CAST)

    async def feed(ctx):
        ctx.set(dut.fetcher.windows.stride, STRIDE)
        ctx.set(dut.fetcher.windows.size, STRIDE)
        ctx.set(dut.fetcher.group.size, CHANNELS)
        ctx.set(dut.masks.send_zeros, send_zeros)
        for cast in casts:
            ctx.set(dut.fetcher.i.payload, layout.const({**cast, "opcode": Opcode.CAST}))
            ctx.set(dut.fetcher.i.valid, 1)
            await ctx.tick().until(dut.fetcher.i.ready)
            ctx.set(dut.fetcher.i.valid, 0)

    async def read(ctx):
        fetcher = dut.fetcher
        beat = ReadBeat(32 * BEAT_WORDS)
        while True:
            ctx.set(fetcher.command.ready, 1)
            (command,) = await ctx.tick().sample(fetcher.command.payload).until(fetcher.command.valid)
            ctx.set(fetcher.command.ready, 0)
            for n in range(command.beats):
                while rng.random() < stall:
                    await ctx.tick()
                first = command.address // 4 + n * BEAT_WORDS
                word = sum(memory[first + i] << 32 * i for i in range(BEAT_WORDS))
                ctx.set(fetcher.data.payload, beat.const({"data": word, "last": n == command.beats - 1}))
                ctx.set(fetcher.data.valid, 1)
                await ctx.tick().until(fetcher.data.ready)
                ctx.set(fetcher.data.valid, 0)

    async def receive(ctx):
        o, ended = dut.emitter.o, 0
        while ended < len(casts):
            ctx.set(o.ready, rng.random() >= stall)
            _, _, valid, ready, p = await ctx.tick().sample(o.valid, o.ready, o.payload)
            if valid and ready:
                received.append((p.value, p.outer, p.inner, p.tiles, p.narrow, p.begins, p.empty, p.null, p.last))
                ended += p.last
        ctx.set(o.ready, 0)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed)
    simulator.add_testbench(read, background=True)
    simulator.add_testbench(receive)
    simulator.run()
    return received


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("density", [1.0, 0.3, 0.0])
def test_sends_nonzero_scalars_in_canonical_order(stall, density):
    rng = random.Random(f"{stall} {density}")
    memory = random_memory(rng, CHANNELS * STRIDE // 4, density)
    casts = MODEL.random_casts(rng, 12)
    MODEL.check(casts, memory, run(casts, memory, stall, rng.random()))


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("density", [1.0, 0.3, 0.0])
def test_sends_zeros_as_no_terms_where_they_are_not_skipped(stall, density):
    rng = random.Random(f"zeros {stall} {density}")
    memory = random_memory(rng, CHANNELS * STRIDE // 4, density)
    casts = SENDS_ZEROS.random_casts(rng, 12)
    SENDS_ZEROS.check(casts, memory, run(casts, memory, stall, rng.random(), send_zeros=1))


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("density", [1.0, 0.3, 0.0])
def test_sends_the_same_of_streams(stall, density):
    """Compressed and dense blocks in turn."""
    rng = random.Random(f"streams {stall} {density}")
    memory = random_memory(rng, CHANNELS * STRIDE // 4, density)
    casts = MODEL.random_casts(rng, 12)
    streams = MODEL.compress(casts, memory, 1 << 10)
    mixed = [pair[rng.random() < 0.7] for pair in zip(casts, streams, strict=True)]
    MODEL.check(casts, memory, run(mixed, memory, stall, rng.random()))


def test_continues_the_sums_of_the_cast_before():
    memory = [0] * (2 * STRIDE // 4)
    memory[0] = memory[64] = 0x3F800000
    base = MODEL.random_casts(random.Random(1), 1)[0] | {
        "address": 0, "tile": 0, "tiles_per_channel": 1, "blocks": 1, "gates": 1, "batch": 4, "lane": 0, "lanes": 1,
        "last_lanes": 1, "tiles": 1, "narrow": 0, "first_sum": 0, "batch_outer": 0, "start": 1, "finish": 0,
    }  # fmt: skip
    received = run([base, base | {"address": 16, "start": 0, "finish": 1}], memory, 0.0, 1)
    scalars = [(inner, first, empty) for _, _, inner, _, _, first, empty, null, _ in received if not null]
    assert scalars == [(0, 1, 0), (0, 0, 0), (1, 1, 1), (2, 1, 1), (3, 1, 1)]


def test_casts_in_turn_go_on_with_the_sums_that_each_has():
    """Two arrays take turns with their runs; after the last one the sums of both that never began are there."""
    memory = [0] * (2 * STRIDE // 4)
    memory[1], memory[64], memory[128], memory[192] = (0x3F800000,) * 4  # one scalar of each CAST
    base = {
        "address": 0, "channel": 0, "tile": 0, "tiles_per_channel": 1, "blocks": 1, "gates": 1, "batch": 2, "lane": 0,
        "lanes": 2, "last_lanes": 2, "tiles": 3, "narrow": 0, "first_sum": 0, "batch_outer": 0, "start": 0, "finish": 0,
    }  # fmt: skip
    casts = [
        base | {"start": 1},
        base | {"address": 16, "first_sum": 2, "batch": 3},
        base | {"address": 32},
        base | {"address": 48, "first_sum": 2, "batch": 3, "finish": 1},
    ]
    received = run(casts, memory, 0.0, 1)
    scalars = [(inner // 3, first, empty) for _, _, inner, _, _, first, empty, null, _ in received if not null]
    assert scalars == [(0, 1, 0), (2, 1, 0), (0, 0, 0), (2, 0, 0), (1, 1, 1), (3, 1, 1), (4, 1, 1)]


@pytest.mark.parametrize("change", [{"address": STRIDE // 16 - 1, "batch": 2}, {"channel": CHANNELS}])
def test_refuses_blocks_outside_the_windows(change):
    cast = MODEL.random_casts(random.Random(2), 1)[0] | {"batch": 2, "gates": 1, "tile": 0, "blocks": 1} | change
    dut = Dut()

    async def bench(ctx):
        ctx.set(dut.fetcher.windows.stride, STRIDE)
        ctx.set(dut.fetcher.windows.size, STRIDE)
        ctx.set(dut.fetcher.group.size, CHANNELS)
        ctx.set(dut.fetcher.i.payload, instruction_layout(Opcode.CAST).const(cast))
        ctx.set(dut.fetcher.i.valid, 1)
        for _ in range(12):
            await ctx.tick()
            assert not ctx.get(dut.fetcher.command.valid)
        assert ctx.get(dut.fetcher.status) == Status.BAD_ADDRESS

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_broadcaster(tmp_path):
    broadcaster = Identified(Broadcaster(preset("test")))
    bench = Path(__file__).with_name("bench_broadcaster.py")
    run_bench(broadcaster, "broadcaster", bench, tmp_path, environment={"PRESET": "test"})
