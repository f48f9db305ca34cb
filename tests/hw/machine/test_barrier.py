"""What every channel has completed, however far the others are ahead."""

import pytest
from amaranth.sim import Simulator

from etalstm_hw.machine.barrier import StoreBarrier


def counts(pulses, ahead):
    """The count after each cycle, of pulses (one bit for each channel), and after two more."""
    dut, seen = StoreBarrier(3, ahead), []

    async def bench(ctx):
        for pulse in [*pulses, 0, 0]:
            ctx.set(dut.done, pulse)
            await ctx.tick()
            seen.append(ctx.get(dut.count))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return seen


@pytest.mark.parametrize("ahead", [1, 7, 8, 45])
def test_counts_the_slowest_channel(ahead):
    """Two channels lead by all that they can; then the third catches up, and all go on together."""
    pulses = [0b011] * ahead + [0b100] * ahead + [0b111] * 3
    expected = [0] * (ahead + 1) + list(range(1, ahead + 4)) + [ahead + 3]
    assert counts(pulses, ahead) == expected
