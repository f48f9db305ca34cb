"""cocotb bench of Broadcaster on a memory, against a plain model of CAST."""

import os
import random
from dataclasses import replace

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from etalstm.formats.codec import index_words
from etalstm_hw.config import preset
from etalstm_hw.contract import BINARY32, COUNT_BITS, STREAM_INDEX, Opcode, Status, cast_sums, encode
from etalstm_hw.stream import Group, Scalar
from etalstm_sim.benches.axi_memory import AxiMemory
from etalstm_sim.benches.unkindness import pauses
from tests.hw.broadcast.cast import CastModel, random_memory
from tests.hw.program.dispatched import dispatched, targets
from tests.hw.stimulus import send

CONFIG = preset(os.environ["PRESET"])
BASE, STRIDE, MEMORY_BYTES = 0x4000, 0x20000, 0x80000
SUMS = cast_sums(CONFIG.lanes, CONFIG.broadcast_words)
STREAMS = 0x200  # first beat that no dense CAST reads
MODEL = CastModel(CONFIG.lanes, CONFIG.beat_words, CONFIG.broadcast_words, STRIDE)
CASTS, SEED = 60, 8
SCALAR = Scalar(BINARY32)
START, BEATS, CHECK, _ = range(len(STREAM_INDEX))


class Bench:
    """The broadcaster with its memory; takes what it sends."""

    def __init__(self, dut, stall):
        self.dut, self.received = dut, []
        self.seen = self.skipped = self.beats = 0
        self._stall = stall
        self.memory = AxiMemory(dut, ["axi__0"], MEMORY_BYTES, stall=stall, seed=SEED)

    @classmethod
    async def begin(cls, dut, stall=0.0, density=0.5, send_zeros=0):
        """Fill the windows, reset."""
        cocotb.log.info("seed %d", SEED)
        bench = cls(dut, stall)
        bench.words = random_memory(random.Random(SEED), CONFIG.channels * STRIDE // 4, density)
        bench.write()
        dut.group.value = Group(CONFIG.address_bits).const({"size": CONFIG.channels, "count": 1}).as_bits()
        dut.windows.value = BASE | STRIDE << CONFIG.address_bits | STRIDE << 2 * CONFIG.address_bits
        Clock(dut.clk, 4, "ns").start()
        dut.i__valid.value, dut.send_zeros.value = 0, send_zeros
        await bench.reset()
        cocotb.start_soon(bench._take())
        return bench

    def write(self):
        """Bring `words` to memory."""
        self.memory.bytes[BASE : BASE + 4 * len(self.words)] = np.array(self.words, np.uint32).view(np.uint8)

    def compress(self, casts):
        """Have the blocks of some CASTs in memory as streams too; give the CASTs that read these."""
        streams = MODEL.compress(casts, self.words, STREAMS)
        self.write()
        return streams

    def index(self, address):
        """Give the index beat at an address of the first window, as an array that can be changed."""
        start = BASE + address * CONFIG.beat_bytes
        return self.memory.bytes[start : start + CONFIG.beat_bytes].view(np.uint32)

    async def reset(self):
        dut = self.dut
        dut.drain.value, dut.stored_by_all.value, dut.o__ready.value, dut.rst.value = 0, 0, 0, 1
        await ClockCycles(dut.clk, 3)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        self.received.clear()

    async def _take(self):
        dut, gaps = self.dut, pauses(self._stall, f"{SEED} take")
        while True:
            ready = not next(gaps)
            dut.o__ready.value = ready
            await RisingEdge(dut.clk)
            if ready and dut.o__valid.value == 1 and not dut.rst.value:
                p = SCALAR.from_bits(int(dut.o__payload.value))
                self.received.append((p.value, p.outer, p.inner, p.tiles, p.narrow, p.begins, p.empty, p.null, p.last))
            self.seen += int(dut.seen.value)
            self.skipped += int(dut.skipped.value)
            self.beats += int(dut.readings.value) & 1

    async def execute(self, casts, stall=0.0):
        await send(
            self.dut,
            "i",
            [cast if isinstance(cast, int) else encode(Opcode.CAST, **cast) for cast in casts],
            stall,
            SEED,
        )

    async def idle(self, limit=40_000):
        """Wait until it is idle, or a status stops it and no read is under way."""
        dut, quiet = self.dut, 0
        for _ in range(limit):
            await RisingEdge(dut.clk)
            stopped = int(dut.status.value) != Status.IDLE and not dut.dma_busy.value
            quiet = quiet + 1 if stopped or not dut.busy.value else 0
            if quiet == 20:
                return
        raise AssertionError(f"still busy after {limit} cycles")

    @property
    def status(self):
        return Status(int(self.dut.status.value))

    async def assert_usable(self, casts):
        """After a reset, as between programs, it does what it should."""
        await self.reset()
        await self.execute(casts)
        await self.idle()
        MODEL.check(casts, self.words, self.received)


def one_block(**changes):
    """A CAST of 4 × 4 vectors from beat 8 of the first window."""
    return {
        "address": 8, "channel": 0, "tile": 0, "tiles_per_channel": 1, "blocks": 1, "gates": 4, "batch": 4, "lane": 0,
        "lanes": CONFIG.lanes, "last_lanes": CONFIG.lanes, "tiles": 2, "first_sum": 0, "batch_outer": 0,
        "start": 1, "finish": 1, "narrow": 0,
    } | changes  # fmt: skip


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9], density=[1.0, 0.3, 0.0])
async def sends_nonzero_scalars_in_canonical_order(dut, stall, density):
    """Every scalar of every block once, in order; each word counted as seen, or as skipped too."""
    bench = await Bench.begin(dut, stall, density)
    casts = MODEL.random_casts(random.Random(f"{SEED} {stall} {density}"), CASTS)
    await bench.execute(casts, stall)
    await bench.idle()
    assert bench.status is Status.IDLE, bench.status.name
    MODEL.check(casts, bench.words, bench.received)
    sent = sum(not empty and not null for *_, empty, null, _ in bench.received)
    assert bench.seen - bench.skipped == sent, f"{bench.seen} seen, {bench.skipped} skipped, {sent} sent"
    beats = sum(cast["blocks"] * cast["gates"] * cast["batch"] * CONFIG.vector_beats for cast in casts)
    assert bench.beats == beats, f"{bench.beats} beats counted, expected {beats}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_tiles_beyond_the_first_256(dut):
    bench = await Bench.begin(dut, 0.5)
    many = one_block(gates=1, batch=1, tile=254, blocks=4, tiles_per_channel=300)
    await bench.execute([many])
    await bench.idle()
    assert bench.status is Status.IDLE, bench.status.name
    MODEL.check([many], bench.words, bench.received)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9], density=[0.3, 0.0])
async def sends_zeros_as_no_terms_where_they_are_not_skipped(dut, stall, density):
    """Every word once, in order, of dense blocks and of streams; zeros count as seen only, and are in no sum."""
    bench = await Bench.begin(dut, stall, density, send_zeros=1)
    model = replace(MODEL, send_zeros=True)
    generator = random.Random(f"{SEED} zeros {stall} {density}")
    casts = [cast | {"channel": 0, "tile": 0, "blocks": 1} for cast in model.random_casts(generator, CASTS)]
    streams = bench.compress(casts)
    await bench.execute([pair[generator.random() < 0.5] for pair in zip(casts, streams, strict=True)], stall)
    await bench.idle()
    assert bench.status is Status.IDLE, bench.status.name
    model.check(casts, bench.words, bench.received)
    assert bench.skipped == 0, f"{bench.skipped} counted as skipped"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9], density=[1.0, 0.3, 0.0])
async def sends_the_scalars_of_streams(dut, stall, density):
    """What dense blocks would send, from the beats of indices and streams alone, dense ones in between."""
    bench = await Bench.begin(dut, stall, density)
    generator = random.Random(f"{SEED} streams {stall} {density}")
    casts = [cast | {"channel": 0, "tile": 0, "blocks": 1} for cast in MODEL.random_casts(generator, CASTS)]
    streams = bench.compress(casts)
    mixed = [pair[generator.random() < 0.8] for pair in zip(casts, streams, strict=True)]
    await bench.execute(mixed, stall)
    await bench.idle()
    assert bench.status is Status.IDLE, bench.status.name
    MODEL.check(casts, bench.words, bench.received)
    sent = sum(not empty and not null for *_, empty, null, _ in bench.received)
    assert bench.seen - bench.skipped == sent, f"{bench.seen} seen, {bench.skipped} skipped, {sent} sent"
    beats = sum(
        1 + int(bench.index(cast["address"])[BEATS])
        if "compressed" in cast
        else cast["gates"] * cast["batch"] * CONFIG.vector_beats
        for cast in mixed
    )
    assert bench.beats == beats, f"{bench.beats} beats counted, expected {beats}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def hides_the_way_to_a_stream(dut):
    """Indices and streams are read while blocks before them are sent: no cycle without a scalar in between."""
    bench = await Bench.begin(dut, density=0.5)
    casts = bench.compress([one_block(address=32 * n, batch=8) for n in range(8)])
    await bench.execute(casts)
    cycles = 0
    while not bench.received or bench.received[-1][-1] == 0 or sum(message[-1] for message in bench.received) < 8:
        await RisingEdge(dut.clk)
        cycles += bool(bench.received)
        assert cycles < 2000, f"{len(bench.received)} scalars after 2000 cycles"
    cocotb.log.info("%d scalars in %d cycles", len(bench.received), cycles)
    assert cycles <= len(bench.received) + 8, f"{len(bench.received)} scalars took {cycles} cycles"


DAMAGES = {
    "starts beyond the window": {"start": lambda _: STRIDE // CONFIG.beat_bytes},
    "starts far beyond": {"start": lambda _: 0xFFFFFFFF},
    "no beats": {"beats": lambda _: 0},
    "too few beats": {"beats": lambda beats: beats - 1},
    "too many beats": {"beats": lambda beats: beats + 1},
    "more beats than memory": {"beats": lambda _: 0xFFFFFFFF},
    "fewer elements": {"elements": lambda elements: elements - CONFIG.lanes},
    "fewer kept": {"kept": lambda kept: kept - 1},
    "of another address": {"address": lambda address: address + 1},
    "another check": {"check": lambda check: check ^ 1 << 31},
    "a mask bit more": {"mask": lambda _: 0xFFFFFFFF},
    "a mask bit less": {"mask": lambda mask: mask & mask - 1},
}


def damage_stream(damage, index, mask, elements, address):
    """Change a word of an index, which has the check of that word then, or the check itself, or a mask."""
    start, beats, check, kept = map(int, index)
    words = {"start": start, "beats": beats, "elements": elements, "kept": kept, "address": address}
    changed = words | {"check": check, "mask": int(mask[0])}
    for name, change in DAMAGES[damage].items():
        changed[name] = change(changed[name])
    index[:] = index_words(*(changed[name] for name in words))
    if "check" in DAMAGES[damage]:
        index[CHECK] = changed["check"]
    mask[0] = changed["mask"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(damage=list(DAMAGES), stall=[0.0, 0.5])
async def refuses_streams_that_nothing_writes(dut, damage, stall):
    """The status names the cause, the count the instruction; what came before is sent; after a reset all is well."""
    bench = await Bench.begin(dut, stall)
    good = one_block()
    casts = bench.compress([good, one_block(address=40), one_block(address=80)])
    index = bench.index(casts[1]["address"])
    before = index.copy()
    beats = bench.index(int(index[START]))
    stream = beats.copy()
    elements = good["gates"] * good["batch"] * CONFIG.lanes
    damage_stream(damage, index[: len(STREAM_INDEX)], beats, elements, casts[1]["address"])
    await bench.execute(casts)
    await bench.idle()
    assert bench.status is Status.BAD_STREAM, bench.status.name
    assert int(dut.completed.value) == 1, f"{int(dut.completed.value)} completed, expected 1"
    sent = MODEL.messages(good, bench.words, {})
    await ClockCycles(dut.clk, 4 * len(sent))  # that the machine goes on until it is reset
    assert len(bench.received) >= len(sent), f"{len(bench.received)} messages, expected {len(sent)} of the first CAST"
    index[:], beats[:] = before, stream
    await bench.reset()
    await bench.execute(casts)
    await bench.idle()
    MODEL.check([good, one_block(address=40), one_block(address=80)], bench.words, bench.received)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def sends_a_scalar_a_cycle(dut):
    """Blocks that follow each other are read ahead."""
    bench = await Bench.begin(dut, density=1.0)
    await bench.execute([one_block(blocks=1, address=16 * n) for n in range(8)])
    cycles = 0
    while len(bench.received) < 8 * 16 * CONFIG.lanes:
        await RisingEdge(dut.clk)
        cycles += bool(bench.received)
        assert cycles < 2000, f"{len(bench.received)} scalars after 2000 cycles"
    cocotb.log.info("%d scalars in %d cycles", len(bench.received), cycles)
    assert cycles <= len(bench.received) + 8 * 4, f"{len(bench.received)} scalars took {cycles} cycles"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def waits_until_every_channel_has_stored(dut):
    """Nothing is read before; the instruction behind waits too."""
    bench = await Bench.begin(dut)
    casts = [one_block(), one_block(address=40)]
    await bench.execute([dispatched(Opcode.CAST, targets(store=3), **casts[0]), casts[1]])
    for stored in range(3):
        dut.stored_by_all.value = stored
        for _ in range(30):
            await RisingEdge(dut.clk)
            assert not dut.axi__0__arvalid.value, f"a read after {stored} stores, expected none before 3"
    dut.stored_by_all.value = 3
    await bench.idle()
    MODEL.check(casts, bench.words, bench.received)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.9], place=[0, 15, "index", "stream"])
async def reports_a_read_error(dut, stall, place):
    """An error in any beat gives the status and stops what follows; reads end, and after a reset all is well."""
    bench = await Bench.begin(dut, stall)
    casts = [one_block(), one_block(address=40), one_block(address=80)]
    dense, beat = casts, 40
    if isinstance(place, str):
        casts = bench.compress(casts)
        beat = casts[1]["address"] if place == "index" else int(bench.index(casts[1]["address"])[START])
    fault = BASE + (beat + (place if place == 15 else 0)) * CONFIG.beat_bytes
    bench.memory.inject(fault, fault + 4)
    await bench.execute(casts)
    await bench.idle()
    assert bench.status is Status.READ_ERROR, bench.status.name
    assert int(dut.completed.value) == 1, f"{int(dut.completed.value)} completed, expected 1"
    bench.memory.clear_faults()
    await bench.reset()
    await bench.execute(casts)
    await bench.idle()
    MODEL.check(dense, bench.words, bench.received)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    bad=[
        one_block(address=STRIDE // CONFIG.beat_bytes - 15),
        one_block(address=(1 << 28) - 1),
        one_block(channel=CONFIG.channels),
        one_block(channel=CONFIG.channels - 1, tile=1, blocks=2, tiles_per_channel=2),
        one_block(compressed=1, address=STRIDE // CONFIG.beat_bytes),
        one_block(compressed=1, channel=CONFIG.channels),
    ]
)
async def refuses_blocks_outside_the_windows(dut, bad):
    """Nothing of them is read; what came before is sent; after a reset all is well."""
    await refuses(dut, bad, Status.BAD_ADDRESS)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    bad=[
        one_block(batch=CONFIG.broadcast_words // 4 // CONFIG.lanes + 1),
        one_block(gates=5, batch=1),
        one_block(lane=1),
        one_block(first_sum=SUMS - 3),
        one_block(first_sum=(1 << COUNT_BITS) - 1),
        one_block(first_sum=SUMS - 4 * CONFIG.lanes + 1, batch_outer=1),
        *(one_block(**{name: 0}) for name in ("gates", "batch", "blocks", "tiles_per_channel", "last_lanes", "tiles")),
    ]
)
async def refuses_blocks_that_cannot_be(dut, bad):
    """A count of 0, a block that is larger than a buffer, gates, lanes and sums that there are not."""
    await refuses(dut, bad, Status.BAD_FIELD)


async def refuses(dut, bad, status):
    bench = await Bench.begin(dut, 0.5)
    good = one_block()
    await bench.execute([good, bad])
    await bench.idle()
    assert bench.status is status, f"{bench.status.name}, expected {status.name}"
    assert int(dut.completed.value) == 1, f"{int(dut.completed.value)} completed, expected 1"
    inside = 1 + (bad["blocks"] == 2)
    assert bench.beats == inside * 16 * CONFIG.vector_beats, f"{bench.beats} beats read"
    await bench.assert_usable([good])


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(cycles=[9, 14, 25, 60])
async def ends_reads_when_aborted(dut, cycles):
    """``dma_busy`` falls, whatever was under way, and stays down."""
    bench = await Bench.begin(dut, 0.5)
    await bench.execute([one_block(address=20 * n) for n in range(3)])
    await ClockCycles(dut.clk, cycles)
    dut.drain.value = 1
    for _ in range(500):
        await RisingEdge(dut.clk)
        if not dut.dma_busy.value:
            break
    for _ in range(50):
        assert not dut.dma_busy.value, "memory accesses do not end"
        await RisingEdge(dut.clk)
    await bench.assert_usable([one_block()])
