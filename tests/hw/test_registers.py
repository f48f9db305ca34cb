"""The registers' bus: every access is answered once, whatever the order and the stalls of its channels."""

import random

import pytest
from amaranth.sim import Simulator

from etalstm.hw.config import preset
from etalstm.hw.contract import KEPT_REGISTERS, MAGIC, Register
from etalstm.hw.registers import Registers

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


def test_identify_machine_and_build():
    config = preset("test")
    dut, found = Registers(config, build=0x600DF00D), []
    wanted = (Register.MAGIC, Register.PRESET, Register.BUILD)
    simulate(dut, sender(dut.bus, "ar", wanted, 0.0), taker(dut.bus, "r", len(wanted), 0.0, found))
    assert found == [MAGIC, config.digest, 0x600DF00D]


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_keep_what_is_written_and_answer_each_access_once(stall):
    dut, generator = Registers(preset("test")), random.Random(SEED)
    values = [generator.getrandbits(32) for _ in KEPT_REGISTERS]
    count, answers, found = len(values), [], []

    async def read_when_all_is_written(context):
        while len(answers) < count:
            await context.tick()
        await sender(dut.bus, "ar", KEPT_REGISTERS, stall)(context)

    simulate(
        dut,
        sender(dut.bus, "aw", KEPT_REGISTERS, stall),
        sender(dut.bus, "w", values, stall),
        taker(dut.bus, "b", count, stall, answers),
        read_when_all_is_written,
        taker(dut.bus, "r", count, stall, found),
    )
    assert answers == [0] * count, f"seed {SEED}: {len(answers)} answers to {count} writes"
    assert found == values, f"seed {SEED}"
