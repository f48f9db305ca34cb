"""Readers that share a read port see the memory as if each had its own."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from etalstm_hw.axi.merge import ReadMerge
from etalstm_hw.axi.reader import Reader

SEED = 13
BEAT_BYTES = 16
READERS = 2
OUTSTANDING = 3  # of the port; less than the readers ask for


class Readers(wiring.Component):
    """Two readers on one port."""

    def __init__(self):
        self.readers = [Reader(24, 8 * BEAT_BYTES, 12, depth=32, outstanding=2) for _ in range(READERS)]
        self.merge = ReadMerge(24, 8 * BEAT_BYTES, outstanding=OUTSTANDING)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.merge = self.merge
        for n, reader in enumerate(self.readers):
            m.submodules[f"reader{n}"] = reader
            wiring.connect(m, reader.axi, self.merge.readers[n])
        return m


class Bench:
    """Both readers read transfers of their own; a word of memory is its address."""

    def __init__(self, stall, latency=10):
        rng = random.Random(SEED)
        self.dut, self.stall, self.latency, self.requests, self.last_cycle = Readers(), stall, latency, 0, 0
        self.most = 0
        self.transfers = [
            [(BEAT_BYTES * rng.randrange(1 << 16), rng.choice([1, 3, 16, 33])) for _ in range(8)]
            for _ in range(READERS)
        ]
        self.read = [[] for _ in range(READERS)]
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        for n in range(READERS):
            simulator.add_testbench(self._source(n), background=True)
        simulator.add_testbench(self._memory, background=True)
        simulator.add_testbench(self._sink)
        simulator.run()

    def expected(self, n):
        return [address + k * BEAT_BYTES for address, beats in self.transfers[n] for k in range(beats)]

    def _source(self, n):
        async def testbench(ctx):
            port = self.dut.readers[n].i
            for address, beats in self.transfers[n]:
                ctx.set(port.payload, {"address": address, "beats": beats})
                ctx.set(port.valid, 1)
                while not (await ctx.tick().sample(port.ready))[-1]:
                    pass
            ctx.set(port.valid, 0)

        return testbench

    async def _memory(self, ctx):
        axi, rng, queue, cycle, offered, waiting = self.dut.merge.port, random.Random(SEED), deque(), 0, None, None
        while True:
            ctx.set(axi.arready, rng.random() >= self.stall)
            if offered is None and queue and queue[0][0] <= cycle and rng.random() >= self.stall:
                offered = queue.popleft()
            if offered:
                ctx.set(axi.rdata, offered[1])
                ctx.set(axi.rlast, offered[2])
            ctx.set(axi.rvalid, offered is not None)
            *_, valid, ready, address, length, r = await ctx.tick().sample(
                axi.arvalid, axi.arready, axi.araddr, axi.arlen, axi.rvalid & axi.rready
            )
            flying = valid + sum(last for _, _, last in queue) + (offered is not None and offered[2])
            self.most = max(self.most, flying)
            offered = None if r else offered
            assert waiting is None or (valid and waiting == (address, length)), f"cycle {cycle}: an address has changed"
            waiting = (address, length) if valid and not ready else None
            if valid and ready:
                self.requests += 1
                for n in range(length + 1):
                    queue.append((cycle + self.latency, address + n * BEAT_BYTES, n == length))
            cycle += 1

    async def _sink(self, ctx):
        rng, readers = random.Random(SEED + 1), self.dut.readers
        wanted = [self.expected(n) for n in range(READERS)]
        for self.last_cycle in range(60 * sum(map(len, wanted))):
            for reader in readers:
                ctx.set(reader.o.ready, rng.random() >= self.stall)
            signals = [s for reader in readers for s in (reader.o.valid & reader.o.ready, reader.o.p.data)]
            values = (await ctx.tick().sample(*signals))[2:]
            for n in range(READERS):
                if values[2 * n]:
                    self.read[n].append(values[2 * n + 1])
            if [len(read) for read in self.read] == [len(want) for want in wanted]:
                break


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_gives_each_reader_its_own_beats(stall):
    bench = Bench(stall)
    for n in range(READERS):
        assert bench.read[n] == bench.expected(n), f"seed {SEED}, reader {n}"
    assert bench.most == OUTSTANDING, f"{bench.most} reads in flight at once, expected {OUTSTANDING}"


def test_two_readers_get_a_beat_in_most_cycles():
    bench = Bench(0.0)
    beats = sum(map(len, bench.read))
    assert bench.last_cycle < 1.5 * beats, f"{beats} beats took {bench.last_cycle} cycles"
