"""The small parts of a card, in Amaranth's simulator."""

from dataclasses import replace
from itertools import groupby

import pytest
from amaranth.hdl import Cat
from amaranth.sim import Simulator

from etalstm_boards.clocking import clocking
from etalstm_boards.interrupt import Interrupt
from etalstm_boards.ports import port_map, region_of_channel
from etalstm_boards.reset import DRAIN_CYCLES, HOLD_CYCLES, STOP_CYCLES, Gate, ResetSequencer
from etalstm_hw.config import preset


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_rise_before_the_acknowledgement_is_asked_for_again():
    dut = Interrupt()
    requests = []

    async def bench(context):
        async def level(value, cycles):
            context.set(dut.level, value)
            for _ in range(cycles):
                requests.append(context.get(dut.request))
                await context.tick()

        await level(0, 3)
        await level(1, 3)
        await level(0, 2)
        await level(1, 2)  # a second program has ended already
        context.set(dut.acknowledge, 1)
        await level(1, 1)
        context.set(dut.acknowledge, 0)
        await level(1, 6)
        context.set(dut.acknowledge, 1)
        await level(1, 1)
        context.set(dut.acknowledge, 0)
        await level(0, 4)

    simulate(dut, bench)
    rises = [now and not before for before, now in zip([0, *requests], requests, strict=False)]
    assert sum(rises) == 2, requests
    assert requests[-1] == 0


def test_the_machine_is_held_until_everything_is_ready():
    dut = ResetSequencer()

    async def bench(context):
        async def cycles(count):
            for _ in range(count):
                await context.tick()

        await cycles(2 * HOLD_CYCLES)
        assert context.get(dut.hold)
        context.set(dut.locked, 1)
        await cycles(2 * HOLD_CYCLES)
        assert context.get(dut.hold)
        context.set(dut.calibrated, 1)
        await cycles(HOLD_CYCLES - 2)
        assert context.get(dut.hold) and context.get(dut.stop)
        await cycles(6)
        assert not context.get(dut.hold) and not context.get(dut.stop)
        context.set(dut.locked, 0)
        await cycles(2)
        assert context.get(dut.stop) and not context.get(dut.hold)
        await cycles(STOP_CYCLES + 2)
        assert context.get(dut.hold)

    simulate(dut, bench)


async def stop_and_hold(context, dut, cycles):
    """Give the cycles, from now on, in which `stop` and `hold` first have another value."""
    before, changed = {name: context.get(getattr(dut, name)) for name in ("stop", "hold")}, {}
    for cycle in range(cycles):
        await context.tick()
        for name, value in before.items():
            if context.get(getattr(dut, name)) != value:
                changed.setdefault(name, cycle)
    return changed


@pytest.mark.parametrize("cause", ["locked", "calibrated", "trip", "request"])
def test_the_ports_are_stopped_well_before_the_machine_is_reset(cause):
    dut = ResetSequencer()

    async def bench(context):
        context.set(Cat(dut.locked, dut.calibrated, dut.quiet), 0b111)
        while context.get(dut.hold):
            await context.tick()
        context.set(getattr(dut, cause), 1 - context.get(getattr(dut, cause)))
        changed = await stop_and_hold(context, dut, 2 * STOP_CYCLES)
        assert changed["stop"] == 0 and changed["hold"] - changed["stop"] >= STOP_CYCLES, changed

    simulate(dut, bench)


@pytest.mark.parametrize("down_cycles", [1, 5, 500])
def test_the_gate_stops_first_then_resets_however_short_the_loss(down_cycles):
    dut = Gate()

    async def bench(context):
        assert context.get(dut.stop) and context.get(dut.hold)
        context.set(dut.up, 1)
        while context.get(dut.stop):
            assert context.get(dut.hold)
            await context.tick()
        assert not context.get(dut.hold)
        trace = []
        for cycle in range(down_cycles + STOP_CYCLES + 2 * HOLD_CYCLES):
            context.set(dut.up, cycle >= down_cycles)
            await context.tick()
            trace.append((context.get(dut.stop), context.get(dut.hold)))
        runs = [(state, len(list(cycles))) for state, cycles in groupby(trace)]
        assert [state for state, _ in runs] == [(1, 0), (1, 1), (0, 0)], runs
        assert runs[0][1] >= STOP_CYCLES and runs[1][1] >= HOLD_CYCLES, runs
        assert runs[0][1] + runs[1][1] >= down_cycles, runs

    simulate(dut, bench)


@pytest.mark.parametrize("answers", [True, False])
def test_a_request_waits_for_quiet_ports_but_not_for_ever(answers):
    dut = ResetSequencer()

    async def bench(context):
        context.set(dut.locked, 1)
        context.set(dut.calibrated, 1)
        while context.get(dut.hold):
            await context.tick()
        context.set(dut.request, 1)
        await context.tick()
        context.set(dut.request, 0)
        for _ in range(50):
            await context.tick()
            assert context.get(dut.stop) and not context.get(dut.hold)
        context.set(dut.quiet, answers)
        waited = 0
        while not context.get(dut.hold):
            await context.tick()
            waited += 1
        assert waited <= 2 if answers else waited == pytest.approx(DRAIN_CYCLES - 50, abs=3)

    simulate(dut, bench)


def clocked(mhz, name="vcu128"):
    return clocking(replace(preset(name), clock_mhz=mhz))


@pytest.mark.parametrize(("name", "hbm"), [("vcu128", 250), ("vcu128-int8", 450)])
@pytest.mark.parametrize("mhz", [100, 150, 175, 200, 225, 250, 300])
def test_the_clocks_are_as_wanted_and_within_their_limits(mhz, name, hbm):
    found = clocked(mhz, name)
    assert (found.accelerator.mhz, found.hbm.mhz) == (mhz, hbm)
    for ratio in (found.accelerator, found.hbm):
        assert 800 <= 100 * ratio.multiplier <= 1600
        assert (ratio.multiplier * 8).denominator == (ratio.divider * 8).denominator == 1


def test_an_odd_clock_is_met_from_below():
    assert 330 < clocked(333.3).accelerator.mhz <= 333.3


@pytest.mark.parametrize("mhz", [1, 900])
def test_a_clock_out_of_reach_is_refused(mhz):
    with pytest.raises(ValueError, match=f"clock_mhz must be .* got {mhz}"):
        clocked(mhz)


def test_channels_of_a_port_lie_together_and_the_first_region_has_the_fewest():
    config = preset("vcu128")
    regions = [region_of_channel(config, channel) for channel in range(config.channels)]
    assert regions == sorted(regions) and regions[::2] == regions[1::2]
    assert [regions.count(region) for region in range(3)] == [12, 14, 14]


@pytest.mark.parametrize("name", ["vcu128", "u280"])
def test_no_two_users_share_a_port_while_there_are_enough(name):
    ports = port_map(preset(name))
    assert len(ports.used) == 27 and not ports.shared
    assert ports.channels == tuple(range(20))  # each with its own windows behind it
    assert ports.sequencer == 20  # behind which the programs begin
    assert (ports.broadcasters, ports.host) == (tuple(range(21, 26)), 31)


def test_what_lacks_a_port_shares_one_with_a_channel():
    ports = port_map(preset("vcu128-int8"))
    assert ports.channels == ports.used == tuple(range(32))
    assert (ports.sequencer, ports.broadcasters, ports.host) == (4, (9, 15, 20, 25), 31)
    assert ports.shared == (4, 9, 15, 20, 25, 31)


def test_no_more_share_than_must():
    ports = port_map(replace(preset("vcu128-int8"), channels=30))
    assert (ports.sequencer, ports.broadcasters, ports.host) == (6, (14, 21, 29, 30), 31)
    assert ports.shared == (6, 14, 21, 29)


def test_users_that_not_even_sharing_serves_are_refused():
    many = replace(preset("vcu128-int8"), integer_ports=4, broadcasters=8)
    with pytest.raises(ValueError, match=r"32 channels, .* need 32 memory ports, 8 broadcasters, .* 34; .* 32"):
        port_map(many)
