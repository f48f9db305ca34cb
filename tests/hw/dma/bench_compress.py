"""cocotb bench of compressed STORE against the golden codec."""

import random

import cocotb
import numpy as np
from axi_memory import (
    BEAT_BYTES,
    BEAT_WORDS,
    CHANNEL,
    LANES,
    MEMORY_BYTES,
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
from etalstm_hw.contract import PARAMETERS, Memory, Opcode, Status, encode
from etalstm_sim.benches.unkindness import pauses

SEED = 21
SCRATCH, SUMS = int(Memory.SCRATCH), int(Memory.SUMS)
VECTORS = 256
THRESHOLDS = {8: 0.25, 9: 0.0, 10: 1e9}
LOG = 256  # where the first log begins
FILLED = 300  # lane addresses from here hold nothing that is dropped


def lane_words():
    """What the lane memories hold: float32, [memory][address][lane]."""
    rng = np.random.default_rng(SEED)
    values = rng.normal(size=(4, VECTORS + FILLED, LANES)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = 0
    values[:, FILLED:] = 1
    values[:, 7, 0] = np.nan
    return values


WORDS = lane_words()


def store(address, outer, inner, *, compressed=1, bf16=0, threshold=8, log=0, first=0, start=LOG, end=WINDOW_BEATS,
          kind=2, memory=SCRATCH, lane_address=0, outer_stride=0, inner_stride=1):  # fmt: skip
    fields = dict(
        address=address, outer=outer, inner=inner, kind=kind, memory=memory, lane_address=lane_address,
        outer_stride=outer_stride, inner_stride=inner_stride,
    )  # fmt: skip
    if compressed:
        fields |= dict(compressed=1, bf16=bf16, threshold=threshold, log=log, first=first, start=start, end=end)
    return fields


def elements_of(n):
    addresses = [
        n["lane_address"] + o * n["outer_stride"] + i * n["inner_stride"]
        for o in range(n["outer"])
        for i in range(n["inner"])
    ]
    return WORDS[n["memory"], addresses].reshape(-1)


class Logs:
    """The logs of a channel, and the writes that instructions make to memory."""

    def __init__(self):
        self.positions = [0, 0]

    def writes(self, n):
        """[(beat, words)] of an instruction: streams first, then the index."""
        elements = elements_of(n)
        if "compressed" not in n:
            return [(n["address"], elements.view(np.uint32))]
        threshold = THRESHOLDS[n["threshold"]]
        words = codec.encode(elements, threshold, bool(n["bf16"]), BEAT_WORDS)
        start = n["start"] if n["first"] else self.positions[n["log"]]
        beats = len(words) // BEAT_WORDS
        self.positions[n["log"]] = start + beats
        kept = int(codec.kept_by_block(elements, threshold).sum())
        index = codec.index_words(start, beats, len(elements), kept, n["address"])
        return [(start, words), (n["address"], np.append(index, np.zeros(BEAT_WORDS - index.size, np.uint32)))]


def write(image, writes):
    for beat, words in writes:
        position = window(CHANNEL) + beat * BEAT_BYTES
        image[position : position + 4 * len(words)] = words.tobytes()


class Lanes:
    """Answers reads, with stalls; shows garbage whenever nothing was asked for."""

    def __init__(self, dut, stall):
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
                vector = int.from_bytes(WORDS[request & 3, request >> 2].tobytes(), "little")
            dut.store_vector.value = vector


async def prepare(dut, stall=0.0, latency=10):
    await begin(dut)
    parameters = [THRESHOLDS.get(n, 0.5) for n in range(PARAMETERS)]
    dut.store_parameters.value = int.from_bytes(np.array(parameters, np.float32).tobytes(), "little")
    ram, trace = FaultyRam(dut, stall, latency), Trace(dut, "store")
    Lanes(dut, stall)
    image = bytearray(random.Random(SEED).randbytes(MEMORY_BYTES))
    ram.write(0, bytes(image))
    return image, ram, trace


def check(ram, image):
    actual = ram.read(0, MEMORY_BYTES)
    if actual != image:
        n = next(n for n in range(0, MEMORY_BYTES, 4) if actual[n : n + 4] != image[n : n + 4])
        beat, place = divmod(n - window(CHANNEL), BEAT_BYTES)
        got, expected = (bytes(memory[n : n + 4][::-1]).hex() for memory in (actual, image))
        raise AssertionError(f"beat {beat} of the window, byte {place}: {got}, expected {expected}")


async def execute(dut, program):
    await send(dut, "store_i", [encode(Opcode.STORE, **fields) for fields in program])


def squares(address):
    return encode(Opcode.TRANSPOSE, address=address, outer=2, rows=BEAT_WORDS, lanes=LANES, target=CHANNEL,
                  outer_stride=8, inner_stride=1, outer_beats=LANES, lane_beats=1, kind=1)  # fmt: skip


PROGRAM = [
    store(0, 3, 7, first=1, start=LOG + 3, end=WINDOW_BEATS - 100, inner_stride=3, outer_stride=30, kind=1),
    store(1, 1, 1, threshold=10, memory=SUMS, lane_address=20),
    store(2, 1, 33, bf16=1, threshold=9, lane_address=40, kind=3),
    store(100, 1, 5, compressed=0, kind=0),
    store(3, 2, 16, log=1, first=1, start=WINDOW_BEATS - 100, lane_address=FILLED),
    store(4, 1, 1, log=1, lane_address=7, bf16=1),
    store(5, 1, 40, lane_address=100),
    store(120, 2, 4, compressed=0, memory=SUMS, kind=0),
    store(6, 1, 3, log=1, lane_address=200),
    store(7, 1, 2, first=1, start=LOG - 40, lane_address=80),
]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def appends_golden_streams_to_the_logs(dut, stall):
    """Two logs, continued, begun anew, beside plain stores: memory is exact when done is set, and bytes are counted."""
    image, ram, trace = await prepare(dut, stall)
    logs = Logs()
    expected = [logs.writes(n) for n in PROGRAM]

    def visible(number):
        write(image, expected[number])
        for beat, words in expected[number]:
            actual = ram.read(window(CHANNEL) + beat * BEAT_BYTES, 4 * len(words))
            assert actual == words.tobytes(), f"instruction {number} is done, beat {beat} is not as it should be"

    trace.on_done = visible
    await execute(dut, PROGRAM)
    await trace.idle(20_000)
    assert len(trace.done) == len(PROGRAM) and trace.status == Status.IDLE
    check(ram, image)
    kinds = [n["kind"] for n, writes in zip(PROGRAM, expected, strict=True) for _, w in writes for _ in w[::BEAT_WORDS]]
    assert trace.beats == kinds


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def keeps_its_order_with_transposes(dut, stall):
    """Squares, streams and vectors that follow each other do not mix."""
    image, ram, trace = await prepare(dut, stall)
    logs, program = Logs(), []
    for n in range(3):
        program += [squares(20 + 2 * n * LANES)]
        program += [store(n, 1, 3 + n, first=n == 0, lane_address=n), store(140 + 8 * n, 1, 2, compressed=0)]
        program += [store(8 + n, 1, 1, lane_address=60 + n)]
    await send(dut, "store_i", [n if isinstance(n, int) else encode(Opcode.STORE, **n) for n in program])
    await trace.idle(20_000)
    for n in program:
        if isinstance(n, int):
            continue
        write(image, logs.writes(n))
    for n in range(3):
        for q in range(2):
            square = WORDS[SCRATCH, 8 * q : 8 * q + BEAT_WORDS].view(np.uint32)
            write(image, [(20 + (2 * n + q) * LANES + lane, square[:, lane].copy()) for lane in range(LANES)])
    check(ram, image)
    assert len(trace.done) == len(program) and trace.status == Status.IDLE


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(source=[40, FILLED], bf16=[0, 1])
async def compresses_an_element_a_cycle(dut, source, bf16):
    """From one stream to the next, too; 33 cycles for a block of which nothing is dropped and nothing rounded."""
    image, ram, trace = await prepare(dut, latency=20)
    program = [store(n, 1, 512 // LANES, bf16=bf16, first=n == 0, lane_address=source + n) for n in range(6)]
    logs = Logs()
    await execute(dut, program)
    await trace.idle()
    for n in program:
        write(image, logs.writes(n))
    check(ram, image)
    cycles = (trace.done[-1] - trace.done[0]) / 5
    ideal = 512 * (33 / 32 if source == FILLED and not bf16 else 1)
    dut._log.info(f"512 elements in {cycles} cycles")
    assert cycles <= 1.01 * ideal, f"{cycles} cycles a stream, expected {ideal}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], short=[1, 7, 1000])
async def stops_when_a_log_is_full(dut, stall, short):
    """Streams before are done; nothing beyond the log's end is written, and no index of the one that did not fit."""
    image, ram, trace = await prepare(dut, stall)
    logs = Logs()
    good = store(0, 1, 20, first=1, lane_address=FILLED)
    large = store(1, 1, 60, lane_address=FILLED)
    write(image, logs.writes(good))
    begins = logs.positions[0]
    (_, words), _ = logs.writes(large)
    beats = len(words) // BEAT_WORDS
    end = max(begins + beats - short, LOG)
    cocotb.start_soon(execute(dut, [good, large | {"end": end}, good]))
    await ClockCycles(dut.clk, 20)
    await trace.idle(5000)
    assert len(trace.done) == 1 and trace.status == Status.OVERFLOW
    actual = bytearray(ram.read(0, MEMORY_BYTES))
    inside = slice(window(CHANNEL) + begins * BEAT_BYTES, window(CHANNEL) + max(begins, end) * BEAT_BYTES)
    image[inside] = actual[inside]  # of the stream, what fits may have been written
    check(ram, image)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fills_a_log_to_its_end(dut):
    """The last beat of a log can be used, and with it that of the window."""
    image, ram, trace = await prepare(dut)
    (_, words), _ = Logs().writes(store(0, 1, 9, first=1))
    start = WINDOW_BEATS - len(words) // BEAT_WORDS
    program = [store(0, 1, 9, first=1, start=start)]
    await execute(dut, program)
    await trace.idle()
    write(image, Logs().writes(program[0]))
    check(ram, image)
    assert len(trace.done) == 1 and trace.status == Status.IDLE


BAD = {
    "no vectors": (store(1, 0, 1, first=1), Status.BAD_FIELD),
    "no such memory": (store(1, 1, 1, first=1, memory=int(Memory.WEIGHTS)), Status.BAD_FIELD),
    "index beyond the window": (store(WINDOW_BEATS, 1, 1, first=1), Status.BAD_ADDRESS),
    "log beyond the window": (store(1, 1, 1, first=1, end=WINDOW_BEATS + 1), Status.BAD_ADDRESS),
    "log that begins at its end": (store(1, 1, 1, first=1, start=WINDOW_BEATS), Status.OVERFLOW),
}


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5], bad=list(BAD))
async def refuses_what_is_malformed_after_completing_the_rest(dut, stall, bad):
    """The stream before it is written, later ones are not."""
    image, ram, trace = await prepare(dut, stall)
    good = store(0, 1, 9, first=1)
    instruction, status = BAD[bad]
    cocotb.start_soon(execute(dut, [good, instruction, good]))
    await ClockCycles(dut.clk, 10)
    await trace.idle()
    write(image, Logs().writes(good))
    check(ram, image)
    assert len(trace.done) == 1
    assert trace.status == status, f"{Status(trace.status)!r}, expected {status!r}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(after=[5, 20, 60, 150], stall=[0.0, 0.5])
async def runs_again_after_drain_and_reset(dut, after, stall):
    """A reset sets the logs back; what was under way leaves no trace."""
    image, ram, trace = await prepare(dut, stall, latency=20)
    running = cocotb.start_soon(execute(dut, [store(n, 2, 10, first=n == 0) for n in range(4)]))
    await ClockCycles(dut.clk, after)
    dut.store_drain.value = 1
    await ClockCycles(dut.clk, 2)
    running.cancel()
    dut.store_i__valid.value = 0
    await trace.idle()
    await ClockCycles(dut.clk, 60)
    await reset(dut)
    dut.store_drain.value = 0
    image[:] = ram.read(0, MEMORY_BYTES)
    done = len(trace.done)
    program = [store(9, 1, 4, lane_address=9), store(10, 1, 8, first=1, log=1)]  # the first at beat 0
    program[0]["address"] = 200
    logs = Logs()
    await execute(dut, program)
    await trace.idle()
    for n in program:
        write(image, logs.writes(n))
    check(ram, image)
    assert len(trace.done) == done + 2
