"""The slot scheduler: each kind of work gets its share of the cycles, evenly, and nobody else's."""

import pytest
from amaranth.sim import Simulator

from etalstm_hw.compute.slots import SlotScheduler
from etalstm_hw.contract import SHARES, SLOTS

ROUNDS = 3


def slots_of(shares):
    """Give for each kind the cycles, of some rounds, that it may use; the first after the reset is left out."""
    dut, free = SlotScheduler(), {name: [] for name in SHARES}

    async def bench(ctx):
        ctx.set(dut.slots, shares)
        await ctx.tick()
        for cycle in range(ROUNDS * SLOTS):
            for name, cycles in free.items():
                if ctx.get(getattr(dut, name)):
                    cycles.append(cycle)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return free


def test_without_shares_every_cycle_is_everybodys():
    for name, cycles in slots_of(dict.fromkeys(SHARES, 0)).items():
        assert cycles == list(range(ROUNDS * SLOTS)), name


@pytest.mark.parametrize("shares", [(4, 14, 28), (1, 31, 31), (31, 1, 1), (8, 8, 16), (3, 29, 29), (5, 7, 0)], ids=str)
def test_each_kind_has_its_share_evenly(shares):
    free = slots_of(dict(zip(SHARES, shares, strict=True)))
    for name, share in zip(SHARES, shares, strict=True):
        cycles = free[name]
        assert len(cycles) == ROUNDS * share, f"{name}: {len(cycles)} slots in {ROUNDS} rounds, expected {share} each"
        for start in range(0, (ROUNDS - 1) * SLOTS, SLOTS // 4):
            some = sum(start <= cycle < start + SLOTS // 2 for cycle in cycles)
            assert abs(some - share / 2) <= 1.5, f"{name}: {some} slots of half a round from cycle {start}"
    for name in SHARES[1:]:
        both = set(free[SHARES[0]]) & set(free[name])
        assert not both, f"cycles {sorted(both)} are for element-wise work and for {name}"
