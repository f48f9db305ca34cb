"""Rows that are needed come out as LOADs, in order; what is asked for of memory is what the maps are made of."""

import random
from collections import deque
from itertools import product

import pytest
from amaranth.sim import Simulator

from etalstm_hw.contract import BINARY32, Opcode, Status, decode, encode
from etalstm_hw.program.rows import RowLoads
from etalstm_hw.stream import Dispatched
from tests.hw.program.dispatched import dispatched, targets

SEED = 5
LANES, BEAT_WORDS, CHANNELS, TILES = 8, 4, 3, 2
VECTOR_BEATS, BEAT_BYTES, GATES = LANES // BEAT_WORDS, 4 * BEAT_WORDS, 4
BASE, STRIDE, SIZE = 1 << 14, 1 << 13, 1 << 12  # of the windows, in bytes
MAPS = {GATES: 40, 1: 100}  # beats in a window at which the maps begin, by the rows of a lane
LAST_LANES = 3
KINDS = (0.0, 0.3, 0.9, 1.0)  # shares of rows that are needed


def rows_of(tile, gates=GATES):
    return gates * (LAST_LANES if tile == TILES - 1 else LANES)


def instruction(first_block=0, blocks=CHANNELS * TILES, gates=GATES, **fields):
    """Fields of a LOAD_ROWS; a lane has so many rows as there are gates."""
    outer = sum(rows_of((first_block + n) % TILES, gates) for n in range(blocks))
    channel, tile = divmod(first_block, TILES)
    return {
        "address": 96, "kind": 0, "memory": 0, "lane_address": 20, "outer": outer, "inner": 3, "outer_stride": 5,
        "inner_stride": 1, "map": MAPS[gates], "channel": channel, "tile": tile, "tiles_per_channel": TILES,
        "lanes": LANES, "last_lanes": LAST_LANES, "single": gates == 1,
    } | fields  # fmt: skip


class Maps:
    """What every group needs of every block, and how it lies in memory; other words are not zero."""

    def __init__(self, share, groups=1):
        rng = random.Random(SEED)
        self.groups, windows = groups, range(groups * CHANNELS)
        self.of_window = {
            (gates, window, tile): [rng.random() < share for _ in range(rows_of(tile, gates))]
            for gates, window, tile in product(MAPS, windows, range(TILES))
        }

    def needed(self, gates, block):
        """Tell which rows of a block some group needs."""
        channel, tile = divmod(block, TILES)
        of_groups = [self.of_window[gates, group * CHANNELS + channel, tile] for group in range(self.groups)]
        return [any(row) for row in zip(*of_groups, strict=True)]

    def beat(self, address):
        window, offset = divmod(address - BASE, STRIDE)
        gates = 1 if offset // BEAT_BYTES >= MAPS[1] else GATES
        tile, place = divmod(offset // BEAT_BYTES - MAPS[gates], gates * VECTOR_BEATS)
        gate, part = divmod(place, VECTOR_BEATS)
        rows, word = self.of_window[gates, window, tile], 0
        for n in range(BEAT_WORDS):
            row = gates * (part * BEAT_WORDS + n) + gate
            bits = 0x3F800000 if row >= len(rows) or rows[row] else random.Random(address + n).choice([0, 1 << 31])
            word |= bits << 32 * n
        return word


def loads_of(fields, maps):
    """The LOADs that the needed rows of an instruction are read with: runs, each of one block."""
    block, row, runs = fields["channel"] * TILES + fields["tile"], 0, []
    while row < fields["outer"]:
        open_run = False
        for needed in maps.needed(1 if fields["single"] else GATES, block):
            if needed and open_run:
                runs[-1][1] += 1
            elif needed:
                runs.append([row, 1])
            open_run, row = needed, row + 1
        block += 1
    common = {name: fields[name] for name in ("kind", "memory", "inner", "outer_stride", "inner_stride")}
    found = [
        common | {
            "address": fields["address"] + first * fields["inner"] * VECTOR_BEATS,
            "lane_address": fields["lane_address"] + first * fields["outer_stride"],
            "outer": count,
        }
        for first, count in runs or [(0, 1)]
    ]  # fmt: skip
    return [encode(Opcode.LOAD, **load, more=n < len(found) - 1) for n, load in enumerate(found)]


class Bench:
    """Instructions at one end, a memory with latency, channels that take what comes out."""

    def __init__(self, words, maps, *, stall=0.0, latency=20, stored=0, stored_from=0, errors=(), cycles=6000):
        self.dut = RowLoads(BINARY32, lanes=LANES, beat_words=BEAT_WORDS, address_bits=24)
        self.words, self.maps, self.stall, self.latency = words, maps, stall, latency
        self.stored, self.stored_from, self.errors, self.cycles = stored, stored_from, errors, cycles
        self.found, self.times, self.seen, self.skipped, self.beats, self.first_read = [], [], 0, 0, 0, None
        self.status = None
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._source, background=True)
        simulator.add_testbench(self._memory, background=True)
        simulator.add_testbench(self._sink)
        simulator.run()

    async def _source(self, ctx):
        dut, rng = self.dut, random.Random(SEED + 1)
        for word in self.words:
            while rng.random() < self.stall:
                await ctx.tick()
            ctx.set(dut.i.payload, Dispatched().from_bits(word))
            ctx.set(dut.i.valid, 1)
            while not (await ctx.tick().sample(dut.i.ready))[-1]:
                pass
            ctx.set(dut.i.valid, 0)

    async def _memory(self, ctx):
        axi, rng, queue, cycle, offered = self.dut.axi, random.Random(SEED), deque(), 0, None
        ctx.set(self.dut.windows, {"base": BASE, "stride": STRIDE, "size": SIZE})
        ctx.set(self.dut.group, {"size": CHANNELS, "count": self.maps.groups})
        while True:
            ctx.set(axi.arready, rng.random() >= self.stall)
            ctx.set(self.dut.stored_by_all, self.stored if cycle >= self.stored_from else 0)
            if offered is None and queue and queue[0][0] <= cycle and rng.random() >= self.stall:
                offered = queue.popleft()
            if offered:
                _, address, last = offered
                ctx.set(axi.rdata, self.maps.beat(address))
                ctx.set(axi.rresp, 2 if address in self.errors else 0)
                ctx.set(axi.rlast, last)
            ctx.set(axi.rvalid, offered is not None)
            *_, ar, address, length, r = await ctx.tick().sample(
                axi.arvalid & axi.arready, axi.araddr, axi.arlen, axi.rvalid & axi.rready
            )
            offered = None if r else offered
            if ar:
                self.first_read = cycle if self.first_read is None else self.first_read
                for n in range(length + 1):
                    queue.append((cycle + self.latency, address + n * BEAT_BYTES, n == length))
            cycle += 1

    async def _sink(self, ctx):
        dut, rng, idle = self.dut, random.Random(SEED + 2), 0
        for cycle in range(self.cycles):
            ctx.set(dut.o.ready, rng.random() >= self.stall)
            *_, taken, word, seen, skipped, beat = await ctx.tick().sample(
                dut.o.valid & dut.o.ready, dut.o.p.as_value(), dut.seen, dut.skipped, dut.beat
            )
            self.seen, self.skipped, self.beats = self.seen + seen, self.skipped + skipped, self.beats + beat
            idle = 0 if taken or seen or beat else idle + 1
            if taken:
                self.found.append(word)
                self.times.append(cycle)
            if idle > 300 + self.latency:
                break
        self.status = Status(ctx.get(dut.status))


def check(bench, expected):
    for n, (got, want) in enumerate(zip(bench.found, expected, strict=False)):
        assert got == want, f"seed {SEED}, instruction {n}: {decode(got)}, expected {decode(want)}"
    assert len(bench.found) == len(expected), f"{len(bench.found)} instructions, expected {len(expected)}"


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("share", KINDS)
def test_gives_the_rows_that_are_needed(share, stall):
    """Whole arrays and parts of them, others between; waits are handed on, rows and beats of maps are counted."""
    maps, others = Maps(share), [encode(Opcode.VECTOR, inner=2, outer=7), encode(Opcode.LOAD, outer=1, inner=9)]
    parts = [instruction(), instruction(1, 3, inner=1), instruction(5, 1), instruction(2, 2, lane_address=0)]
    words = [encode(Opcode.LOAD_ROWS, **part) for part in parts]
    bench = Bench([others[0], *words[:2], *others, *words[2:]], maps, stall=stall, cycles=40000)
    found = [loads_of(part, maps) for part in parts]
    check(bench, [others[0], *found[0], *found[1], *others, *found[2], *found[3]])
    blocks = [range(0, 6), range(1, 4), range(5, 6), range(2, 4)]
    needed = [row for part in blocks for block in part for row in maps.needed(GATES, block)]
    assert (bench.seen, bench.skipped) == (len(needed), len(needed) - sum(needed))
    assert bench.beats == GATES * VECTOR_BEATS * sum(map(len, blocks))
    assert bench.status == Status.IDLE


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("share", KINDS)
def test_lanes_of_one_row_and_of_four_take_turns(share, groups, stall):
    """A row is needed if some group needs it; the maps of single rows take a quarter of the beats."""
    maps, kinds = Maps(share, groups), (1, 1, GATES, 1)
    parts = [instruction(n, 4 - n, gates=gates) for n, gates in enumerate(kinds)]
    bench = Bench([encode(Opcode.LOAD_ROWS, **part) for part in parts], maps, stall=stall, cycles=40000)
    check(bench, [word for part in parts for word in loads_of(part, maps)])
    needed = [row for n, gates in enumerate(kinds) for block in range(n, 4) for row in maps.needed(gates, block)]
    assert (bench.seen, bench.skipped) == (len(needed), len(needed) - sum(needed))
    assert bench.beats == groups * VECTOR_BEATS * sum(gates * (4 - n) for n, gates in enumerate(kinds))
    assert bench.status == Status.IDLE


def test_hands_the_waits_on():
    waits = targets(load=3, mac=4, vector=5, store=6)
    bench = Bench([dispatched(Opcode.LOAD_ROWS, waits, **instruction(0, 1))], Maps(1.0), stored=6)
    (found,) = bench.found
    assert Dispatched().from_bits(found).waits == Dispatched().const({"waits": waits}).waits


def test_reads_no_map_before_every_channel_has_stored():
    maps = Maps(0.5)
    word = dispatched(Opcode.LOAD_ROWS, targets(store=9), **instruction())
    bench = Bench([word], maps, stored=9, stored_from=150)
    assert 150 <= bench.first_read < 160, bench.first_read
    assert not Bench([word], maps, stored=8).found


def test_rows_that_are_all_needed_are_a_load_for_each_block():
    """The first goes out as soon as the second block begins; a latency as long as a block is seen once."""
    bench = Bench([encode(Opcode.LOAD_ROWS, **instruction())], Maps(1.0), latency=20)
    assert len(bench.found) == CHANNELS * TILES
    assert bench.times[0] < 20 + rows_of(0) + 20, bench.times
    assert bench.times[-1] < 20 + CHANNELS * (rows_of(0) + rows_of(1)) + 5 * len(bench.found), bench.times


def test_rows_of_which_none_is_needed_take_a_cycle_for_each_lane():
    bench = Bench([encode(Opcode.LOAD_ROWS, **instruction())], Maps(0.0), latency=0)
    assert len(bench.found) == 1
    assert bench.times[-1] < CHANNELS * TILES * (GATES * VECTOR_BEATS + 12), bench.times


@pytest.mark.parametrize(
    "bad, expected",
    [
        ({"lanes": LANES + 1}, Status.BAD_FIELD),
        ({"outer": 33}, Status.BAD_FIELD),
        ({"outer": 31}, Status.BAD_FIELD),
        ({"single": 1, "outer": 9, "last_lanes": 8}, Status.BAD_FIELD),
        ({"map": SIZE // BEAT_BYTES - GATES * VECTOR_BEATS + 1}, Status.BAD_ADDRESS),
        ({"single": 1, "outer": 8, "map": SIZE // BEAT_BYTES - VECTOR_BEATS + 1}, Status.BAD_ADDRESS),
        ({"map": (1 << 28) - 1}, Status.BAD_ADDRESS),
        ({"channel": CHANNELS}, Status.BAD_ADDRESS),
        ({"channel": 255, "tile": 1}, Status.BAD_ADDRESS),
    ],
    ids=str,
)
def test_refuses(bad, expected):
    """The instruction before is handed on, the refused one and what follows are not."""
    before, after = encode(Opcode.LOAD, outer=1, inner=1), encode(Opcode.HALT)
    bench = Bench([before, encode(Opcode.LOAD_ROWS, **instruction(0, 1) | bad), after], Maps(0.5))
    assert bench.status == expected
    assert bench.found[:1] == [before] and after not in bench.found
    assert all(decode(word)[1]["more"] for word in bench.found[1:])


def test_a_read_error_stops_it():
    address = BASE + STRIDE + MAPS[GATES] * BEAT_BYTES
    bench = Bench([encode(Opcode.LOAD_ROWS, **instruction())], Maps(0.5), errors={address})
    assert bench.status == Status.READ_ERROR
    assert all(decode(word)[1]["more"] for word in bench.found)
