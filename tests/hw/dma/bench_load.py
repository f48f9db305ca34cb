"""cocotb bench of LoadEngine against a plain Python model."""

import random

import cocotb
from axi_memory import (
    BEAT_BYTES,
    CHANNEL,
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

from etalstm_hw.contract import LANE_ADDRESS_BITS, Memory, Opcode, Status, encode
from etalstm_sim.benches.unkindness import pauses

SEED = 3


def load(address, outer, inner, *, kind=0, memory=Memory.SCRATCH, lane_address=0, outer_stride=0, inner_stride=1):
    return dict(
        address=address, outer=outer, inner=inner, kind=kind, memory=int(memory), lane_address=lane_address,
        outer_stride=outer_stride, inner_stride=inner_stride,
    )  # fmt: skip


def beats_of(n):
    return n["outer"] * n["inner"] * VECTOR_BEATS


def writes_of(instruction, image):
    """The writes an instruction makes: (memory, lane address, enable, words of the enabled beat)."""
    n, writes = instruction, []
    position = window(CHANNEL) + n["address"] * BEAT_BYTES
    for outer in range(n["outer"]):
        for inner in range(n["inner"]):
            address = n["lane_address"] + outer * n["outer_stride"] + inner * n["inner_stride"]
            for part in range(VECTOR_BEATS):
                enable = 1 << part
                data = int.from_bytes(image[position : position + BEAT_BYTES], "little")
                writes.append((n["memory"], address % (1 << LANE_ADDRESS_BITS), enable, data))
                position += BEAT_BYTES
    return writes


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


async def prepare(dut, stall=0.0, latency=0, errors=None):
    await begin(dut)
    ram, lanes, trace = FaultyRam(dut, stall, latency, errors), Lanes(dut, stall), Trace(dut, "load")
    image = random.Random(SEED).randbytes(MEMORY_BYTES)
    ram.write(0, image)
    return image, lanes, trace


def check(lanes, expected):
    for n, (got, want) in enumerate(zip(lanes.writes, expected, strict=False)):
        assert got == want, f"write {n}: {tuple(map(hex, got))}, expected {tuple(map(hex, want))}"
    assert len(lanes.writes) == len(expected), f"{len(lanes.writes)} writes, expected {len(expected)}"


async def execute(dut, instructions):
    await send(dut, "load_i", [encode(Opcode.LOAD, **n) for n in instructions])


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def writes_what_memory_holds(dut, stall):
    """Every word in its lane and address, in order, across 4 KiB; bytes are counted by kind; done once each."""
    image, lanes, trace = await prepare(dut, stall)
    last = WINDOW_BEATS - 2 * VECTOR_BEATS
    program = [
        load(4096 // BEAT_BYTES - 3, 2, 5, kind=1, lane_address=40, outer_stride=64, inner_stride=3),
        load(0, 1, 1, kind=2, memory=Memory.BIAS),
        load(7, 3, 4, kind=3, memory=Memory.WEIGHTS, lane_address=8190, outer_stride=5, inner_stride=8191),
        load(last, 1, 2, lane_address=1),
    ]
    await execute(dut, program)
    await trace.idle()
    check(lanes, [write for n in program for write in writes_of(n, image)])
    assert len(trace.done) == len(program)
    assert trace.beats == [n["kind"] for n in program for _ in range(beats_of(n))]
    assert trace.status == Status.IDLE


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def parts_are_done_together(dut, stall):
    """Parts are written like others, and done with the last of them."""
    image, lanes, trace = await prepare(dut, stall)
    program = [load(5, 3, 1, outer_stride=2), load(40, 1, 1, lane_address=9), load(50, 2, 1), load(0, 1, 3)]
    parts = zip(program, [1, 1, 0, 0], strict=True)
    await send(dut, "load_i", [encode(Opcode.LOAD, **n, more=more) for n, more in parts])
    await trace.idle()
    check(lanes, [write for n in program for write in writes_of(n, image)])
    assert len(trace.done) == 2
    assert trace.status == Status.IDLE


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(beats=[4, 8])
async def hides_latency_of_few_beats_each(dut, beats):
    """Of short instructions as many are under way as bursts: 8 of them in each latency."""
    image, lanes, trace = await prepare(dut, latency=40)
    program = [load(32 * n, 1, beats // VECTOR_BEATS) for n in range(32)]
    await execute(dut, program)
    await trace.idle()
    check(lanes, [write for n in program for write in writes_of(n, image)])
    cycles = lanes.cycles[-1] - lanes.cycles[0] + 1
    dut._log.info(f"{len(lanes.cycles)} beats in {cycles} cycles")
    assert cycles <= len(program) / 8 * (40 + 24), f"{len(lanes.cycles)} beats took {cycles} cycles"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def hides_latency_between_instructions(dut):
    """Instructions back to back run at a beat a cycle, behind a memory of 40 cycles."""
    image, lanes, trace = await prepare(dut, latency=40)
    program = [load(32 * n, 1, 32 // VECTOR_BEATS) for n in range(12)]
    await execute(dut, program)
    await trace.idle()
    check(lanes, [write for n in program for write in writes_of(n, image)])
    cycles = lanes.cycles[-1] - lanes.cycles[0] + 1
    dut._log.info(f"{len(lanes.cycles)} beats in {cycles} cycles")
    assert cycles <= len(lanes.cycles) + 12, f"{len(lanes.cycles)} beats took {cycles} cycles"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(
    bad=[
        load(WINDOW_BEATS - VECTOR_BEATS, 1, 2),
        load((1 << 28) - 1, 1, 1),
        load(0, 4095, 4095),
        load(0, 0, 1),
        load(0, 1, 0),
    ]
)
async def refuses_what_is_malformed_after_completing_the_rest(dut, bad):
    """Instructions before it complete, it and later ones do nothing."""
    image, lanes, trace = await prepare(dut, 0.5)
    good = load(3, 1, 9)
    await send(dut, "load_i", [encode(Opcode.LOAD, **n) for n in (good, bad)])
    await trace.idle()
    await ClockCycles(dut.clk, 50)
    check(lanes, writes_of(good, image))
    assert len(trace.done) == 1
    assert trace.status == (Status.BAD_ADDRESS if bad["outer"] * bad["inner"] else Status.BAD_FIELD)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(code=[2, 3], stall=[0.0, 0.5])
async def stops_at_a_read_error(dut, code, stall):
    """Beats before it are written, none after it."""
    base = window(CHANNEL)
    image, lanes, trace = await prepare(dut, stall, errors={base + 256 + n: code for n in range(4096 - 256)})
    program = [load(0, 1, 2), load(2, 2, 16), load(0, 1, 16)]
    cocotb.start_soon(execute(dut, program))
    await ClockCycles(dut.clk, 20)
    await trace.idle()
    burst = 16 * BEAT_BYTES  # the model answers a whole burst with an error
    expected = [write for n in program[:2] for write in writes_of(n, image)]
    got = len(lanes.writes)
    check(lanes, expected[:got])
    assert got < len(expected) and got * BEAT_BYTES <= max(256, burst)
    assert len(trace.done) == (got >= beats_of(program[0])) and trace.status == Status.READ_ERROR


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(after=[3, 5, 12, 40], stall=[0.0, 0.5])
async def runs_again_after_drain_and_reset(dut, after, stall):
    """Abort drops what is outstanding; after it and a reset the engine works as before."""
    image, lanes, trace = await prepare(dut, stall, latency=20)
    running = cocotb.start_soon(execute(dut, [load(0, 8, 16), load(1, 8, 16), load(2, 8, 16)]))
    await ClockCycles(dut.clk, after)
    dut.load_drain.value = 1
    await ClockCycles(dut.clk, 2)
    running.cancel()
    dut.load_i__valid.value = 0
    written = len(lanes.writes)
    await trace.idle()
    assert len(lanes.writes) == written and not trace.done
    assert dut.port0__arvalid.value == 0
    await reset(dut)
    dut.load_drain.value = 0
    lanes.writes.clear()
    await execute(dut, [load(5, 1, 4)])
    await trace.idle()
    check(lanes, writes_of(load(5, 1, 4), image))
    assert len(trace.done) == 1
