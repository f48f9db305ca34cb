"""Managers that use one port see the memory as if each had its own."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from etalstm_hw.axi.arbiter import PortArbiter
from etalstm_hw.axi.axi import AXI4, join
from etalstm_hw.axi.reader import Reader
from etalstm_hw.axi.writer import Writer

BEAT_BYTES = 16
SEED = 17
OUTSTANDING = 5  # reads of the port; less than one manager asks for
REGION = 1 << 16  # bytes of memory that each manager writes and reads


def word(address):
    return address * 0x9E3779B97F4A7C15 % (1 << 128)


class Channels(wiring.Component):
    """Readers and writers, a pair for each manager."""

    def __init__(self, count):
        self.readers = [Reader(24, 8 * BEAT_BYTES, 12, depth=64) for _ in range(count)]
        self.writers = [Writer(24, 8 * BEAT_BYTES, 12) for _ in range(count)]
        self.arbiter = PortArbiter(24, 8 * BEAT_BYTES, count, outstanding=OUTSTANDING)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = self.arbiter
        for n, (reader, writer) in enumerate(zip(self.readers, self.writers, strict=True)):
            m.submodules[f"reader{n}"], m.submodules[f"writer{n}"] = reader, writer
            port = AXI4(24, 8 * BEAT_BYTES).create(path=(f"port{n}",))
            join(m, port, reader.axi, writer.axi)
            wiring.connect(m, port, self.arbiter.managers[n])
        return m


class Bench:
    """Each manager writes and reads transfers of its own; the memory answers IDs in any order.

    A beat that is written must be what :func:`word` gives for its address, and what is read is.
    """

    def __init__(self, count, stall):
        rng = random.Random(SEED)
        self.dut, self.count, self.stall = Channels(count), count, stall
        self.transfers = [
            [(REGION * n + 4096 * k + BEAT_BYTES * rng.randrange(64), rng.choice([1, 3, 16, 40])) for k in range(6)]
            for n in range(count)
        ]
        self.most = 0  # reads in flight at once
        self.written, self.read, self.done, self.data_cycles = set(), [[] for _ in range(count)], [0] * count, []
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        for n in range(count):
            reader, writer = self.dut.readers[n], self.dut.writers[n]
            simulator.add_testbench(self._commands(reader.i, self.transfers[n], {}), background=True)
            simulator.add_testbench(self._commands(writer.i, self.transfers[n], {"tag": {"final": 1}}), background=True)
            simulator.add_testbench(self._data(writer, n), background=True)
        simulator.add_testbench(self._memory, background=True)
        simulator.add_testbench(self._watch)
        simulator.run()

    def _commands(self, port, transfers, more):
        async def testbench(ctx):
            for address, beats in transfers:
                ctx.set(port.payload, {"address": address, "beats": beats} | more)
                ctx.set(port.valid, 1)
                await ctx.tick().until(port.ready)
                ctx.set(port.valid, 0)

        return testbench

    def _data(self, writer, n):
        async def testbench(ctx):
            rng = random.Random(n)
            for address in (a + BEAT_BYTES * k for a, beats in self.transfers[n] for k in range(beats)):
                while rng.random() < self.stall:
                    await ctx.tick()
                ctx.set(writer.data.payload, word(address))
                ctx.set(writer.data.valid, 1)
                await ctx.tick().until(writer.data.ready)
                ctx.set(writer.data.valid, 0)

        return testbench

    async def _memory(self, ctx):
        axi, rng = self.dut.arbiter.port, random.Random(SEED)
        reads, responses = ([deque() for _ in range(self.count)] for _ in range(2))
        addresses, position, cycle, r, b = deque(), 0, 0, None, None

        def pick(queues):
            waiting = [n for n, queue in enumerate(queues) if queue]
            if not waiting or rng.random() < self.stall:
                return None
            number = rng.choice(waiting)
            return number, queues[number].popleft()

        while True:
            r, b = r or pick(reads), b or pick(responses)
            ctx.set(axi.rvalid, r is not None)
            if r:
                ctx.set(axi.rid, r[0])
                ctx.set(axi.rdata, word(r[1][0]))
                ctx.set(axi.rlast, r[1][1])
            ctx.set(axi.bvalid, b is not None)
            ctx.set(axi.bid, b[0] if b else 0)
            for ready in (axi.arready, axi.awready):
                ctx.set(ready, rng.random() >= self.stall)
            ctx.set(axi.wready, bool(addresses) and rng.random() >= self.stall)
            _, _, ar, arid, araddr, arlen, aw, awid, awaddr, awlen, w, data, last, r_taken, b_taken = (
                await ctx.tick().sample(
                    axi.arvalid & axi.arready, axi.arid, axi.araddr, axi.arlen,
                    axi.awvalid & axi.awready, axi.awid, axi.awaddr, axi.awlen,
                    axi.wvalid & axi.wready, axi.wdata, axi.wlast,
                    axi.rvalid & axi.rready, axi.bvalid & axi.bready,
                )
            )  # fmt: skip
            flying = ar + sum(last for queue in reads for _, last in queue) + bool(r and r[1][1])
            self.most = max(self.most, flying)
            r, b = None if r_taken else r, None if b_taken else b
            if ar:
                reads[arid].extend((araddr + n * BEAT_BYTES, n == arlen) for n in range(arlen + 1))
            if aw:
                addresses.append((awid, awaddr, awlen))
            if w:
                number, address, length = addresses[0]
                address += position * BEAT_BYTES
                assert data == word(address), f"cycle {cycle}, manager {number}: wrong data for {address:#x}"
                assert last == (position == length)
                self.written.add(address)
                self.data_cycles.append(cycle)
                position = 0 if last else position + 1
                if last:
                    responses[addresses.popleft()[0]].append(None)
            cycle += 1

    async def _watch(self, ctx):
        readers, writers = self.dut.readers, self.dut.writers
        for reader in readers:
            ctx.set(reader.o.ready, 1)
        signals = [s for n in range(self.count) for s in (readers[n].o.valid, readers[n].o.p.data, writers[n].done)]
        wanted = sum(beats for transfers in self.transfers for _, beats in transfers)
        for _ in range(100 * wanted):
            values = (await ctx.tick().sample(*signals))[2:]
            for n in range(self.count):
                valid, data, done = values[3 * n : 3 * n + 3]
                self.done[n] += done
                if valid:
                    self.read[n].append(data)
            if sum(map(len, self.read)) == wanted and self.done == [len(t) for t in self.transfers]:
                break


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("count", [2, 3])
def test_serves_every_manager_as_if_alone(count, stall):
    bench = Bench(count, stall)
    addresses = [[a + BEAT_BYTES * k for a, beats in t for k in range(beats)] for t in bench.transfers]
    for n in range(count):
        assert bench.read[n] == [word(a) for a in addresses[n]], f"seed {SEED}, manager {n}"
    assert bench.written == {a for own in addresses for a in own}
    assert bench.done == [len(t) for t in bench.transfers]
    assert bench.most == OUTSTANDING, f"{bench.most} reads in flight at once, expected {OUTSTANDING}"


def test_writes_a_beat_every_cycle():
    cycles = Bench(2, 0.0).data_cycles
    assert cycles[-1] - cycles[0] + 1 <= len(cycles) * 1.1, (
        f"{len(cycles)} beats in {cycles[-1] - cycles[0] + 1} cycles"
    )


@pytest.mark.filterwarnings("ignore")
def test_refuses_a_single_manager():
    with pytest.raises(ValueError, match="at least 2 managers, got 1"):
        PortArbiter(24, 128, 1, outstanding=8)
