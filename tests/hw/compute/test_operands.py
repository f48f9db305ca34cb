"""How fast operands are read, and that elements see what is written before them, over units that are no arithmetic."""

import random
from itertools import product

import pytest

from etalstm_hw import contract
from etalstm_hw.contract import COMMON_OPS, Memory, Source, VectorOp
from tests.hw.compute.compute import DEPTHS, MEMORIES, Bench, vector

BANKS = (1, 2)  # one copy in two banks
ODD = [(1, 1), (7, 3)]


def distances(reads, banks, instructions):
    """Cycles between the issues of elements, where nothing else goes on; results are checked."""
    bench = Bench(seed=3, reads=reads, banks=banks)

    async def main(ctx):
        await bench.fill(ctx)
        bench.issues.clear()
        for instruction in instructions:
            await bench.execute_vector(ctx, instruction)
        await bench.settle(ctx)
        await bench.check(ctx)

    bench.run(main)
    return [later - sooner for sooner, later in zip(bench.issues, bench.issues[1:], strict=False)]


@pytest.mark.parametrize("strides", ODD)
@pytest.mark.parametrize("b", [32, 33])
def test_two_banks_give_an_element_a_cycle_where_strides_are_odd(strides, b):
    """Wherever they begin, and across instructions: the second one's b is read with the last a of the first one."""
    first = vector(VectorOp.ADD, a=0, b=b, d=80, inner=8, a_inner=strides[0], b_inner=strides[1], d_inner=1)
    second = first | {"op": VectorOp.SUBTRACT, "d": 100}
    assert distances(*BANKS, [first, second]) == [1] * 15


def test_with_even_strides_two_operands_of_one_bank_take_two_cycles():
    """But for the first one's b of the other bank, which is read with the a before it."""
    even = vector(VectorOp.MULTIPLY, d=80, inner=9, a_inner=2, b_inner=4, d_inner=1)
    assert distances(*BANKS, [even | {"a": a, "b": 33 - a} for a in (0, 1)]) == [1] * 17
    assert distances(*BANKS, [even | {"a": a, "b": 32 + a} for a in (0, 1)]) == [2] * 8 + [1] + [2] * 8


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
def test_an_operand_that_stays_is_read_once_in_a_turn(reads, banks):
    """With one read port, what a turn begins with waits for it."""
    stays = vector(VectorOp.ADD, a=0, b=64, d=80, outer=3, inner=5, a_inner=1, a_outer=5, b_outer=1, d_inner=1,
                   d_outer=5)  # fmt: skip
    begins = 2 if (reads, banks) == (1, 1) else 1
    assert distances(reads, banks, [stays]) == ([1] * 4 + [begins]) * 2 + [1] * 4


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
def test_sums_and_parameters_leave_the_scratch_memory_to_the_other_operand(reads, banks):
    sums = vector(VectorOp.ADD, a_source=Source.SUMS, a=0, b=64, d=80, inner=9, a_inner=1, b_inner=1, d_inner=1)
    parameters = vector(VectorOp.ADD, a_source=Source.PARAMETER, a=3, b=64, d=100, inner=9, b_inner=1, d_inner=1)
    assert distances(reads, banks, [sums, parameters]) == [1] * 17


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
def test_serial_turns_see_the_sums_of_the_turns_before(reads, banks):
    """The sums are operand a, or b, which is not read ahead of them."""
    bench = Bench(seed=3, reads=reads, banks=banks)

    async def main(ctx):
        await bench.fill(ctx)
        for inner, summed, first, stride in product((1, 2, 5), "ab", (40, 41), (0, 1)):
            each = "b" if summed == "a" else "a"
            strides = {f"{name}_inner": stride for name in "abd"}
            operands = {summed: 1, each: first, f"{each}_outer": 3, "d": 1}
            loops = {"outer": 3, "inner": inner if stride else 1}
            await bench.execute_vector(ctx, vector(VectorOp.ADD, serial=1, **operands, **strides, **loops))
            await ctx.tick().until(bench.dut.vector_done)
        await bench.check(ctx)

    bench.run(main)


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
def test_the_next_instruction_sees_what_it_has_waited_for(reads, banks):
    """It comes in the cycle after the last write: its first b is the word that was written last."""
    bench = Bench(seed=3, reads=reads, banks=banks)

    async def main(ctx):
        await bench.fill(ctx)
        for n in range(6):
            d = 64 + 5 * n
            written = vector(VectorOp.ADD, a=n, b=40, d=d, inner=3, a_inner=1, b_inner=1, d_inner=1)
            await bench.execute_vector(ctx, written)
            await ctx.tick().until(bench.dut.vector_done)
            await bench.execute_vector(ctx, written | {"a": d + n % 2, "b": d + 2, "d": d + 20, "inner": 2})
            await ctx.tick().until(bench.dut.vector_done)
        await bench.check(ctx)

    bench.run(main)


def overlapping(generator, op):
    """Give an instruction whose results go to where its own operands lie, at the same element or an earlier one."""
    inner, outer, place = generator.randrange(1, 7), generator.randrange(1, 4), generator.choice("ab")
    strides = {"outer": generator.randrange(12, 15), "inner": generator.randrange(1, 3)}
    fields = {"inner": inner, "outer": outer, "bits": generator.randrange(contract.PARAMETERS)}
    for name in "abd":
        fields |= {f"{name}_{loop}": stride for loop, stride in strides.items()}
    first = generator.randrange(16, 24)
    fields |= {name: 64 + generator.randrange(8) for name in "ab"} | {place: first}
    if place == "a" and generator.random() < 0.3:
        fields |= {"b_inner": 0, "b_outer": generator.randrange(2)}
    # A step behind the operand: a word that an earlier element has read, or at first none.
    return vector(op, **fields, d=first - generator.choice([0, strides["inner"], strides["outer"]]))


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
@pytest.mark.parametrize("stall", [0.0, 0.9])
def test_results_may_go_to_where_operands_were_read(reads, banks, stall):
    """One after the other, each waiting for the one before; beside it, the whole memory is read from outside."""
    bench, other = Bench(seed=8, stall=stall, reads=reads, banks=banks), random.Random(4)
    ended = []

    async def main(ctx):
        await bench.fill(ctx)
        for n in range(60):
            op = COMMON_OPS[n % len(COMMON_OPS)]
            await bench.execute_vector(ctx, overlapping(bench.random, op))
            await ctx.tick().until(bench.dut.vector_done)
        ended.append("vectors")

    async def reads_from_outside(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        while not ended:
            address = other.randrange(100, DEPTHS["scratch_depth"])
            found = await bench.read(ctx, Memory.SCRATCH, address)
            assert found == bench.state["scratch"][address], f"address {address}: {found}"
        await bench.settle(ctx)
        await bench.check(ctx)

    bench.run(main, reads_from_outside)


@pytest.mark.parametrize("bank", [0, 1])
def test_reads_from_outside_need_their_own_bank_only(bank):
    """σ of words of one bank, two cycles each, leaves all cycles to reads of the other bank."""
    bench = Bench(reads=1, banks=2)
    cycles = []

    async def vectors(ctx):
        await bench.fill(ctx)
        await bench.execute_vector(ctx, vector(VectorOp.MULTIPLY, a=0, b=0, b_source=Source.PARAMETER, d=64, inner=20,
                                               a_inner=2, d_inner=1))  # fmt: skip
        await bench.settle(ctx)

    async def reader(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        await ctx.tick().until(bench.dut.vector_engine.issue)
        before = len(bench.cycles)
        for n in range(8):
            await bench.read(ctx, Memory.SCRATCH, 2 * n + bank)
        cycles.append(len(bench.cycles) - before)

    bench.run(vectors, reader)
    assert cycles == [8 if bank else 8 + 19]
