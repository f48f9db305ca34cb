"""Two managers that share a port of the memory, each through a joiner, see it as if each had its own."""

import random
from collections import deque
from itertools import pairwise

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.sim import Simulator

from etalstm_boards.axi3 import ADDRESS_BITS, AXI3, DATA_BITS, connect_port
from etalstm_boards.crossing import Crossing, channels_of
from etalstm_boards.isolate import Isolator
from etalstm_boards.join import SIDE_ID_BITS, SIDES, Joiner, Slice
from etalstm_boards.resources import units
from etalstm_boards.resources.report import report
from etalstm_hw.axi.axi import AXI4
from etalstm_hw.generate import component_verilog

SEED = 23
BURSTS = 40  # of each side, each way
PAYLOAD = channels_of(AXI3())
BEAT_BYTES = 32


def word(address, beat=0):
    """Data that belong to a beat of the burst at an address."""
    return (address + beat) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 256)


async def send(ctx, rng, bus, channel, transfers, idle):
    """Offer transfers one after the other; each stands until it is taken."""
    valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
    for transfer in transfers:
        while rng.random() < idle:
            await ctx.tick()
        for name, value in transfer.items():
            ctx.set(getattr(bus, channel + name), value)
        ctx.set(valid, 1)
        await ctx.tick().until(ready)
        ctx.set(valid, 0)


async def receive(ctx, rng, bus, channel, stall, take):
    """Take transfers, with pauses; what is offered must stand until it is taken."""
    valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
    signals = [getattr(bus, name) for name in PAYLOAD[channel]]
    waiting = None
    while True:
        ctx.set(ready, rng.random() >= stall)
        _, _, offered, taken, *shown = await ctx.tick().sample(valid, valid & ready, *signals)
        assert waiting is None or (offered and shown == waiting), f"{channel} offered {waiting}, then {shown}"
        waiting = shown if offered and not taken else None
        if taken:
            take(dict(zip((name[len(channel) :] for name in PAYLOAD[channel]), shown, strict=True)))


def background(simulator, seeds, function, *arguments):
    """Let a function run along, with a generator of its own for what is random in it."""
    rng = random.Random(seeds.random())

    async def bench(ctx):
        await function(ctx, rng, *arguments)

    simulator.add_testbench(bench, background=True)


class Side:
    """A manager: what it asks for, and what it has got."""

    def __init__(self, number, rng):
        self.bursts = {
            channel: [
                {
                    "id": rng.randrange(1 << SIDE_ID_BITS),
                    "addr": (number << 32) + 4096 * n,
                    "len": rng.choice([0, 1, 15]),
                    "size": 5,
                    "burst": 1,
                }
                for n in range(BURSTS)
            ]
            for channel in ("ar", "aw")
        }
        self.beats = [
            {"data": word(burst["addr"], n), "strb": (1 << BEAT_BYTES) - 1, "last": n == burst["len"]}
            for burst in self.bursts["aw"]
            for n in range(burst["len"] + 1)
        ]
        self.read, self.written = [], []

    @property
    def done(self):
        """Whether everything has been answered."""
        return sum(beat["last"] for beat in self.read) == len(self.written) == BURSTS

    def check(self, seed):
        """Each ID's answers come in the order of its bursts, every beat, with what belongs there."""
        for number in range(1 << SIDE_ID_BITS):
            mine = [burst for burst in self.bursts["ar"] if burst["id"] == number]
            expected = [(word(b["addr"], n), n == b["len"]) for b in mine for n in range(b["len"] + 1)]
            found = [(beat["data"], beat["last"]) for beat in self.read if beat["id"] == number]
            assert found == expected, f"seed {seed}: reads of ID {number}"
            writes = [word(burst["addr"]) & 3 for burst in self.bursts["aw"] if burst["id"] == number]
            assert [answer["resp"] for answer in self.written if answer["id"] == number] == writes, f"seed {seed}"


class Memory:
    """Answers bursts of different IDs in any order, reads beat by beat; write data are those of the oldest address."""

    def __init__(self):
        self.reads, self.answers = {}, {}
        self.addresses, self.position = deque(), 0
        self.early = deque()  # write data that came before their address
        self.order = []  # sides of the read addresses

    def read(self, burst):
        beats = [{"data": word(burst["addr"], n), "last": n == burst["len"]} for n in range(burst["len"] + 1)]
        self.reads.setdefault(burst["id"], deque()).extend(beats)
        self.order.append(burst["id"] >> SIDE_ID_BITS)
        assert burst["addr"] >> 32 == burst["id"] >> SIDE_ID_BITS and (burst["size"], burst["burst"]) == (5, 1)

    def write(self, burst):
        assert burst["addr"] >> 32 == burst["id"] >> SIDE_ID_BITS and (burst["size"], burst["burst"]) == (5, 1)
        self.addresses.append(burst)
        self._match()

    def data(self, beat):
        self.early.append(beat)
        self._match()

    def _match(self):
        while self.early and self.addresses:
            beat, burst = self.early.popleft(), self.addresses[0]
            assert beat["data"] == word(burst["addr"], self.position), f"wrong data for {burst['addr']:#x}"
            assert beat["last"] == (self.position == burst["len"]) and beat["strb"] == (1 << BEAT_BYTES) - 1
            self.position = 0 if beat["last"] else self.position + 1
            if beat["last"]:
                self.addresses.popleft()
                self.answers.setdefault(burst["id"], deque()).append({"resp": word(burst["addr"]) & 3})

    async def answer(self, ctx, rng, port, channel, queues, stall):
        """Offer an answer of some ID, until it is taken, then another one."""
        valid, ready = getattr(port, f"{channel}valid"), getattr(port, f"{channel}ready")
        while True:
            waiting = [number for number, queue in queues.items() if queue]
            if not waiting or rng.random() < stall:
                await ctx.tick()
                continue
            number = rng.choice(waiting)
            for name, value in ({"id": number} | queues[number].popleft()).items():
                ctx.set(getattr(port, channel + name), value)
            ctx.set(valid, 1)
            await ctx.tick().until(ready)
            ctx.set(valid, 0)


def simulate(stall, *, slow=0.0):
    """Let both sides write and read at random; give them, the memory and the number of cycles.

    The second side gives write data and takes answers as seldom as `slow` says.
    """
    seeds = random.Random(f"{SEED} {stall} {slow}")
    dut, sides, memory = Joiner(), [Side(number, seeds) for number in range(SIDES)], Memory()
    simulator = Simulator(dut)
    simulator.add_clock(1e-9)

    for side, bus, pauses in zip(sides, dut.sides, (stall, max(stall, slow)), strict=True):
        for channel in ("ar", "aw"):
            background(simulator, seeds, send, bus, channel, side.bursts[channel], stall)
        background(simulator, seeds, send, bus, "w", side.beats, pauses)
        background(simulator, seeds, receive, bus, "r", pauses, side.read.append)
        background(simulator, seeds, receive, bus, "b", pauses, side.written.append)
    for channel, take in (("ar", memory.read), ("aw", memory.write), ("w", memory.data)):
        background(simulator, seeds, receive, dut.port, channel, stall, take)
    for channel, queues in (("r", memory.reads), ("b", memory.answers)):
        background(simulator, seeds, memory.answer, dut.port, channel, queues, stall)
    cycles = 0

    async def watch(ctx):
        nonlocal cycles
        while not all(side.done for side in sides):
            await ctx.tick()
            cycles += 1
            assert cycles < 60_000, f"seed {SEED}: a side still waits"

    simulator.add_testbench(watch)
    simulator.run()
    return sides, memory, cycles


@pytest.mark.parametrize("slow", [0.0, 0.95])
@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_both_sides_are_served_as_if_alone(stall, slow):
    sides, _, _ = simulate(stall, slow=slow)
    for side in sides:
        side.check(SEED)


def test_addresses_are_served_in_turn():
    _, memory, _ = simulate(0.0)
    assert all(one != other for one, other in pairwise(memory.order)), memory.order


def test_a_beat_passes_in_every_cycle_each_way():
    sides, _, cycles = simulate(0.0)
    most = max(sum(len(getattr(side, name)) for side in sides) for name in ("read", "beats"))
    assert cycles <= 1.05 * most + 10, f"{cycles} cycles for {most} beats"


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_a_slice_keeps_every_transfer(stall):
    seeds = random.Random(f"{SEED} {stall}")
    dut, found = Slice(AXI3()), {channel: [] for channel in PAYLOAD}
    sent = {
        channel: [
            {name[len(channel) :]: seeds.randrange(1 << len(getattr(dut.port, name))) for name in names}
            for _ in range(200)
        ]
        for channel, names in PAYLOAD.items()
    }
    simulator = Simulator(dut)
    simulator.add_clock(1e-9)

    async def until_all_came(ctx):
        cycles = 0
        while any(len(transfers) < 200 for transfers in found.values()):
            await ctx.tick()
            cycles += 1
        assert stall or cycles <= 203, f"{cycles} cycles for 200 transfers"

    for channel, transfers in sent.items():
        source, sink = (dut.port, dut.manager) if channel in ("r", "b") else (dut.manager, dut.port)
        background(simulator, seeds, send, source, channel, transfers, stall)
        background(simulator, seeds, receive, sink, channel, stall, found[channel].append)
    simulator.add_testbench(until_all_came)
    simulator.run()
    assert found == sent, f"seed {SEED}"


class TwoUsers(wiring.Component):
    """What lies between two users of the memory and their port, as in the shell, but with one clock."""

    def __init__(self):
        self._bus = AXI4(ADDRESS_BITS, DATA_BITS)
        super().__init__({"users": In(self._bus).array(SIDES), "stop": In(1), "port": Out(AXI3())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.joiner = joiner = Joiner()
        stop = Signal()
        m.d.sync += stop.eq(self.stop)
        for n, (user, side) in enumerate(zip(self.users, joiner.sides, strict=True)):
            m.submodules[f"crossing{n}"] = crossing = Crossing(self._bus, near="sync", far="sync")
            m.submodules[f"slice{n}"] = between = Slice(self._bus)
            m.submodules[f"isolator{n}"] = isolator = Isolator(self._bus)
            connect(m, flipped(user), crossing.manager)
            connect(m, crossing.port, between.manager)
            connect(m, between.port, isolator.manager)
            connect_port(m, side, isolator.port)
            m.d.comb += isolator.stop.eq(stop)
        connect(m, joiner.port, flipped(self.port))
        return m


def test_little_logic_lies_between_registers_at_the_fastest_clock(yosys, monkeypatch):
    """docs/vcu128.md says how much. Modules are not cut into units, as for the card Vivado optimises across them."""
    monkeypatch.setattr(units, "LEAST_LINES", 1 << 30)
    deepest = report(component_verilog(TwoUsers()), "top").deepest.deepest
    assert deepest.levels <= 6, f"{deepest.levels} levels from {deepest.start} to {deepest.end}"
