"""How far the store engine runs ahead of its memory: what the count of completions by all channels must bear."""

import pytest
from amaranth.sim import Simulator

from etalstm_hw.contract import BINARY32, Memory, Opcode, encode
from etalstm_hw.dma.store import StoreEngine

STORE = {"memory": Memory.SCRATCH, "outer": 1, "inner": 1, "address": 8}
STREAM = STORE | {"compressed": 1, "first": 1, "start": 100, "end": 200}
CYCLES = 400


def most_open(words, outstanding, answers_from):
    """Offer instructions without end, the last word again and again; give the most that were taken and not done."""
    dut = StoreEngine(BINARY32, 4, 4, 20, outstanding=outstanding)
    counts = []

    async def bench(ctx):
        ctx.set(dut.windows, {"base": 0, "stride": 1 << 16, "size": 1 << 16})
        ctx.set(dut.i.valid, 1)
        for signal in (dut.read.ready, dut.axi.awready, dut.axi.wready):
            ctx.set(signal, 1)
        taken, done, asked, answered = 0, 0, 0, 0
        for cycle in range(CYCLES):
            ctx.set(dut.i.payload, words[min(taken, len(words) - 1)])
            ctx.set(dut.axi.bvalid, cycle >= answers_from and answered < asked)
            *_, takes, ends, asks, answers = await ctx.tick().sample(
                dut.i.ready, dut.done, dut.axi.awvalid & dut.axi.awready, dut.axi.bvalid & dut.axi.bready
            )
            taken, done, asked, answered = taken + takes, done + ends, asked + asks, answered + answers
            counts.append(taken - done)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return max(counts)


@pytest.mark.parametrize("outstanding", [4, 32])
@pytest.mark.parametrize("answers_from", [CYCLES // 2, CYCLES])
def test_capacity_is_the_most_that_can_be_open(outstanding, answers_from):
    """One-vector STOREs that get no answer, then streams, which wait elsewhere; then all get one."""
    plain, streams = encode(Opcode.STORE, **STORE), encode(Opcode.STORE, **STREAM)
    found = [
        most_open([plain] * count + [streams], outstanding, answers_from)
        for count in (outstanding, outstanding + 1, outstanding + 2, CYCLES)
    ]
    capacity = StoreEngine.capacity(outstanding)
    assert max(found) <= capacity, f"{max(found)} instructions, more than {capacity}"
    assert max(found) >= capacity - 1, f"{max(found)} instructions; the bound of {capacity} is not tight"
