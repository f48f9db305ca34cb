"""The serial line, decoded as a terminal does it."""

import pytest
from amaranth.sim import Simulator

from etalstm_boards.console import Console, Transmitter

BIT_CYCLES, INTERVAL_CYCLES = 4, 4000  # a line takes 2,600
IDLE = "eta-lstm 1234abcd idle     programs 00000000  memory  40 104 C\r\n"


async def receive(context, line, bit_cycles, limit):
    """Wait for a start bit, at most so many cycles; sample each bit in its middle; give the byte, or None."""
    for _ in range(limit):
        if not context.get(line):
            break
        await context.tick()
    else:
        return None
    await context.tick().repeat(bit_cycles // 2)
    assert not context.get(line), "a start bit that is too short"
    bits = []
    for _ in range(9):
        await context.tick().repeat(bit_cycles)
        bits.append(context.get(line))
    assert bits[8], f"no stop bit after {bits[:8]}"
    return sum(bit << n for n, bit in enumerate(bits[:8]))


def simulate(dut, *benches):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench, background=bench is not benches[-1])
    simulator.run()


@pytest.mark.parametrize("bit_cycles", [4, 7, 868])
def test_every_byte_arrives(bit_cycles):
    dut, sent = Transmitter(bit_cycles), [0x00, 0xFF, 0x55, 0xAA, 0x0D, 0x80]

    async def send(context):
        for byte in sent:
            context.set(dut.i.payload, byte)
            context.set(dut.i.valid, 1)
            await context.tick().until(dut.i.ready)
            context.set(dut.i.valid, 0)

    async def check(context):
        assert [await receive(context, dut.o, bit_cycles, 3 * bit_cycles) for _ in sent] == sent
        assert await receive(context, dut.o, bit_cycles, 20 * bit_cycles) is None, "the line is high when all is sent"

    simulate(dut, send, check)


async def read_line(context, dut):
    text = b""
    while not text.endswith(b"\n"):
        text += bytes([await receive(context, dut.o, BIT_CYCLES, 2 * INTERVAL_CYCLES)])
    return text.decode("ascii")


def test_a_line_says_how_the_card_is():
    """One state after the other; programs are counted, also those that begin and end between two lines."""
    dut = Console(0x1234ABCD, bit_cycles=BIT_CYCLES, interval_cycles=INTERVAL_CYCLES)
    lines, programs = [], 17

    async def bench(context):
        async def next_line(temperature, **inputs):
            context.set(dut.temperature, temperature)
            for name, value in inputs.items():
                context.set(getattr(dut, name), value)
            lines.append(await read_line(context, dut))

        await next_line(40 | 104 << 8)
        await next_line(40 | 104 << 8, ready=1)
        for n in range(2 * programs - 1):
            context.set(dut.running, n % 2 == 0)
            await context.tick()
        await next_line(40 | 104 << 8)
        await next_line(7 | 127 << 8, running=0, error=1)

    simulate(dut, bench)
    assert lines == [
        IDLE.replace("idle   ", "waiting"),
        IDLE,
        IDLE.replace("idle   ", "running").replace("00000000", "00000011"),
        IDLE.replace("idle   ", "failed ").replace("00000000", "00000011").replace(" 40 104", "  7 127"),
    ]


def test_a_line_is_of_one_moment():
    """What changes while it is sent shows in the next."""
    dut = Console(0, bit_cycles=BIT_CYCLES, interval_cycles=INTERVAL_CYCLES)

    async def bench(context):
        context.set(dut.ready, 1)
        context.set(dut.temperature, 99 | 99 << 8)
        first = bytes([await receive(context, dut.o, BIT_CYCLES, 2 * INTERVAL_CYCLES)]).decode()
        context.set(dut.error, 1)
        context.set(dut.temperature, 100 | 101 << 8)
        rest = await read_line(context, dut)
        assert first + rest == "eta-lstm 00000000 idle     programs 00000000  memory  99  99 C\r\n"
        assert "failed   programs 00000000  memory 100 101 C" in await read_line(context, dut)

    simulate(dut, bench)
