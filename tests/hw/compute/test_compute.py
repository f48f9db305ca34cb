"""VECTOR, MAC, reads and writes on shared lanes, over units that are no arithmetic at all, against a plain model."""

import random
from collections import Counter

import pytest

from etalstm_hw import contract
from etalstm_hw.contract import COMMON_OPS, Cycle, Memory, Source, Start, Status, VectorOp
from tests.hw.compute.compute import LANES, MEMORIES, UNITS, WORDS, WRITTEN_AFTER, Bench, mac, scalar, vector


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
@pytest.mark.parametrize("op", COMMON_OPS)
def test_each_operation_has_its_result_and_its_time(op, reads, banks):
    bench = Bench(seed=op, reads=reads, banks=banks)
    rate = LANES // UNITS if op in (VectorOp.SIGMOID, VectorOp.TANH, VectorOp.PACK) else 3 - reads * banks

    async def main(ctx):
        await bench.fill(ctx)
        bench.issues.clear()
        bench.dones.clear()
        await bench.execute_vector(ctx, vector(op, a=0, b=32, d=64, outer=2, inner=8, a_inner=1, a_outer=8, b_inner=1,
                                               b_outer=1, d_outer=20, d_inner=2))  # fmt: skip
        await bench.settle(ctx)
        first = bench.issues[0]
        assert bench.issues == [first + rate * n for n in range(16)]
        assert bench.dones == [("vector", bench.issues[-1] + WRITTEN_AFTER[op])]
        await bench.check(ctx)

    bench.run(main)


def random_vector(generator, op):
    """Read rows 0 to 31 or the partial sums, write rows 32 to 63: nothing depends on anything."""
    sources = [Source.SCRATCH, Source.SCRATCH, *([] if op == VectorOp.ADD_SCALED else [Source.PARAMETER])]
    a_source, b_source = generator.choice([*sources, Source.SUMS]), generator.choice(sources)
    inner, outer, bits = generator.randrange(1, 5), generator.randrange(1, 4), generator.randrange(contract.PARAMETERS)
    fields = {"a_source": a_source, "b_source": b_source, "inner": inner, "outer": outer, "bits": bits}
    for name, source in (("a", a_source), ("b", b_source), ("d", None)):
        step = {Source.SCRATCH: 2, Source.SUMS: 1, Source.PARAMETER: 0, None: 2}[source]
        start = {Source.SCRATCH: 10, Source.SUMS: 4, Source.PARAMETER: 8, None: 10}[source]
        fields |= {name: generator.randrange(start) + (32 if source is None else 0)}
        fields |= {f"{name}_inner": generator.randrange(step + 1), f"{name}_outer": generator.randrange(2 * step + 1)}
    return vector(op, **fields)


@pytest.mark.parametrize(("reads", "banks"), MEMORIES)
@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_results_keep_their_order_whatever_else_goes_on(stall, reads, banks):
    """Rows that are written repeatedly end up with the last value; MAC, reads and writes run beside."""
    bench = Bench(seed=int(10 * stall), stall=stall, reads=reads, banks=banks)
    other = random.Random(5)
    ended = []

    async def vectors(ctx):
        await bench.fill(ctx)
        for _ in range(40):
            await bench.execute_vector(ctx, random_vector(bench.random, bench.random.choice(COMMON_OPS)))
        ended.append("vectors")
        while len(ended) < 3:
            await ctx.tick()
        await bench.settle(ctx)
        await bench.check(ctx)

    async def macs(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        await ctx.tick().repeat(5)
        for _ in range(12):  # slots 10 to 15: VECTOR reads those below
            tiles, count, narrow = other.randrange(1, 3), other.randrange(1, 6), other.randrange(2)
            messages = [
                scalar(other.randrange(WORDS), other.randrange(8), other.randrange(5), tiles) for _ in range(count)
            ]
            for message in messages:
                message["begins"], message["empty"] = other.random() < 0.2, other.random() < 0.1
                message["narrow"] = narrow
            messages[-1]["last"] = 1
            start = other.choice(list(Start))
            await bench.execute_mac(
                ctx, mac(tiles, weights=other.randrange(16), sums=10, bias=3, start=start), messages
            )
        ended.append("macs")

    async def transfers(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        await ctx.tick().repeat(9)
        while "vectors" not in ended:
            words = bench.vector()
            address = other.randrange(64, 128)
            bench.state["scratch"][address] = words
            await bench.write(ctx, Memory.SCRATCH, address, words)
            kind, name = other.choice([(Memory.SCRATCH, "scratch"), (Memory.SUMS, "sums")])
            address = other.randrange(10)
            assert await bench.read(ctx, kind, address) == bench.state[name][address]
        ended.append("transfers")

    bench.run(macs, transfers, vectors)
    assert {Cycle.MAC, Cycle.ELEMENTWISE, Cycle.NO_MAC} <= set(bench.cycles)


def test_serial_runs_see_the_results_of_those_before():
    bench = Bench(seed=3)
    chains = [
        vector(VectorOp.ADD, a=0, b=8, d=4, outer=6, inner=4, a_outer=4, a_inner=1, b_outer=4, b_inner=1, d_outer=4,
               d_inner=1, serial=1),
        vector(VectorOp.TANH, a=40, d=41, outer=3, a_outer=1, d_outer=1, serial=1),
        vector(VectorOp.SELECT, a=50, b=60, d=51, outer=5, a_outer=1, b_outer=1, d_outer=1, serial=1),
    ]  # fmt: skip

    async def main(ctx):
        await bench.fill(ctx)
        for chain in chains:
            await bench.execute_vector(ctx, chain)
            await bench.settle(ctx)
        await bench.check(ctx)

    bench.run(main)


def test_pes_swing_between_elements_and_scalars():
    """Every cycle of a long MAC belongs to it or to VECTOR, and VECTOR loses none."""
    bench = Bench(seed=2)

    async def macs(ctx):
        await bench.fill(ctx)
        messages = [scalar(7, n % 4, 2 * (n % 8), tiles=2) for n in range(60)]
        messages[-1]["last"] = 1
        bench.issues.clear()
        await bench.execute_mac(ctx, mac(2), messages)
        await bench.settle(ctx)
        await bench.check(ctx)

    async def vectors(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        await ctx.tick().repeat(20)
        bench.cycles.clear()
        multiplies = vector(VectorOp.MULTIPLY, a=0, b=0, d=64, inner=30, a_inner=1, b_inner=1, d_inner=1)
        await bench.execute_vector(ctx, multiplies)
        await bench.execute_vector(ctx, multiplies | {"op": VectorOp.ADD})
        await ctx.tick().repeat(20)
        after = len(bench.cycles) - bench.cycles[::-1].index(Cycle.ELEMENTWISE)
        assert set(bench.cycles[:after]) == {Cycle.MAC, Cycle.ELEMENTWISE}
        assert bench.cycles[after : after + 10] == [Cycle.MAC] * 10
        assert bench.issues == list(range(bench.issues[0], bench.issues[0] + 60))

    bench.run(vectors, macs)


@pytest.mark.parametrize("backward", [0, 1], ids=["forward", "backward"])
def test_fixed_shares_keep_elements_and_scalars_apart(backward):
    """Both go on at the speed of their share; every other cycle is counted as lost to it; no bit changes."""
    bench, macs, elements = Bench(seed=2), 240, 40
    shares = {"elementwise": 8, "forward": 12, "backward": 16}

    async def scalars(ctx):
        await bench.fill(ctx)
        ctx.set(bench.dut.slots, shares)
        bench.cycles.clear()
        messages = [scalar(7, n % 4, n % 16, empty=n % 3 == 0) for n in range(macs)]
        messages[-1]["last"] = 1
        await bench.execute_mac(ctx, mac(1, backward=backward), messages)
        await bench.settle(ctx)
        await bench.check(ctx)

    async def vectors(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        await ctx.tick().repeat(20)
        await bench.execute_vector(ctx, vector(VectorOp.ADD, a=0, b=0, d=64, inner=elements, a_inner=1, b_inner=1,
                                               d_inner=1))  # fmt: skip

    bench.run(scalars, vectors)
    counts = Counter(bench.cycles)
    assert counts[Cycle.MAC] == macs and counts[Cycle.ELEMENTWISE] == elements
    places = {kind: [n for n, cycle in enumerate(bench.cycles) if cycle == kind] for kind in Cycle}
    mac_share = shares["backward" if backward else "forward"]
    for kind, count, share in ((Cycle.MAC, macs, mac_share), (Cycle.ELEMENTWISE, elements, 8)):
        span = places[kind][-1] - places[kind][0]
        assert abs(span - count * 32 / share) <= 32, f"{count} of {kind.name} in {span} cycles with {share} of 32"
    busy = bench.cycles[places[Cycle.ELEMENTWISE][0] : places[Cycle.ELEMENTWISE][-1]]
    assert set(busy) == {Cycle.MAC, Cycle.ELEMENTWISE, Cycle.SHARE}, set(busy)


def test_activations_need_no_share():
    bench = Bench(seed=4)

    async def main(ctx):
        await bench.fill(ctx)
        ctx.set(bench.dut.slots, {"elementwise": 1, "forward": 31, "backward": 31})
        bench.issues.clear()
        await bench.execute_vector(ctx, vector(VectorOp.TANH, a=0, d=80, inner=8, a_inner=1, d_inner=1))
        await bench.settle(ctx)
        assert bench.issues[-1] - bench.issues[0] < 24, bench.issues
        await bench.check(ctx)

    bench.run(main)


def test_activations_leave_the_pes_to_the_scalars():
    """σ of scratch words takes no slot; of partial sums it takes their port, one cycle for each vector."""
    for source, expected in ((Source.SCRATCH, 0), (Source.SUMS, 8)):
        bench = Bench(seed=2)

        async def macs(ctx, bench=bench, expected=expected):
            await bench.fill(ctx)
            bench.cycles.clear()
            messages = [scalar(7, n % 4, 8 + n % 8) for n in range(60)]
            messages[-1]["last"] = 1
            await bench.execute_mac(ctx, mac(1), messages)
            await bench.settle(ctx)
            assert bench.cycles.count(Cycle.SUMS_PORT) == expected
            assert bench.cycles.count(Cycle.MAC) == 60
            await bench.check(ctx)

        async def vectors(ctx, bench=bench, source=source):
            await ctx.tick().until(bench.dut.mac_done)
            await ctx.tick().repeat(20)
            await bench.execute_vector(
                ctx, vector(VectorOp.SIGMOID, a_source=source, d=64, inner=8, a_inner=1, d_inner=1)
            )

        bench.run(vectors, macs)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"op": max(VectorOp) + 1}, Status.BAD_FIELD),
        ({"op": VectorOp.PACK, "b_source": Source.SUMS}, Status.BAD_FIELD),
        ({"op": VectorOp.PACK, "b": 128}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "inner": 0}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD, "a_source": 3}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD, "b_source": Source.SUMS}, Status.BAD_FIELD),
        ({"op": VectorOp.TANH, "b_source": Source.SUMS}, Status.IDLE),
        ({"op": VectorOp.ADD_SCALED, "a_source": Source.PARAMETER}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD_SCALED, "b_source": Source.PARAMETER}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD_SCALED, "bits": 3}, Status.IDLE),
        ({"op": VectorOp.ADD_SQUARE, "a_source": Source.PARAMETER, "b_source": Source.PARAMETER}, Status.IDLE),
        ({"op": VectorOp.ADD, "a": 128}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "b": 127, "b_inner": 1, "inner": 2}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "d": 128}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "a": 16, "a_source": Source.SUMS}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "a": contract.PARAMETERS, "a_source": Source.PARAMETER}, Status.BAD_ADDRESS),
        ({"op": VectorOp.TANH, "b": 128}, Status.IDLE),
    ],
)
def test_an_element_that_does_not_exist_is_refused(fields, expected):
    bench = Bench()

    async def main(ctx):
        payload = vector(0) | fields
        for name, value in payload.items():
            ctx.set(bench.dut.vector.p[name], int(value))
        ctx.set(bench.dut.vector.valid, 1)
        await ctx.tick().repeat(2)
        ctx.set(bench.dut.vector.valid, 0)
        await ctx.tick().repeat(6)
        assert Status(ctx.get(bench.dut.vector_status)) == expected

    bench.run(main)


@pytest.mark.parametrize(
    ("port", "memory", "address", "expected"),
    [
        ("load", Memory.WEIGHTS, 32, Status.BAD_ADDRESS),
        ("load", Memory.BIAS, 8, Status.BAD_ADDRESS),
        ("load", Memory.SCRATCH, 128, Status.BAD_ADDRESS),
        ("load", Memory.SUMS, 0, Status.BAD_FIELD),
        ("read", Memory.SCRATCH, 128, Status.BAD_ADDRESS),
        ("read", Memory.SUMS, 16, Status.BAD_ADDRESS),
        ("read", Memory.WEIGHTS, 0, Status.BAD_FIELD),
        ("read", Memory.SUMS, 15, Status.IDLE),
    ],
)
def test_a_transfer_to_nowhere_is_refused(port, memory, address, expected):
    bench = Bench()

    async def main(ctx):
        if port == "load":
            await bench.write(ctx, memory, address, [1] * LANES)
        else:
            await bench.read(ctx, memory, address)
        await ctx.tick()
        assert Status(ctx.get(getattr(bench.dut, f"{port}_status"))) == expected

    bench.run(main)
