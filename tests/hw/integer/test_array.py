"""Sums of the integer lanes against sums of Python's integers."""

import numpy as np
import pytest
from amaranth.hdl import unsigned
from amaranth.sim import Simulator

from etalstm_hw.integer.array import IntegerArray
from etalstm_hw.integer.widths import CHUNK, DIGIT_SHIFT


def run(array, pes, lanes, sums, gaps):
    """Send the terms of some sums, with gaps; give what comes out: (tag, pe, high, the sum of each lane)."""
    out = []

    async def send(ctx):
        for tag, terms in enumerate(sums):
            for value, weights, flags in terms:
                while gaps and gaps.random() < 0.3:
                    await ctx.tick()
                p = array.terms.p
                ctx.set(p, {"value": int(value), "tag": tag, "alone": 1} | flags)
                ctx.set(array.terms.valid, 1)
                await ctx.tick().until(array.terms.ready)
                ctx.set(array.terms.valid, 0)
                for lane in range(lanes):
                    for n in range(2 * pes):
                        ctx.set(array.weights[lane][n], int(weights[lane, n]))
        while ctx.get(array.busy):
            await ctx.tick()

    async def receive(ctx):
        while True:
            *_, complete, found = await ctx.tick().sample(array.complete, array.sums)
            if complete.valid:
                out.append((complete.tag, complete.pe, complete.high, [found[n] for n in range(lanes)]))

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(receive, background=True)
    simulator.run()
    return out


def of_sum(rng, pes, lanes, upper, lower, extreme):
    """Give a sum of so many digits of either kind: its terms, and what they add up to, (lanes, 2 · pes)."""
    terms, total = [], np.zeros((lanes, 2 * pes), dtype=np.int64)
    for is_lower, count in ((0, upper), (1, lower)):
        for n in range(max(count, is_lower)):
            value = (rng.choice([-127, 127]) if extreme else rng.integers(-127, 128)) if count else 0
            shape = lanes, 2 * pes
            weights = rng.choice([-127, 127], shape) if extreme else rng.integers(-127, 128, shape)
            ends = n + 1 >= count
            terms.append((value, weights, {"lower": is_lower, "ends": ends, "last": ends and is_lower}))
            total += value * weights * (1 if is_lower else 1 << DIGIT_SHIFT)
    return terms, total


SUMS = [
    (0, 1),
    (0, 3),
    (0, CHUNK),
    (0, CHUNK + 1),
    (0, 50),
    (1, 1),
    (4, 3),
    (2 * CHUNK, CHUNK),
    (1, 0),
    (0, 0),
    (9, 80),
]


@pytest.mark.parametrize("pes", [4, 8])
def test_adds_to_old_sums_that_were_complete_just_before(pes):
    array = IntegerArray(1, pes, unsigned(4))
    kept, asked, rng = np.zeros((16, 2, pes), dtype=int), [], np.random.default_rng(2)
    expected = np.zeros_like(kept)
    terms = [(int(rng.integers(-127, 128)), int(rng.integers(2))) for _ in range(8)]  # value and tag

    async def send(ctx):
        for n in range(2 * pes):
            ctx.set(array.weights[0][n], n + 1)
        for number, (value, tag) in enumerate(terms):
            alone = tag not in [before for _, before in terms[:number]]
            expected[tag] += value * (np.arange(2 * pes) + 1).reshape(2, pes)
            flags = {"lower": 1, "ends": 1, "last": 1, "alone": alone, "tag": tag}
            ctx.set(array.terms.p, {"value": value} | flags)
            ctx.set(array.terms.valid, 1)
            await ctx.tick().until(array.terms.ready)
        ctx.set(array.terms.valid, 0)
        await ctx.tick().until(~array.busy)

    async def keep(ctx):
        while True:
            *_, old, complete, sums = await ctx.tick().sample(array.old, array.complete, array.sums)
            if old.valid:
                asked.append((old.tag, old.pe, old.high))
                ctx.set(array.old_sums[0], int(kept[old.tag, old.high, old.pe]))
            if complete.valid:
                kept[complete.tag, complete.high, complete.pe] = sums[0]

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(keep, background=True)
    simulator.run()
    np.testing.assert_array_equal(kept, expected)
    assert len(asked) == 2 * pes * (len(terms) - len({tag for _, tag in terms}))


@pytest.mark.parametrize("pes", [4, 8])
@pytest.mark.parametrize("stalls", [False, True])
def test_adds_up_every_term(pes, stalls):
    rng, lanes = np.random.default_rng(pes), 2
    cases = [of_sum(rng, pes, lanes, *counts, extreme=n % 3 == 0) for n, counts in enumerate(SUMS)]
    gaps = np.random.default_rng(1) if stalls else None
    out = run(IntegerArray(lanes, pes, unsigned(4)), pes, lanes, [terms for terms, _ in cases], gaps)
    order = [(tag, pe, high) for tag in range(len(cases)) for pe in range(pes) for high in range(2)]
    assert [which for *which, _ in map(list, out)] == list(map(list, order))
    for number, (counts, (_, total)) in enumerate(zip(SUMS, cases, strict=True)):
        mine = np.array([sums for *_, sums in out[2 * pes * number : 2 * pes * (number + 1)]])
        found = np.concatenate([mine[::2], mine[1::2]]).T
        np.testing.assert_array_equal(found, total, err_msg=f"sum {number}, of {counts} digits")
