"""Every transfer is cut into the bursts that AXI3 memories accept."""

import random

import pytest
from amaranth.sim import Simulator

from etalstm_hw.axi.bursts import Bursts

BEAT_BYTES = 32
SEED = 7


def cut(address, beats):
    """The bursts of a transfer: (address, length, last)."""
    bursts = []
    while beats:
        length = min(beats, 16 - address // BEAT_BYTES % 16)
        bursts.append((address, length - 1, int(beats == length)))
        address, beats = address + length * BEAT_BYTES, beats - length
    return bursts


def run(transfers, stall):
    """Bursts that come out, and the cycles from the first to the last."""
    dut = Bursts(32, 8 * BEAT_BYTES, 12, tag=4)
    bursts, cycles = [], []
    rng = random.Random(SEED)

    async def source(ctx):
        for n, (address, beats) in enumerate(transfers):
            ctx.set(dut.i.payload, {"address": address, "beats": beats, "tag": n % 16})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def sink(ctx):
        expected = sum(len(cut(*t)) for t in transfers)
        for cycle in range(1000):
            ctx.set(dut.o.ready, rng.random() >= stall)
            _, _, valid, ready, payload = await ctx.tick().sample(dut.o.valid, dut.o.ready, dut.o.payload)
            if valid and ready:
                bursts.append((payload.address, payload.length, payload.last, payload.tag))
                cycles.append(cycle)
            if len(bursts) == expected:
                break

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(source, background=True)
    simulator.add_testbench(sink)
    simulator.run()
    return bursts, cycles[-1] - cycles[0] + 1


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_cuts_at_multiples_of_16_beats(stall):
    rng = random.Random(SEED)
    transfers = [(BEAT_BYTES * rng.randrange(4096), rng.choice([1, 2, 15, 16, 17, 40, 200])) for _ in range(12)]
    expected = [(*burst, n % 16) for n, transfer in enumerate(transfers) for burst in cut(*transfer)]
    assert run(transfers, stall)[0] == expected, f"seed {SEED}"


def test_gives_a_burst_every_cycle_for_single_beats():
    assert run([(BEAT_BYTES * n, 1) for n in range(50)], 0.0)[1] == 50


def test_refuses_beats_whose_bursts_could_cross_4_kib():
    with pytest.raises(ValueError, match="4096 bytes"):
        Bursts(32, 4096, 12)
