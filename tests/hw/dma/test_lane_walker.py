"""The address loop gives what two nested Python loops give."""

from amaranth.sim import Simulator

from etalstm_hw.contract import LANE_ADDRESS_BITS
from etalstm_hw.dma.walker import LaneWalker

LOOPS = [
    {"lane_address": 5, "outer": 3, "inner": 4, "outer_stride": 100, "inner_stride": 7},
    {"lane_address": 0, "outer": 1, "inner": 1, "outer_stride": 1, "inner_stride": 1},
    {"lane_address": 8000, "outer": 2, "inner": 3, "outer_stride": 8191, "inner_stride": 200},
]


def test_runs_through_two_nested_loops_back_to_back():
    dut = LaneWalker()
    seen = []

    async def bench(ctx):
        ctx.set(dut.pattern, LOOPS[0])
        ctx.set(dut.start, 1)
        await ctx.tick()
        for n, loop in enumerate(LOOPS):
            for step in range(loop["outer"] * loop["inner"]):
                seen.append((ctx.get(dut.address), ctx.get(dut.ends_inner), ctx.get(dut.ends)))
                last = step == loop["outer"] * loop["inner"] - 1
                ctx.set(dut.step, 1)
                ctx.set(dut.start, last)
                if last and n + 1 < len(LOOPS):
                    ctx.set(dut.pattern, LOOPS[n + 1])
                await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    expected = []
    for loop in LOOPS:
        for outer in range(loop["outer"]):
            for inner in range(loop["inner"]):
                address = loop["lane_address"] + outer * loop["outer_stride"] + inner * loop["inner_stride"]
                ends_inner = inner == loop["inner"] - 1
                ends = ends_inner and outer == loop["outer"] - 1
                expected.append((address % (1 << LANE_ADDRESS_BITS), int(ends_inner), int(ends)))
    assert seen == expected
