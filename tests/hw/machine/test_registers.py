"""The registers' bus: every access is answered once, whatever the order and the stalls of its channels."""

import random

import pytest
from amaranth.sim import Simulator

from etalstm_hw.config import preset
from etalstm_hw.contract import MAGIC, Counter, Register, kept_words
from etalstm_hw.machine.registers import Registers

SEED = 5


def simulate(dut, *testbenches):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


def sender(bus, channel, payloads, stall):
    """Offer payloads on an address or data channel, each as long as it takes."""
    valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
    payload = getattr(bus, {"w": "wdata"}.get(channel, f"{channel}addr"))
    generator = random.Random(f"{SEED} {channel}")

    async def testbench(context):
        for value in payloads:
            while generator.random() < stall:
                await context.tick()
            context.set(payload, value)
            context.set(valid, 1)
            await context.tick().until(ready)
            context.set(valid, 0)

    return testbench


def taker(bus, channel, count, stall, found):
    """Take `count` answers and append what they carry; no more may come."""
    valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
    payload = {"r": bus.rdata, "b": bus.bresp}[channel]
    generator = random.Random(f"{SEED} {channel}")

    async def testbench(context):
        quiet = 0
        while quiet < 20:
            context.set(ready, generator.random() >= stall)
            *_, given, taken, value = await context.tick().sample(valid, ready, payload)
            quiet = 0 if len(found) < count else quiet + 1
            if given and taken:
                found.append(value)

    return testbench


def write(dut, values, answers, testbench):
    """Write registers while a testbench runs; `answers` fills with the answers."""
    sent = sender(dut.bus, "aw", values.keys(), 0.0), sender(dut.bus, "w", values.values(), 0.0)
    simulate(dut, *sent, taker(dut.bus, "b", len(values), 0.0, answers), testbench)


def test_identify_machine_and_build():
    config = preset("test")
    dut, found = Registers(config, build=0x600DF00D), []
    wanted = (Register.MAGIC, Register.PRESET, Register.BUILD)
    simulate(dut, sender(dut.bus, "ar", wanted, 0.0), taker(dut.bus, "r", len(wanted), 0.0, found))
    assert found == [MAGIC, config.digest, 0x600DF00D]


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_keep_what_is_written_and_answer_each_access_once(stall):
    dut, generator = Registers(preset("test")), random.Random(SEED)
    kept = list(kept_words())
    values = [generator.getrandbits(32) for _ in kept]
    count, answers, found = len(values), [], []

    async def read_when_all_is_written(context):
        while len(answers) < count:
            await context.tick()
        await sender(dut.bus, "ar", kept, stall)(context)

    simulate(
        dut,
        sender(dut.bus, "aw", kept, stall),
        sender(dut.bus, "w", values, stall),
        taker(dut.bus, "b", count, stall, answers),
        read_when_all_is_written,
        taker(dut.bus, "r", count, stall, found),
    )
    assert answers == [0] * count, f"seed {SEED}: {len(answers)} answers to {count} writes"
    assert found == values, f"seed {SEED}"


def test_a_counter_is_read_as_it_was_when_its_low_half_was_read():
    """It counts on between the reads of its halves; another one does not disturb what was latched before."""
    dut, found = Registers(preset("test")), []
    low = Register.COUNTER + 8 * Counter.SCALARS_SEEN

    async def read(context):
        context.set(dut.bus.rready, 1)
        for address in (low, low + 4, low, low + 4):
            await sender(dut.bus, "ar", [address], 0.0)(context)
            found.append(context.get(dut.bus.rdata))
            context.set(dut.counters[Counter.SCALARS_SEEN], 0x5_00000000)

    async def count(context):
        context.set(dut.counters[Counter.SCALARS_SEEN], 0x4_FFFFFFFF)
        context.set(dut.counters[Counter.SCALARS_SEEN - 1], 0x77_00000000)

    simulate(dut, count, read)
    assert found == [0xFFFFFFFF, 4, 0, 5]


CONFIG = preset("test")
END = 1 << CONFIG.address_bits


@pytest.mark.parametrize(
    ("base", "stride", "size", "inside"),
    [
        (0, 1 << 20, 1 << 20, True),
        (END - (2 << 20), 1 << 20, 1 << 20, True),
        (END - (2 << 20) + 4096, 1 << 20, 1 << 20, False),
        (END - (2 << 20), 1 << 20, (1 << 20) + 4096, False),
        (4096, END - 4096, 4096, False),
        (0, END, 4096, False),
        (END, 4096, 4096, False),
        (1 << 63, 4096, 4096, False),
        (4, 4096, 4096, False),
        (4096 + 2048, 4096, 4096, False),
        (0, 0xFFFFFFFF << 12, 4096, False),
        (0, 4096, 0xFFFFFFFF << 12, False),
    ],
)
def test_windows_that_reach_beyond_the_addresses_cannot_be_accessed(base, stride, size, inside):
    dut = Registers(CONFIG)
    values = {
        Register.WINDOW_LOW: base & 0xFFFFFFFF,
        Register.WINDOW_HIGH: base >> 32,
        Register.WINDOW_STRIDE: stride >> 12,
        Register.WINDOW_SIZE: size >> 12,
    }

    async def settle(context):
        while context.get(dut.windows.stride) != stride % END or len(answers) < len(values):
            await context.tick()
        await context.tick().repeat(2)
        assert context.get(dut.windows.size) == (size if inside else 0)

    answers = []
    write(dut, values, answers, settle)


@pytest.mark.parametrize(
    ("address", "readable"),
    [(0, True), (END - 4096, True), (END, False), (1 << 63, False), (32, False), (4097, False)],
)
def test_a_program_that_lies_nowhere_is_not_taken_for_another(address, readable):
    dut, answers = Registers(CONFIG), []
    values = {Register.PROGRAM_LOW: address & 0xFFFFFFFF, Register.PROGRAM_HIGH: address >> 32}

    async def look(context):
        while len(answers) < len(values):
            await context.tick()
        assert context.get(dut.program) == address if readable else context.get(dut.program) >= END

    write(dut, values, answers, look)
