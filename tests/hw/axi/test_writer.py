"""The writer against a small AXI memory model in the Amaranth simulator."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from etalstm_hw.axi.writer import Writer

BEAT_BYTES = 16
SEED = 13


async def until(ctx, condition):
    """Wait for the clock edge at which the condition holds; unlike ``tick().until``, can be left unfinished."""
    while not (await ctx.tick().sample(condition))[-1]:
        pass


class Bench:
    """A writer, beats 1, 2, 3 … at its data input, and a memory with latency and stalls behind it."""

    def __init__(self, transfers, *, stall=0.0, latency=20, bad=(), drain_at=None, outstanding=32):
        self.dut = Writer(32, 8 * BEAT_BYTES, 12, outstanding=outstanding)
        self.transfers, self.stall, self.latency, self.bad, self.drain_at = transfers, stall, latency, bad, drain_at
        self.memory, self.data_cycles, self.done, self.kinds, self.error, self.bursts = {}, [], 0, [], 0, 0
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._commands, background=True)
        simulator.add_testbench(self._data, background=True)
        simulator.add_testbench(self._slave, background=True)
        simulator.add_testbench(self._watch)
        simulator.run()

    async def _commands(self, ctx):
        dut = self.dut
        for n, (address, beats) in enumerate(self.transfers):
            tag = {"kind": n % 4, "final": 1}
            ctx.set(dut.i.payload, {"address": address, "beats": beats, "tag": tag})
            ctx.set(dut.i.valid, 1)
            await until(ctx, dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def _data(self, ctx):
        rng = random.Random(SEED)
        for n in range(sum(beats for _, beats in self.transfers)):
            while rng.random() < self.stall:
                await ctx.tick()
            ctx.set(self.dut.data.payload, n + 1)
            ctx.set(self.dut.data.valid, 1)
            await until(ctx, self.dut.data.ready)
            ctx.set(self.dut.data.valid, 0)

    async def _slave(self, ctx):
        axi, rng = self.dut.axi, random.Random(SEED + 1)
        addresses, responses, position, cycle = deque(), deque(), 0, 0
        held = None
        while True:
            ctx.set(axi.awready, rng.random() >= self.stall)
            ctx.set(axi.wready, bool(addresses) and rng.random() >= self.stall)
            response = responses and responses[0][0] <= cycle
            ctx.set(axi.bvalid, bool(response))
            ctx.set(axi.bresp, responses[0][1] if response else 0)
            _, _, aw, address, length, wvalid, wready, beat, strobe, last = await ctx.tick().sample(
                axi.awvalid & axi.awready, axi.awaddr, axi.awlen, axi.wvalid, axi.wready, axi.wdata, axi.wstrb,
                axi.wlast,
            )  # fmt: skip
            if response:
                responses.popleft()
            if held is not None:
                assert (wvalid, beat, strobe, last) == held, f"cycle {cycle}: offered data changed"
            held = (wvalid, beat, strobe, last) if wvalid and not wready else None
            if aw:
                assert address % 4096 + (length + 1) * BEAT_BYTES <= 4096, f"burst at {address:#x} crosses 4 KiB"
                addresses.append((address, length))
                self.bursts += 1
            if wvalid and wready:
                address, length = addresses[0]
                assert last == (position == length), f"cycle {cycle}: wlast at beat {position} of {length}"
                if strobe:
                    self.memory[address + position * BEAT_BYTES] = beat
                self.data_cycles.append(cycle)
                position += 1
                if last:
                    position = 0
                    addresses.popleft()
                    responses.append((cycle + self.latency, 2 if address in self.bad else 0))
            cycle += 1

    async def _watch(self, ctx):
        dut = self.dut
        for cycle in range(20000):
            ctx.set(dut.drain, self.drain_at is not None and cycle >= self.drain_at)
            _, _, done, busy, beats, kind = await ctx.tick().sample(dut.done, dut.busy, dut.beats, dut.kind)
            self.done += done
            if beats:
                self.kinds.append(kind)
            if cycle > 5 and not busy and not done:
                break
        else:
            raise AssertionError("still busy")
        self.error = ctx.get(dut.error)


def expected(transfers):
    memory, n = {}, 0
    for address, beats in transfers:
        for beat in range(beats):
            n += 1
            memory[address + beat * BEAT_BYTES] = n
    return memory


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_writes_every_beat_to_its_place(stall):
    rng = random.Random(SEED)
    transfers = [(8192 * n + BEAT_BYTES * rng.randrange(300), rng.choice([1, 2, 16, 33])) for n in range(8)]
    bench = Bench(transfers, stall=stall)
    assert bench.memory == expected(transfers), f"seed {SEED}"
    assert bench.done == len(transfers) and not bench.error
    assert bench.kinds == [n % 4 for n, (_, beats) in enumerate(transfers) for _ in range(beats)]


def test_writes_a_single_beat_every_cycle():
    transfers = [(64 * n, 1) for n in range(100)]
    bench = Bench(transfers, latency=20)
    cycles = bench.data_cycles[-1] - bench.data_cycles[0] + 1
    assert cycles == 100, f"100 single beats took {cycles} cycles"


def test_is_not_done_with_what_failed_nor_after_it():
    bench = Bench([(0, 1), (64, 20), (4096, 1)], bad=(256,))
    assert bench.done == 1 and bench.error


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("drain_at", [2, 3, 5, 9, 30])
def test_drain_completes_what_has_begun(drain_at, stall):
    """The model checks that every burst has all of its beats and that nothing offered changes."""
    transfers = [(4096 * n, 20) for n in range(20)]
    bench = Bench(transfers, stall=stall, drain_at=drain_at)
    wanted = expected(transfers)
    assert all(wanted[address] == beat for address, beat in bench.memory.items())
    assert bench.bursts < 40
