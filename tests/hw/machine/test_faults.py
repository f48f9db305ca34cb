"""Which of many channels' faults is given, and when."""

import pytest
from amaranth.sim import Simulator

from etalstm_hw.contract import Engine, Status
from etalstm_hw.machine.faults import Faults

CHANNELS = 19
LATENCY = 2
COUNT = 1 << 31


def given(faults):
    """What is given, cycle by cycle, of {channel: (cycle, status, engine)}; counts are COUNT + 100·channel + engine."""
    dut, seen = Faults(CHANNELS), []

    async def main(ctx):
        for number in range(CHANNELS):
            for engine in (Engine.LOAD, Engine.MAC, Engine.VECTOR, Engine.STORE):
                ctx.set(dut.channels[number].completed[engine.name.lower()], COUNT + 100 * number + engine)
        for cycle in range(12):
            for number, (start, status, engine) in faults.items():
                if cycle == start:
                    ctx.set(dut.channels[number].status, status)
                    ctx.set(dut.channels[number].engine, engine)
            fault = dut.fault
            seen.append((Status(ctx.get(fault.status)), ctx.get(fault.engine), ctx.get(fault.instruction)))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(main)
    simulator.run()
    return seen


@pytest.mark.parametrize("engine", [Engine.LOAD, Engine.MAC, Engine.VECTOR, Engine.STORE])
@pytest.mark.parametrize("number", [0, 7, 8, CHANNELS - 1])
def test_gives_a_channels_fault_with_the_count_of_its_engine(number, engine):
    seen = given({number: (3, Status.BAD_ADDRESS, engine)})
    assert [status for status, *_ in seen[: 3 + LATENCY]] == [Status.IDLE] * (3 + LATENCY)
    assert set(seen[3 + LATENCY :]) == {(Status.BAD_ADDRESS, engine, COUNT + 100 * number + engine)}


@pytest.mark.parametrize("others", [[5, 6], [11], [4, 18]])
def test_gives_the_first_channel_of_those_that_fail_at_once(others):
    faults = {4: (1, Status.OVERFLOW, Engine.STORE)}
    faults |= {number: (1, Status.BAD_FIELD, Engine.LOAD) for number in others if number != 4}
    assert given(faults)[1 + LATENCY] == (Status.OVERFLOW, Engine.STORE, COUNT + 400 + Engine.STORE)
