"""The MAC engine's steps against a plain list of what the instructions mean."""

import random
from itertools import pairwise

import pytest
from amaranth.sim import Simulator

from etalstm_hw.compute.mac import MACEngine
from etalstm_hw.contract import FloatFormat, Start, Status

LATENCY = 5
DEPTHS = {"weight_depth": 64, "queue_depth": 32, "bias_depth": 8}
FORMAT = FloatFormat(4, 3)
FLAGS = ("begins", "empty", "null", "last", "narrow")


def scalar(outer=0, inner=0, value=1, **flags):
    return {"value": value, "outer": outer, "inner": inner} | {name: flags.get(name, 0) for name in FLAGS}


def instruction(tiles, scalars, weights=0, sums=0, bias=0, start=Start.NOTHING, cast_tiles=None):
    """An instruction, and the scalars of a CAST of as many tiles if nothing else is said."""
    fields = {"weights": weights, "sums": sums, "bias": bias, "tiles": tiles, "start": int(start)}
    return fields, [message | {"tiles": tiles if cast_tiles is None else cast_tiles} for message in scalars]


def expected_steps(program):
    """Give what is issued: (weight, half, slot, bias, value, begins), and how many of them before each end."""
    steps, ends = [], []
    for fields, scalars in program:
        for message in scalars:
            begins = message["begins"]
            for tile in range(0 if message["null"] else fields["tiles"]):
                has_bias = begins and fields["start"] == Start.BIAS
                place = (tile // 2, ("low", "high")[tile % 2]) if message["narrow"] else (tile, None)
                product = fields["weights"] + message["outer"] + place[0], place[1], message["value"]
                weight, half, value = (None, None, None) if message["empty"] else product
                slot = fields["sums"] + message["inner"] + tile
                steps.append((weight, half, slot, fields["bias"] + tile if has_bias else None, value, begins))
        ends.append(len(steps))
    return steps, ends


async def taken(ctx, stream):
    """Wait for the cycle of a transfer."""
    ready = 0
    while not ready:
        _, _, ready = await ctx.tick().sample(stream.ready)


def execute(program, stall=0.0, vector=0.0, seed=1, cycles=4000):
    """Run a program; give issued steps with their cycles, writes, ends, and the final status."""
    dut = MACEngine(FORMAT, LATENCY, **DEPTHS)
    generator = random.Random(seed)
    issued, writes, dones, status = [], [], [], []

    async def instructions(ctx):
        for fields, _ in program:
            while generator.random() < stall:
                await ctx.tick()
            for name, value in fields.items():
                ctx.set(dut.i.p[name], value)
            ctx.set(dut.i.valid, 1)
            await taken(ctx, dut.i)
            ctx.set(dut.i.valid, 0)

    async def scalars(ctx):
        for _, messages in program:
            for message in messages:
                while generator.random() < stall:
                    await ctx.tick()
                ctx.set(dut.scalars.p, message)
                ctx.set(dut.scalars.valid, 1)
                await taken(ctx, dut.scalars)
                ctx.set(dut.scalars.valid, 0)

    async def watch(ctx):
        for cycle in range(cycles):
            ctx.set(dut.pes_free, generator.random() >= vector)
            ctx.set(dut.sums_free, generator.random() >= vector)
            step = dut.step
            _, _, issue, write, address, done, busy, *values = await ctx.tick().sample(
                dut.issue, dut.write, dut.write_address, dut.done, dut.busy,
                step.weight, step.sums, step.bias, step.value, step.begins, step.biased, step.empty, step.narrow,
                step.high,
            )  # fmt: skip
            weight, sums, bias, value, begins, biased, empty, narrow, high = values
            if issue:
                half = ("low", "high")[high] if narrow else None
                weight, half, value = (None, None, None) if empty else (weight, half, value)
                step = (weight, half, sums, bias if begins and biased else None, value, begins)
                issued.append((cycle, step))
            if write:
                writes.append((cycle, address))
            if done:
                dones.append((cycle, len(writes)))
            if len(dones) == len(program) and not busy:
                break
        status.append(ctx.get(dut.status))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(instructions, background=True)
    simulator.add_testbench(scalars, background=True)
    simulator.add_testbench(watch)
    simulator.run()
    return issued, writes, dones, status[0]


def random_program(seed):
    generator, program = random.Random(seed), []
    for _ in range(12):
        tiles, messages = generator.randrange(1, 5), []
        for _ in range(generator.randrange(8)):
            flags = {name: generator.random() < 0.2 for name in ("begins", "empty", "null", "narrow")}
            messages.append(scalar(generator.randrange(20), generator.randrange(4), generator.randrange(256), **flags))
        messages.append(scalar(3, 2, 7, null=generator.random() < 0.5, last=1))
        start = generator.choice(list(Start))
        program.append(instruction(tiles, messages, generator.randrange(20), generator.randrange(20), 2, start))
    return program


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("vector", [0.0, 0.5])
def test_every_step_is_issued_in_order(stall, vector):
    program = random_program(3)
    steps, ends = expected_steps(program)
    issued, writes, dones, status = execute(program, stall, vector)
    assert [step for _, step in issued] == steps
    assert status == Status.IDLE
    assert [count for _, count in dones] == ends, "an end must come with its last write, and not before"
    for (cycle, step), (written, address) in zip(issued, writes, strict=True):
        assert (written, address) == (cycle + LATENCY, step[2])


@pytest.mark.parametrize("vector", [0.0, 0.5])
def test_no_sum_is_read_before_it_is_written(vector):
    issued, _, _, _ = execute(random_program(5), vector=vector)
    youngest = {}
    for cycle, (_, _, slot, _, _, begins) in issued:
        assert begins or cycle - youngest.get(slot, -99) > LATENCY, f"slot {slot} in cycle {cycle}"
        youngest[slot] = cycle


@pytest.mark.parametrize(("tiles", "slots"), [(1, LATENCY + 1), (2, (LATENCY + 2) // 2), (3, 2)])
def test_sums_far_apart_lose_no_cycle(tiles, slots):
    """Back-to-back scalars and instructions: a MAC in every cycle."""
    messages = [scalar(inner=tiles * n, begins=k == 0) for k in range(4) for n in range(slots)]
    messages[-1]["last"] = 1
    issued, _, _, _ = execute([instruction(tiles, messages)] * 3)
    cycles = [cycle for cycle, _ in issued]
    assert cycles == list(range(cycles[0], cycles[0] + 3 * 4 * tiles * slots))


def test_a_sum_that_comes_round_at_once_waits_for_the_adder():
    issued, _, _, _ = execute([instruction(1, [scalar(), scalar(), scalar(last=1)])])
    cycles = [cycle for cycle, _ in issued]
    assert [b - a for a, b in pairwise(cycles)] == [LATENCY + 1] * 2


@pytest.mark.parametrize(
    ("fields", "message", "expected"),
    [
        ({"tiles": 0, "cast_tiles": 1}, {}, Status.BAD_FIELD),
        ({"tiles": 2, "cast_tiles": 1}, {}, Status.BAD_FIELD),
        ({"tiles": 1, "cast_tiles": 2}, {}, Status.BAD_FIELD),
        ({"tiles": 1, "cast_tiles": 257}, {"null": 1}, Status.BAD_FIELD),
        ({"tiles": 1, "weights": 64}, {}, Status.BAD_ADDRESS),
        ({"tiles": 1, "weights": 8191}, {"outer": 8191}, Status.BAD_ADDRESS),
        ({"tiles": 1}, {"outer": 8192}, Status.BAD_ADDRESS),
        ({"tiles": 1, "weights": 8191}, {"outer": 8192}, Status.BAD_ADDRESS),
        ({"tiles": 1, "sums": 8191}, {"inner": 8192}, Status.BAD_ADDRESS),
        ({"tiles": 1, "sums": 30}, {"inner": 2}, Status.BAD_ADDRESS),
        ({"tiles": 1, "bias": 8, "start": Start.BIAS}, {"begins": 1}, Status.BAD_ADDRESS),
        ({"tiles": 1, "bias": 8}, {"begins": 1}, Status.IDLE),
        ({"tiles": 1, "bias": 8, "start": Start.BIAS}, {}, Status.IDLE),
        ({"tiles": 1, "weights": 64}, {"empty": 1}, Status.IDLE),
        ({"tiles": 1, "weights": 64}, {"narrow": 1}, Status.BAD_ADDRESS),
    ],
)
def test_what_does_not_exist_is_not_used(fields, message, expected):
    issued, _, _, status = execute([instruction(scalars=[scalar(last=1, **message)], **fields)], cycles=30)
    assert status == expected
    assert len(issued) == (expected == Status.IDLE)
