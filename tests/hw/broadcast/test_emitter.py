"""The scalar emitter's cycles: zeros cost none, or one for a whole patch of them."""

import random
from itertools import pairwise

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from etalstm_hw import contract
from etalstm_hw.broadcast.blocks import BlockBuffer, BlockLayout
from etalstm_hw.broadcast.emitter import ScalarEmitter
from etalstm_hw.broadcast.masks import NonzeroMasks, PatchSizes
from etalstm_hw.config import PRESETS
from etalstm_hw.contract import BINARY32, LANE_ADDRESS_BITS, Opcode
from tests.hw.broadcast.cast import random_memory

SIZES = sorted({(c.lanes, c.beat_words, c.broadcast_words) for c in PRESETS.values() if not c.integers})
SEED = 11


class Dut(Elaboratable):
    """Buffer, masks and emitter, with the fetcher played by the test."""

    def __init__(self, lanes, beat_words, words):
        self.sizes = sizes = PatchSizes(lanes, beat_words, words)
        self.buffer = BlockBuffer(beat_bits=32 * beat_words, words=words, beat_words=beat_words)
        self.masks = NonzeroMasks(BINARY32, sizes)
        self.emitter = ScalarEmitter(BINARY32, lanes=lanes, beat_words=beat_words, words=words)

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer, m.submodules.masks, m.submodules.emitter = self.buffer, self.masks, self.emitter
        connect(m, self.emitter.masks, self.masks.read)
        m.d.comb += [
            self.buffer.read_address.eq(self.emitter.read_address),
            self.buffer.read_enable.eq(self.emitter.read_enable),
            self.emitter.read_data.eq(self.buffer.read_data),
            self.masks.write_data.eq(self.buffer.write_data),
            self.masks.write_enable.eq(self.buffer.write_enable),
        ]
        return m


class Blocks:
    """Full blocks with four gates of random words, and in which order their scalars are due."""

    def __init__(self, size, batch_outer, density, count=1, tiles=1):
        self.size, self.batch_outer, self.count, self.tiles = size, batch_outer, count, tiles
        self.lanes, self.beat_words, self.words = size
        self.batch = self.words // self.lanes // 4
        print(f"seed {SEED}")
        rng = random.Random(SEED)
        self.blocks = [random_memory(rng, self.words, density) for _ in range(count)]

    def fields(self, number):
        """Members of BlockLayout."""
        rows = 4 * self.lanes
        span, sums = (self.batch, rows) if self.batch_outer else (rows, self.batch)
        return {
            "bank": number % 2, "lane": 0, "last_lane": self.lanes - 1, "gates": 4, "batch": self.batch,
            "tiles": self.tiles, "row_vectors": self.tiles, "narrow": 0, "batch_outer": self.batch_outer,
            "outer": self.offset(number * span), "inner": 0, "sums": sums,
            "start": number == 0, "finish": 0, "last": number == self.count - 1,
        }  # fmt: skip

    def offset(self, index):
        """The offset of an index; beyond every lane memory if it is too large for any."""
        return min(index * self.tiles, 1 << LANE_ADDRESS_BITS)

    def scalars(self, zeros=False):
        """Words to be sent in order, each with the number of its patch and its two offsets."""
        rows, batch, chunk = range(4 * self.lanes), range(self.batch), PatchSizes(*self.size).chunk
        for number, block in enumerate(self.blocks):
            for place in (
                [(b, r) for b in batch for r in rows] if self.batch_outer else [(r, b) for r in rows for b in batch]
            ):
                r, b = reversed(place) if self.batch_outer else place
                word = block[(r % 4 * self.batch + b) * self.lanes + r // 4]
                patches = self.lanes // self.beat_words
                patch = (
                    b * patches + r // 4 // self.beat_words
                    if self.batch_outer
                    else r * -(-self.batch // chunk) + b // chunk
                )
                if zeros or word & 0x7F800000:
                    span, other = (len(batch), r) if self.batch_outer else (len(rows), b)
                    yield word, number * self.words + patch, self.offset(number * span + place[0]), self.offset(other)

    @property
    def patches(self):
        """Patches of a block."""
        if self.batch_outer:
            return self.batch * self.lanes // self.beat_words
        return 4 * self.lanes * -(-self.batch // PatchSizes(*self.size).chunk)


def run(blocks, period=1, send_zeros=0):
    """Send blocks to a consumer that takes a word every `period` cycles; give words with the cycles of their arrival,
    and those in which the consumer waited for them."""
    dut = Dut(*blocks.size)
    received, offsets, released = [], [], 0

    async def fill(ctx):
        ctx.set(dut.masks.send_zeros, send_zeros)
        for number, words in enumerate(blocks.blocks):
            while number - released >= 2:
                await ctx.tick()
            ctx.set(dut.masks.block, BlockLayout(blocks.words).const(blocks.fields(number)))
            ctx.set(dut.emitter.i.payload, BlockLayout(blocks.words).const(blocks.fields(number)))
            beats = len(words) // blocks.beat_words
            for n in range(beats):
                beat = words[n * blocks.beat_words : (n + 1) * blocks.beat_words]
                ctx.set(dut.buffer.write_address, number % 2 * beats + n)
                ctx.set(dut.buffer.write_data, sum(word << 32 * i for i, word in enumerate(beat)))
                ctx.set(dut.buffer.write_enable, 1)
                await ctx.tick()
            ctx.set(dut.buffer.write_enable, 0)
            ctx.set(dut.emitter.i.valid, 1)
            await ctx.tick().until(dut.emitter.i.ready)
            ctx.set(dut.emitter.i.valid, 0)

    async def take(ctx):
        nonlocal released
        cycle, free_at, waited, ended = 0, 0, 0, False
        o = dut.emitter.o
        while not ended:
            ctx.set(o.ready, cycle >= free_at)
            _, _, valid, ready, p, release = await ctx.tick().sample(o.valid, o.ready, o.payload, dut.emitter.release)
            released += release
            if valid and ready:
                received.append((p.value, cycle, waited))
                offsets.append((p.outer, p.inner))
                free_at, waited, ended = cycle + period, 0, p.last
            elif ready:
                waited += 1
            cycle += 1

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(fill)
    simulator.add_testbench(take)
    simulator.run()
    due = list(blocks.scalars(send_zeros))
    words, expected = [word for word, *_ in received], [word for word, *_ in due]
    differing = [n for n, pair in enumerate(zip(words, expected, strict=False)) if pair[0] != pair[1]]
    assert words == expected, f"{len(words)} words, expected {len(expected)}; the first {differing[:1]} differs"
    for n, (got, (*_, outer, inner)) in enumerate(zip(offsets, due, strict=True)):
        assert got == (outer, inner), f"scalar {n} has the offsets {got}, expected {(outer, inner)}"
    return received


@pytest.mark.parametrize("batch_outer", [0, 1], ids=["rows", "batch"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sends_a_scalar_a_cycle_across_blocks(size, batch_outer):
    received = run(Blocks(size, batch_outer, 1.0, count=4 if size[2] < 1000 else 2))
    cycles = received[-1][1] - received[0][1] + 1
    assert cycles == len(received), f"{len(received)} scalars took {cycles} cycles"


@pytest.mark.parametrize("batch_outer", [0, 1], ids=["rows", "batch"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_zeros_that_are_not_skipped_cost_a_cycle_each(size, batch_outer):
    received = run(Blocks(size, batch_outer, 0.1), send_zeros=1)
    cycles = received[-1][1] - received[0][1] + 1
    assert cycles == size[2], f"a block of {size[2]} words took {cycles} cycles"


@pytest.mark.parametrize("batch_outer", [0, 1], ids=["rows", "batch"])
@pytest.mark.parametrize("density", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_zeros_cost_no_more_than_a_cycle_a_patch(size, density, batch_outer):
    blocks = Blocks(size, batch_outer, density)
    received = run(blocks)
    patches = [patch for _, patch, *_ in blocks.scalars()]
    empty = patches[-1] - patches[0] + 1 - len(set(patches))
    cycles = received[-1][1] - received[0][1] + 1
    assert len(received) <= cycles <= len(received) + empty, f"{cycles} cycles, {len(received)} scalars, {empty} empty"


@pytest.mark.parametrize("batch_outer", [0, 1], ids=["rows", "batch"])
@pytest.mark.parametrize("density", [0.25, 0.1])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_feeds_a_consumer_of_four_cycles(size, density, batch_outer):
    """It waits only behind so many empty patches that they take longer than the scalar before them."""
    blocks, period = Blocks(size, batch_outer, density), 4
    received = run(blocks, period)
    patches = [patch for _, patch, *_ in blocks.scalars()]
    for n in range(1, len(received)):
        allowed = max(0, patches[n] - patches[n - 1] - period)
        waited = received[n][2]
        assert waited <= allowed, (
            f"scalar {n} came {waited} cycles late, behind {patches[n] - patches[n - 1] - 1} patches"
        )


@pytest.mark.parametrize("batch_outer", [0, 1], ids=["rows", "batch"])
def test_offsets_too_large_for_every_memory_stay_too_large(batch_outer):
    """Both offsets of the largest block, with as many tiles as a CAST can name."""
    blocks = Blocks(max(SIZES), batch_outer, 0.1, count=3, tiles=(1 << contract.FIELDS[Opcode.CAST]["tiles"]) - 1)
    run(blocks)
    assert any(outer == 1 << LANE_ADDRESS_BITS for *_, outer, _ in blocks.scalars()), "no offset was too large"


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_block_behind_zeros_follows_after_a_cycle(size):
    """Only half of the lanes is not zero: the walk stops there, and the next block, filled by then, begins."""
    blocks = Blocks(size, 0, 1.0, count=2)
    for block in blocks.blocks:
        block[:] = [word if n % blocks.lanes < blocks.lanes // 2 else 0 for n, word in enumerate(block)]
    gaps = [later[1] - earlier[1] for earlier, later in pairwise(run(blocks))]
    assert max(gaps) <= 2, f"a gap of {max(gaps) - 1} cycles, expected at most 1"
