"""cocotb bench of StoreEngine against a plain Python model."""

import random

import cocotb
from axi_memory import (
    BEAT_BYTES,
    BEAT_WORDS,
    CHANNEL,
    CHANNELS,
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

from etalstm_hw.contract import LANE_ADDRESS_BITS, OWN_WINDOW, Memory, Opcode, Status, encode
from etalstm_sim.benches.unkindness import pauses

SEED = 5
SCRATCH, SUMS = int(Memory.SCRATCH), int(Memory.SUMS)


def word(memory, address, lane):
    """What a lane memory holds."""
    return (memory * 1_000_003 + address * 7919 + lane * 104_729 + 1) * 0x9E3779B1 % (1 << 32)


def store(address, outer, inner, *, kind=0, memory=SCRATCH, lane_address=0, outer_stride=0, inner_stride=1):
    return Opcode.STORE, dict(
        address=address, outer=outer, inner=inner, kind=kind, memory=memory, lane_address=lane_address,
        outer_stride=outer_stride, inner_stride=inner_stride,
    )  # fmt: skip


def transpose(address, outer, rows, lanes, *, target=0, kind=0, lane_address=0, outer_stride=0, inner_stride=1,
              outer_beats=0, lane_beats=1, channel_beats=0):  # fmt: skip
    return Opcode.TRANSPOSE, dict(
        address=address, outer=outer, rows=rows, lanes=lanes, target=target, kind=kind, lane_address=lane_address,
        outer_stride=outer_stride, inner_stride=inner_stride, outer_beats=outer_beats, lane_beats=lane_beats,
        channel_beats=channel_beats,
    )  # fmt: skip


def lane_address(n, outer, inner):
    address = n["lane_address"] + outer * n["outer_stride"] + inner * n["inner_stride"]
    return address % (1 << LANE_ADDRESS_BITS)


def writes_of(instruction):
    """The beats an instruction writes: (byte address, words)."""
    opcode, n = instruction
    if opcode is Opcode.STORE:
        vectors = [lane_address(n, o, i) for o in range(n["outer"]) for i in range(n["inner"])]
        words = [word(n["memory"], address, lane) for address in vectors for lane in range(LANES)]
        position = window(CHANNEL) + n["address"] * BEAT_BYTES
        return [(position + 4 * start, words[start : start + BEAT_WORDS]) for start in range(0, len(words), BEAT_WORDS)]
    writes = []
    for q in range(n["outer"]):
        for lane in range(n["lanes"]):
            beat = n["address"] + q * n["outer_beats"] + lane * n["lane_beats"] + CHANNEL * n["channel_beats"]
            words = [word(SCRATCH, lane_address(n, q, i), lane) for i in range(n["rows"])]
            words += [0] * (-len(words) % BEAT_WORDS)
            for first in range(0, len(words), BEAT_WORDS):
                target = CHANNEL if n["target"] == OWN_WINDOW else n["target"]
                position = window(target) + (beat + first // BEAT_WORDS) * BEAT_BYTES
                writes.append((position, words[first : first + BEAT_WORDS]))
    return writes


def write(image, writes):
    for address, words in writes:
        image[address : address + BEAT_BYTES] = b"".join(w.to_bytes(4, "little") for w in words)


class Lanes:
    """Answers reads, with stalls; shows garbage whenever nothing was asked for."""

    def __init__(self, dut, stall=0.0):
        self.reads = 0
        self._dut = dut
        cocotb.start_soon(self._answer(pauses(stall, SEED), random.Random(SEED)))

    async def _answer(self, waits, rng):
        dut = self._dut
        while True:
            pause = next(waits)
            dut.store_read__ready.value = not pause
            await RisingEdge(dut.clk)
            vector = rng.getrandbits(32 * LANES)
            if not pause and dut.store_read__valid.value == 1:
                request = int(dut.store_read__payload.value)
                vector = sum(word(request & 3, request >> 2, lane) << 32 * lane for lane in range(LANES))
                self.reads += 1
            dut.store_vector.value = vector


class DataBeats:
    """Cycles in which a data beat went through the port."""

    def __init__(self, dut):
        self.cycles = []
        cocotb.start_soon(self._watch(dut))

    async def _watch(self, dut):
        cycle = 0
        while True:
            await RisingEdge(dut.clk)
            cycle += 1
            if dut.port0__wvalid.value == 1 and dut.port0__wready.value == 1:
                self.cycles.append(cycle)


async def prepare(dut, stall=0.0, latency=0, errors=None):
    await begin(dut)
    ram, lanes, trace = FaultyRam(dut, stall, latency, errors), Lanes(dut, stall), Trace(dut, "store")
    image = bytearray(random.Random(SEED).randbytes(MEMORY_BYTES))
    ram.write(0, bytes(image))
    return image, ram, lanes, trace


def check(ram, image):
    actual = ram.read(0, MEMORY_BYTES)
    if actual != image:
        n = next(n for n in range(0, MEMORY_BYTES, 4) if actual[n : n + 4] != image[n : n + 4])
        raise AssertionError(f"address {n:#x}: {actual[n : n + 4].hex()}, expected {image[n : n + 4].hex()}")


async def execute(dut, program):
    await send(dut, "store_i", [encode(opcode, **fields) for opcode, fields in program])


PROGRAM = [
    store(4096 // BEAT_BYTES - 3, 2, 5, kind=1, lane_address=40, outer_stride=64, inner_stride=3),
    transpose(800, 3, BEAT_WORDS, LANES, kind=2, lane_address=9, outer_stride=20, outer_beats=2 * LANES, lane_beats=2),
    transpose(100, 2, BEAT_WORDS - 1, LANES - 1, target=2, outer_stride=8, outer_beats=LANES, channel_beats=64),
    transpose(0, 2, 1, BEAT_WORDS - 1, target=0, outer_stride=8190, inner_stride=5, outer_beats=1, lane_beats=100),
    store(3, 1, 1, kind=3, memory=SUMS, lane_address=8191),
    transpose(WINDOW_BEATS - 1, 1, 2, 1, target=1),
    transpose(600, 2, LANES, LANES, target=1, outer_stride=32, outer_beats=VECTOR_BEATS, lane_beats=2 * VECTOR_BEATS),
    transpose(700, 1, LANES - 1, 2, target=2, lane_address=5, lane_beats=19, channel_beats=3),
    transpose(900, 2, BEAT_WORDS, LANES, target=OWN_WINDOW, outer_stride=32, outer_beats=2 * LANES, lane_beats=2),
    store(WINDOW_BEATS - 1 - 4 * VECTOR_BEATS, 4, 1, memory=SUMS, lane_address=8, outer_stride=2, inner_stride=0),
]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def writes_what_the_lanes_hold(dut, stall):
    """Every word at its place and nothing else; done is set when all of an instruction can be read back."""
    image, ram, lanes, trace = await prepare(dut, stall, latency=10)

    def visible(number):
        for address, words in writes_of(PROGRAM[number]):
            actual = ram.read(address, BEAT_BYTES)
            expected = b"".join(w.to_bytes(4, "little") for w in words)
            assert actual == expected, f"instruction {number} is done, {address:#x} not: {actual}, expected {expected}"

    trace.on_done = visible
    await execute(dut, PROGRAM)
    await trace.idle()
    for instruction in PROGRAM:
        write(image, writes_of(instruction))
    check(ram, image)
    assert len(trace.done) == len(PROGRAM) and trace.status == Status.IDLE
    assert trace.beats == [n["kind"] for opcode, n in PROGRAM for _ in writes_of((opcode, n))]
    vectors = sum(n["outer"] * n.get("inner", n.get("rows")) for _, n in PROGRAM)
    assert lanes.reads == vectors, f"{lanes.reads} vectors read, expected {vectors}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    program=[
        [store(0, 1, 64), store(300, 2, 32)],
        [transpose(n * 200, 4, BEAT_WORDS, LANES, outer_beats=LANES, outer_stride=8) for n in range(4)],
        [
            transpose(n * 80, 2, LANES, LANES, outer_beats=LANES * VECTOR_BEATS, lane_beats=VECTOR_BEATS)
            for n in range(4)
        ],
    ]
)
async def writes_a_beat_every_cycle(dut, program):
    """Single beats too, and from one instruction to the next, behind a memory of 20 cycles."""
    image, ram, _, trace = await prepare(dut, latency=20)
    data = DataBeats(dut)
    await execute(dut, program)
    await trace.idle()
    for instruction in program:
        write(image, writes_of(instruction))
    check(ram, image)
    cycles = data.cycles[-1] - data.cycles[0] + 1
    dut._log.info(f"{len(data.cycles)} beats in {cycles} cycles")
    assert cycles <= len(data.cycles) * 1.08 + 4, f"{len(data.cycles)} beats took {cycles} cycles"


BAD = [
    store(WINDOW_BEATS - VECTOR_BEATS, 1, 2),
    store((1 << 28) - 1, 1, 1),
    store(0, 0, 1),
    store(0, 4095, 4095),
    store(0, 1, 1, memory=int(Memory.WEIGHTS)),
    transpose(0, 1, 1, 1, target=CHANNELS),
    transpose(0, 1, 1, 1, channel_beats=WINDOW_BEATS),
    transpose(0, 1, 1, 1, channel_beats=(1 << 24) - 1),
    transpose(0, 0, 1, 1),
    transpose(0, 1, 0, 1),
    transpose(0, 1, 1, 0),
    transpose(0, 1, LANES + 1, 1),
    transpose(0, 1, 1, LANES + 1),
    transpose(WINDOW_BEATS - 4, 2, BEAT_WORDS, LANES, lane_beats=2, outer_beats=1),
    transpose(WINDOW_BEATS - LANES, 2, BEAT_WORDS, LANES, outer_beats=LANES),
    transpose(WINDOW_BEATS - 2 * VECTOR_BEATS + 1, 1, LANES, 2, lane_beats=VECTOR_BEATS),
]
BAD_FIELDS = (2, 4, 8, 9, 10, 11, 12)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(bad=range(len(BAD)), stall=[0.0, 0.5])
async def refuses_what_is_malformed_after_completing_the_rest(dut, bad, stall):
    """What was before it is written, later instructions are not, no beat outside the window is."""
    image, ram, _, trace = await prepare(dut, stall, latency=10)
    good = store(3, 1, 9)
    cocotb.start_soon(execute(dut, [good, BAD[bad], good]))
    await ClockCycles(dut.clk, 10)
    await trace.idle()
    opcode, n = BAD[bad]
    write(image, writes_of(good))
    if opcode is Opcode.TRANSPOSE and bad not in BAD_FIELDS and n["target"] < CHANNELS:
        end, writes = window(n["target"] + 1), iter(writes_of(BAD[bad]))
        while (lane := [next(writes) for _ in range(0, n["rows"], BEAT_WORDS)])[-1][0] < end:
            write(image, lane)
    check(ram, image)
    assert len(trace.done) == 1
    expected = Status.BAD_FIELD if bad in BAD_FIELDS else Status.BAD_ADDRESS
    assert trace.status == expected, f"{Status(trace.status)!r}, expected {expected!r}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(code=[2, 3], stall=[0.0, 0.5])
async def stops_at_a_write_error(dut, code, stall):
    """Instructions before it are done, it and later ones are not, and every burst is completed."""
    bad = window(CHANNEL) + 200 * BEAT_BYTES
    _, _, _, trace = await prepare(dut, stall, latency=10, errors={bad: code})
    program = [store(0, 1, 2), transpose(196, 1, 1, 2, target=CHANNEL, lane_beats=4), store(0, 2, 64)]
    cocotb.start_soon(execute(dut, program))
    await ClockCycles(dut.clk, 20)
    await trace.idle()
    assert len(trace.done) == 1 and trace.status == Status.WRITE_ERROR


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(after=[4, 7, 9, 12, 40], stall=[0.0, 0.5], first=[0, 1])
async def runs_again_after_drain_and_reset(dut, after, stall, first):
    """Bursts that have begun are completed; after a reset the engine works as before."""
    image, ram, _, trace = await prepare(dut, stall, latency=20)
    square = transpose(0, 20, BEAT_WORDS, LANES, target=CHANNEL, outer_beats=LANES)
    running = cocotb.start_soon(execute(dut, [[store(1, 8, 8), square][first]] * 3))
    await ClockCycles(dut.clk, after)
    dut.store_drain.value = 1
    await ClockCycles(dut.clk, 2)
    running.cancel()
    dut.store_i__valid.value = 0
    await trace.idle()
    assert not trace.done
    await ClockCycles(dut.clk, 60)  # the model checks that no beat of a burst is missing
    await reset(dut)
    dut.store_drain.value = 0
    image[:] = ram.read(0, MEMORY_BYTES)
    program = [transpose(7, 1, 2, LANES, target=CHANNEL), store(200, 1, 4)]
    await execute(dut, program)
    await trace.idle()
    for instruction in program:
        write(image, writes_of(instruction))
    check(ram, image)
    assert len(trace.done) == 2
