"""cocotb bench of compressed LOAD against the golden codec."""

import os
import random

import cocotb
import numpy as np
from axi_memory import (
    BEAT_BYTES,
    BEAT_WORDS,
    CHANNEL,
    LANES,
    MEMORY_BYTES,
    VECTOR_BEATS,
    WINDOW_BEATS,
    FaultyRam,
    Trace,
    begin,
    reset,
    send,
    window,
)
from cocotb.triggers import ClockCycles, RisingEdge

from etalstm.formats import codec
from etalstm_hw.contract import LANE_ADDRESS_BITS, STREAM_INDEX, Memory, Opcode, Status, encode
from etalstm_sim.benches.unkindness import pauses

SEED = 23
DECOMPRESSOR_WORDS = int(os.environ["DECOMPRESSOR_WORDS"])
BEATS = STREAM_INDEX.index("beats")


def load(address, outer, inner, *, compressed=1, bf16=0, kind=2, memory=Memory.SCRATCH, lane_address=0, outer_stride=0,
         inner_stride=1):  # fmt: skip
    fields = dict(
        address=address, outer=outer, inner=inner, kind=kind, memory=int(memory), lane_address=lane_address,
        outer_stride=outer_stride, inner_stride=inner_stride,
    )  # fmt: skip
    return fields | (dict(compressed=1, bf16=bf16) if compressed else {})


class Streams:
    """A memory full of noise, with the streams that instructions read."""

    def __init__(self, density=0.4):
        self.image = bytearray(random.Random(SEED).randbytes(MEMORY_BYTES))
        self.expected = {}
        self._density, self._rng = density, np.random.default_rng(SEED)

    def beats(self, beat, count):
        """Words of some beats of the window, to be changed."""
        start = window(CHANNEL) + beat * BEAT_BYTES
        return np.frombuffer(self.image, np.uint32)[start // 4 : start // 4 + count * BEAT_WORDS]

    def put(self, n, start):
        """Write the stream of an instruction at beat `start`; give the beat behind it."""
        values = self._rng.normal(size=n["outer"] * n["inner"] * LANES).astype(np.float32)
        values[self._rng.random(values.size) >= self._density] = 0
        words = codec.encode(values, 0.0, bool(n["bf16"]), BEAT_WORDS)
        beats = words.size // BEAT_WORDS
        self.beats(start, beats)[:] = words
        index = codec.index_words(start, beats, values.size, np.count_nonzero(values), n["address"])
        self.beats(n["address"], 1)[: len(STREAM_INDEX)] = index
        self.expected[n["address"]] = codec.decode(words, values.size, bool(n["bf16"]), BEAT_WORDS).view(np.uint32)
        return start + beats

    def writes(self, n):
        """The writes an instruction makes: (memory, lane address, enable, words of the enabled beat)."""
        size = n["outer"] * n["inner"] * LANES
        words = self.expected[n["address"]] if "compressed" in n else self.beats(n["address"], size // BEAT_WORDS)
        writes, parts = [], iter(words.reshape(-1, BEAT_WORDS))
        for outer in range(n["outer"]):
            for inner in range(n["inner"]):
                address = n["lane_address"] + outer * n["outer_stride"] + inner * n["inner_stride"]
                for part in range(VECTOR_BEATS):
                    enable = 1 << part
                    data = int.from_bytes(next(parts).tobytes(), "little")
                    writes.append((n["memory"], address % (1 << LANE_ADDRESS_BITS), enable, data))
        return writes

    def beats_read(self, n):
        if "compressed" in n:
            return 1 + int(self.beats(n["address"], 1)[BEATS])
        return n["outer"] * n["inner"] * VECTOR_BEATS


class Lanes:
    """Takes the writes, with stalls."""

    def __init__(self, dut, stall=0.0):
        self.writes, self.cycles = [], []
        self._dut = dut
        cocotb.start_soon(self._take(pauses(stall, SEED)))

    async def _take(self, waits):
        dut, cycle = self._dut, 0
        while True:
            pause = next(waits)
            dut.load_write__ready.value = not pause
            await RisingEdge(dut.clk)
            cycle += 1
            if not pause and dut.load_write__valid.value == 1:
                word = int(dut.load_write__payload.value)
                enable = word >> 2 + LANE_ADDRESS_BITS & (1 << VECTOR_BEATS) - 1
                words = word >> 2 + LANE_ADDRESS_BITS + VECTOR_BEATS
                part = enable.bit_length() - 1
                data = words >> 8 * BEAT_BYTES * part & (1 << 8 * BEAT_BYTES) - 1
                self.writes.append((word & 3, word >> 2 & (1 << LANE_ADDRESS_BITS) - 1, enable, data))
                self.cycles.append(cycle)


async def prepare(dut, streams, stall=0.0, latency=10, errors=None):
    await begin(dut)
    ram, lanes, trace = FaultyRam(dut, stall, latency, errors), Lanes(dut, stall), Trace(dut, "load")
    ram.write(0, bytes(streams.image))
    return lanes, trace


def check(lanes, expected):
    for n, (got, want) in enumerate(zip(lanes.writes, expected, strict=False)):
        assert got == want, f"write {n}: {tuple(map(hex, got))}, expected {tuple(map(hex, want))}"
    assert len(lanes.writes) == len(expected), f"{len(lanes.writes)} writes, expected {len(expected)}"


async def execute(dut, instructions):
    await send(dut, "load_i", [encode(Opcode.LOAD, **n) for n in instructions])


PROGRAM = [
    load(0, 3, 7, kind=1, lane_address=40, outer_stride=64, inner_stride=3),
    load(1, 1, 1, bf16=1, memory=Memory.WEIGHTS),
    load(40, 1, 9, compressed=0, kind=3),
    load(2, 2, 16, bf16=1, lane_address=8190),
    load(3, 1, 1),
    load(4, 1, 33, kind=0),
    load(5, 1, 2, memory=Memory.BIAS),
    load(90, 2, 4, compressed=0),
    load(WINDOW_BEATS - 1, 1, 5),
]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9], density=[0.0, 0.4, 1.0])
async def writes_golden_elements(dut, stall, density):
    """Streams and plain vectors in their order, every element in its lane; bytes are counted with the index beats."""
    streams, end = Streams(density), 200
    for n in PROGRAM:
        end = streams.put(n, end) if "compressed" in n else end
    lanes, trace = await prepare(dut, streams, stall)
    program = PROGRAM if stall < 0.9 else PROGRAM[1:5]
    await execute(dut, program)
    await trace.idle(20_000)
    check(lanes, [write for n in program for write in streams.writes(n)])
    assert len(trace.done) == len(program) and trace.status == Status.IDLE
    for kind in range(4):
        expected = sum(streams.beats_read(n) for n in program if n["kind"] == kind)
        assert trace.beats.count(kind) == expected, f"kind {kind}: {trace.beats.count(kind)} beats, expected {expected}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(density=[0.0, 0.2, 1.0], bf16=[0, 1])
async def decompresses_its_words_every_cycle(dut, density, bf16):
    """Behind a memory of 40 cycles, from one stream to the next: their indices are read ahead of time."""
    streams, end = Streams(density), 200
    program = [load(n, 1, 512 // LANES, bf16=bf16) for n in range(8)]
    for n in program:
        end = streams.put(n, end)
    lanes, trace = await prepare(dut, streams, latency=40)
    await execute(dut, program)
    await trace.idle(10_000)
    check(lanes, [write for n in program for write in streams.writes(n)])
    cycles = (trace.done[-1] - trace.done[0]) / 7
    dut._log.info(f"density {density}, bf16 {bf16}: 512 elements in {cycles} cycles")
    ideal = 512 / DECOMPRESSOR_WORDS * (33 / 32 if density == 1 and not bf16 else 1)
    assert cycles <= ideal + 12, f"{cycles} cycles a stream, expected {ideal}, the pause between streams and the fill"


def damaged(word, value=None, more=0):
    """An index with another word, or with one that is larger, and with the check of that word; or another check."""

    def damage(streams, n, _):
        index = streams.beats(n["address"], 1)[: len(STREAM_INDEX)]
        words = dict(zip(STREAM_INDEX, map(int, index), strict=True))
        words |= {"elements": n["outer"] * n["inner"] * LANES, "address": n["address"]}
        words[word] = words[word] + more if value is None else value
        check = words.pop("check")
        index[:] = codec.index_words(**words)
        if word == "check":
            index[STREAM_INDEX.index("check")] = check

    return damage


def mask_beyond(streams, _, start):
    """A bit beyond the last element, in the only mask that can have one; else a bit more."""
    mask = streams.beats(start, 1)
    free = next(bit for bit in reversed(range(32)) if not mask[0] >> bit & 1)
    mask[0] |= 1 << free


DAMAGES = {
    "starts beyond the window": damaged("start", WINDOW_BEATS),
    "starts at the end of the address space": damaged("start", (1 << 32) - 1),
    "no beats": damaged("beats", 0),
    "one beat too many": damaged("beats", more=1),
    "all beats there are": damaged("beats", (1 << 32) - 1),
    "as many beats as the window has left": damaged("beats", WINDOW_BEATS - 300),
    "other elements": damaged("elements", more=32),
    "no elements": damaged("elements", 0),
    "others kept": damaged("kept", more=1),
    "of another address": damaged("address", more=1),
    "another check": damaged("check", more=1),
    "a mask bit more": mask_beyond,
}


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], damage=list(DAMAGES), rows=[1, 20])
async def refuses_a_damaged_stream_after_completing_the_rest(dut, stall, damage, rows):
    """The streams before it are whole, of itself at most the last element is missing, nothing follows."""
    streams = Streams()
    first, second, bad = load(0, 1, 9), load(1, 2, 3), load(2, 1, rows, lane_address=100)
    end = streams.put(second, streams.put(first, 200))
    streams.put(bad, max(end, 300))
    DAMAGES[damage](streams, bad, 300)
    lanes, trace = await prepare(dut, streams, stall)
    cocotb.start_soon(execute(dut, [first, second, bad, first, load(40, 1, 4, compressed=0)]))
    await ClockCycles(dut.clk, 20)
    await trace.idle(5000)
    whole = streams.writes(first) + streams.writes(second)
    assert lanes.writes[: len(whole)] == whole, f"{len(lanes.writes)} writes, {len(whole)} before the damaged stream"
    assert len(lanes.writes) < len(whole) + rows * VECTOR_BEATS, "all of the damaged stream was written"
    assert len(trace.done) == 2 and trace.status == Status.BAD_STREAM, f"{trace.done}, {Status(trace.status)!r}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], beat=[0, 1, 300, 304])
async def stops_at_a_read_error(dut, stall, beat):
    """Of an index or in a stream: the instructions before are done."""
    streams = Streams()
    program = [load(2, 1, 9), load(beat if beat < 2 else 1, 1, 40), load(3, 1, 3)]
    streams.put(program[0], 200)
    streams.put(program[1], 300)
    streams.put(program[2], 500)
    first = window(CHANNEL) + beat * BEAT_BYTES
    errors = {first + n: 2 for n in range(BEAT_BYTES)}
    lanes, trace = await prepare(dut, streams, stall, errors=errors)
    cocotb.start_soon(execute(dut, program))
    await ClockCycles(dut.clk, 20)
    await trace.idle(5000)
    before = streams.writes(program[0])
    assert lanes.writes[: len(before)] == before
    assert len(trace.done) == 1 and trace.status == Status.READ_ERROR


BAD = {
    "no vectors": (load(1, 0, 1), Status.BAD_FIELD),
    "index beyond the window": (load(WINDOW_BEATS, 1, 1), Status.BAD_ADDRESS),
    "plain, beyond the window": (load(WINDOW_BEATS, 1, 1, compressed=0), Status.BAD_ADDRESS),
}


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], bad=list(BAD))
async def refuses_what_is_malformed_after_completing_the_rest(dut, stall, bad):
    """Streams before it complete, it and later ones do nothing."""
    streams = Streams()
    good = [load(0, 1, 9), load(2, 1, 5)]
    streams.put(good[1], streams.put(good[0], 200))
    instruction, status = BAD[bad]
    lanes, trace = await prepare(dut, streams, stall)
    cocotb.start_soon(execute(dut, [*good, instruction, good[0]]))
    await ClockCycles(dut.clk, 20)
    await trace.idle(5000)
    check(lanes, [write for n in good for write in streams.writes(n)])
    assert len(trace.done) == 2
    assert trace.status == status, f"{Status(trace.status)!r}, expected {status!r}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(after=[5, 30, 60, 100], stall=[0.0, 0.5])
async def runs_again_after_drain_and_reset(dut, after, stall):
    """Abort drops what is outstanding; after it and a reset the engine works as before."""
    streams, program = Streams(), [load(n, 1, 20) for n in range(4)]
    end = 200
    for n in program:
        end = streams.put(n, end)
    lanes, trace = await prepare(dut, streams, stall, latency=20)
    running = cocotb.start_soon(execute(dut, program))
    await ClockCycles(dut.clk, after)
    dut.load_drain.value = 1
    await ClockCycles(dut.clk, 2)
    running.cancel()
    dut.load_i__valid.value = 0
    written = len(lanes.writes)
    await trace.idle()
    assert len(lanes.writes) == written
    await reset(dut)
    dut.load_drain.value = 0
    lanes.writes.clear()
    done = len(trace.done)
    await execute(dut, program[1:3])
    await trace.idle()
    check(lanes, [write for n in program[1:3] for write in streams.writes(n)])
    assert len(trace.done) == done + 2
