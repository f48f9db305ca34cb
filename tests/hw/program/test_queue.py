import random

import pytest
from amaranth.lib import data
from amaranth.sim import Simulator

from etalstm_hw.contract import HEADER, TARGET_BITS
from etalstm_hw.program.queue import InstructionQueue
from etalstm_hw.stream import CHANNEL_ENGINES as ENGINES
from etalstm_hw.stream import Dispatched
from tests.hw.program.dispatched import targets

SHAPE = data.StructLayout(HEADER | {"number": 8})


def run(dut, *benches):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for bench in benches:
        simulator.add_testbench(bench, background=bench is not benches[-1])
    simulator.run()


def put(ctx, dut, number=0, waits=None):
    word = SHAPE.const({"number": number}).as_bits()
    ctx.set(dut.i.p, Dispatched().const({"word": word, "waits": waits or {}}))


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("base", [0, (1 << TARGET_BITS) - 6, (1 << TARGET_BITS) + 5])
def test_keeps_order_and_waits_under_stall(stall, base):
    """Also where targets are equal to those of 2^TARGET_BITS instructions before."""
    generator, dut = random.Random(11), InstructionQueue(SHAPE, 4)
    program = [{e: base + generator.randrange(12) for e in ENGINES if generator.random() < 0.8} for _ in range(60)]

    async def feed(ctx):
        for number, counts in enumerate(program):
            put(ctx, dut, number, targets(**counts))
            ctx.set(dut.i.valid, 1)
            ready = 0
            while not ready:
                _, _, ready = await ctx.tick().sample(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def bench(ctx):
        completed, taken = dict.fromkeys(ENGINES, base), []
        for _ in range(3000):
            ctx.set(dut.o.ready, generator.random() >= stall)
            ctx.set(dut.completed, completed)
            before = dict(completed)
            _, _, valid, ready, number = await ctx.tick().sample(dut.o.valid, dut.o.ready, dut.o.p.number)
            if valid and ready:
                taken.append(number)
                waits = program[number]
                assert all(before[e] >= waits[e] for e in waits), f"instruction {number}: {before} is not {waits}"
            if generator.random() < 0.1:
                completed[generator.choice(ENGINES)] += 1
        assert taken == list(range(len(program)))

    run(dut, feed, bench)


@pytest.mark.parametrize("reserve", [0, 3])
def test_takes_its_reserve_after_it_has_said_that_it_has_no_room(reserve):
    """Nothing leaves: `depth` come while there is room, then the reserve and the one at ``o``."""
    depth = 4
    dut = InstructionQueue(SHAPE, depth, reserve)

    async def bench(ctx):
        rooms = []
        put(ctx, dut)
        ctx.set(dut.i.valid, 1)
        for _ in range(40):
            _, _, ready, room = await ctx.tick().sample(dut.i.ready, dut.room)
            rooms += [room] if ready else []
        assert len(rooms) == depth + reserve + 1
        ctx.set(dut.i.valid, 0)
        assert not ctx.get(dut.room)
        assert all(rooms[:depth]) and sum(rooms) <= depth + 1 + 1  # one has left for ``o`` meanwhile
        ctx.set(dut.o.ready, 1)
        for _ in range(2 * reserve + 1):  # one leaves every two cycles
            assert not ctx.get(dut.room)
            await ctx.tick()
        assert ctx.get(dut.room)

    run(dut, bench)


def test_follows_in_the_cycle_after_the_next():
    """Instructions without waits leave one every two cycles; one that has waited for two cycles follows at once."""
    dut = InstructionQueue(SHAPE, 4)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.valid, 1)
        seen = [(await ctx.tick().sample(dut.o.valid))[2] for _ in range(20)]
        assert seen[3:] == [1, 0] * 8 + [1], seen
        ctx.set(dut.o.ready, 0)
        await ctx.tick().repeat(2)
        ctx.set(dut.o.ready, 1)
        seen = [(await ctx.tick().sample(dut.o.valid))[2] for _ in range(3)]
        assert seen == [1, 1, 0], seen

    run(dut, bench)


def test_everyone_looks_at_the_count_of_all_channels():
    dut = InstructionQueue(SHAPE, 4)

    async def bench(ctx):
        put(ctx, dut, waits=targets(everyone=1, store=2))
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.completed.store, 9)
        await ctx.tick().repeat(5)
        assert not ctx.get(dut.o.valid)
        assert ctx.get(dut.waits) == 0b1000
        assert ctx.get(dut.busy)
        ctx.set(dut.stored_by_all, 2)
        await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.waits) == 0

    run(dut, bench)


def test_drain_lets_nothing_go():
    dut = InstructionQueue(SHAPE, 4)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.drain, 1)
        for _ in range(10):
            await ctx.tick()
            assert not ctx.get(dut.o.valid)

    run(dut, bench)
