"""The reader against a small AXI memory model in the Amaranth simulator."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from etalstm_hw.axi.reader import Reader

BEAT_BYTES = 16
SEED = 11


def word(address):
    """What the memory holds."""
    return address * 0x9E3779B97F4A7C15 % (1 << 128)


async def until(ctx, condition):
    """Wait for the clock edge at which the condition holds; unlike ``tick().until``, can be left unfinished."""
    while not (await ctx.tick().sample(condition))[-1]:
        pass


class Bench:
    """A reader, a memory with latency and stalls behind it, and a list of what came out."""

    def __init__(
        self,
        transfers,
        *,
        stall=0.0,
        latency=20,
        errors=(),
        cycles=4000,
        depth=64,
        outstanding=8,
        drain_at=None,
        sink_stall=None,
    ):
        self.dut = Reader(32, 8 * BEAT_BYTES, 12, depth=depth, outstanding=outstanding)
        self.transfers, self.stall, self.latency, self.errors = transfers, stall, latency, errors
        self.cycles, self.drain_at = cycles, drain_at
        self.sink_stall = stall if sink_stall is None else sink_stall
        self.wanted = sum(beats for _, beats in transfers)
        self.beats, self.arrivals, self.requests, self.error, self.busy = [], [], [], 0, []
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._source, background=True)
        simulator.add_testbench(self._memory, background=True)
        simulator.add_testbench(self._sink)
        simulator.run()

    async def _source(self, ctx):
        dut = self.dut
        for address, beats in self.transfers:
            ctx.set(dut.i.payload, {"address": address, "beats": beats})
            ctx.set(dut.i.valid, 1)
            await until(ctx, dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def _memory(self, ctx):
        axi, rng = self.dut.axi, random.Random(SEED)
        queue, cycle, offered = deque(), 0, None
        while True:
            ctx.set(axi.arready, rng.random() >= self.stall)
            if offered is None and queue and queue[0][0] <= cycle and rng.random() >= self.stall:
                offered = queue.popleft()
            if offered:
                _, address, last = offered
                ctx.set(axi.rdata, word(address))
                ctx.set(axi.rresp, 2 if address in self.errors else 0)
                ctx.set(axi.rlast, last)
            ctx.set(axi.rvalid, offered is not None)
            _, _, ar, address, length, r = await ctx.tick().sample(
                axi.arvalid & axi.arready, axi.araddr, axi.arlen, axi.rvalid & axi.rready
            )
            if r:
                offered = None
            else:
                assert offered is None, f"rready was low in cycle {cycle}"
            if ar:
                self.requests.append((cycle, address, length + 1))
                assert address % 4096 + (length + 1) * BEAT_BYTES <= 4096, f"burst at {address:#x} crosses 4 KiB"
                for n in range(length + 1):
                    queue.append((cycle + self.latency, address + n * BEAT_BYTES, n == length))
            cycle += 1

    async def _sink(self, ctx):
        dut, rng = self.dut, random.Random(SEED + 1)
        for cycle in range(self.cycles):
            ctx.set(dut.o.ready, rng.random() >= self.sink_stall)
            ctx.set(dut.drain, self.drain_at is not None and cycle >= self.drain_at)
            _, _, taken, beat, busy = await ctx.tick().sample(dut.o.valid & dut.o.ready, dut.o.payload, dut.busy)
            self.busy.append(busy)
            if taken:
                self.beats.append((beat.data, beat.error, beat.last))
                self.arrivals.append(cycle)
            if len(self.beats) == self.wanted or (self.drain_at and cycle > self.drain_at + 1 and not busy):
                break
        self.error = ctx.get(dut.error)
        await ctx.tick()
        self.busy.append(ctx.get(dut.busy))


def expected(transfers, errors=()):
    """Beats of the transfers."""
    return [
        (word(a + n * BEAT_BYTES), int(a + n * BEAT_BYTES in errors), int(n == beats - 1))
        for a, beats in transfers
        for n in range(beats)
    ]


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_reads_every_beat_in_order(stall):
    rng = random.Random(SEED)
    transfers = [(BEAT_BYTES * rng.randrange(1 << 16), rng.choice([1, 3, 16, 33, 60])) for _ in range(6)]
    bench = Bench(transfers, stall=stall, cycles=12000)
    for n, (got, want) in enumerate(zip(bench.beats, expected(transfers), strict=True)):
        assert got == want, f"seed {SEED}, beat {n}: {got}, expected {want}"
    assert not bench.error and not bench.busy[-1]


def test_overlaps_transfers_and_gives_a_beat_every_cycle():
    bench = Bench([(4096 * n, 32) for n in range(10)], latency=40, depth=128, outstanding=8)
    cycles = bench.arrivals[-1] - bench.arrivals[0] + 1
    assert cycles == 320, f"320 beats took {cycles} cycles"


def test_requests_nothing_it_has_no_room_for():
    """The model checks that ``rready`` never falls."""
    transfers = [(16 * n, 1 + n % 23) for n in range(60)]
    bench = Bench(transfers, latency=1, depth=19, outstanding=8, sink_stall=0.6)
    assert bench.beats == expected(transfers)


def test_reports_the_beat_with_an_error():
    transfers = [(0, 20), (4096, 4)]
    bench = Bench(transfers, errors=(17 * BEAT_BYTES,))
    assert bench.beats == expected(transfers, (17 * BEAT_BYTES,))
    assert bench.error


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("drain_at", [2, 4, 15, 45])
def test_drain_swallows_what_is_outstanding(drain_at, stall):
    bench = Bench([(0, 512)], stall=stall, drain_at=drain_at)
    assert not bench.busy[-1], "still busy"
    assert all(cycle <= drain_at + 1 for cycle, _, _ in bench.requests if not stall), bench.requests
    assert bench.beats == expected([(0, 512)])[: len(bench.beats)]
    assert len(bench.beats) < 512
