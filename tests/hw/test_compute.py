"""VECTOR, MAC, reads and writes on shared lanes, over units that are no arithmetic at all, against a plain model."""

import random
from collections import Counter

import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from etalstm.hw import contract
from etalstm.hw.compute import Compute
from etalstm.hw.contract import Cycle, FloatFormat, Memory, Source, Start, Status, VectorOp

FORMAT = FloatFormat(8, 7)
LANES, BEAT_WORDS, UNITS = 4, 2, 2
DEPTHS = {"weight_depth": 32, "bias_depth": 8, "scratch_depth": 128, "queue_depth": 16}
WORDS, SIGN = 1 << FORMAT.width, 1 << (FORMAT.width - 1)
MULTIPLY, ADD, ACTIVATION = 2, 4, 5  # latencies
PARAMETERS = [FORMAT.one, 0, 0x1234, 0x8001, 5, 6, 7, 0xFFFF, *range(8, contract.PARAMETERS)]
WRITTEN_AFTER = {  # cycles from issue to last write
    VectorOp.MULTIPLY: MULTIPLY + 2,
    VectorOp.ADD: MULTIPLY + ADD + 2,
    VectorOp.SUBTRACT: MULTIPLY + ADD + 2,
    VectorOp.SIGMOID: ACTIVATION + 1 + LANES // UNITS,
    VectorOp.TANH: ACTIVATION + 1 + LANES // UNITS,
    VectorOp.SELECT: MULTIPLY + ADD + 2,
    VectorOp.SELECT_ZERO: MULTIPLY + ADD + 2,
}


class Unit(wiring.Component):
    """``z = x·a + y·b`` of some cycles ago, modulo the word."""

    def __init__(self, x, y, latency, second="b"):
        self.x, self.y, self.LATENCY, self.second = x, y, latency, second
        super().__init__(
            {"a": In(FORMAT.width), second: In(FORMAT.width if second == "b" else 1), "z": Out(FORMAT.width)}
        )

    def elaborate(self, platform):
        m = Module()
        z = self.x * self.a + self.y * getattr(self, self.second)
        for n in range(self.LATENCY):
            late = Signal(FORMAT.width, name=f"late_{n}")
            m.d.sync += late.eq(z)
            z = late
        m.d.comb += self.z.eq(z)
        return m


def multiply(a, b):
    return (3 * a + 5 * b) % WORDS


def add(a, b):
    return (7 * a + 11 * b) % WORDS


def activate(a, tanh):
    return (13 * a + 17 * tanh) % WORDS


def is_zero(a):
    return a >> FORMAT.mantissa & (1 << FORMAT.exponent) - 1 == 0


def compute(scratch_reads):
    return Compute(
        FORMAT,
        LANES,
        BEAT_WORDS,
        multiplier=lambda _: Unit(3, 5, MULTIPLY),
        adder=lambda _: Unit(7, 11, ADD),
        activation=lambda _: Unit(13, 17, ACTIVATION, "function"),
        activation_units=UNITS,
        depths=DEPTHS,
        scratch_reads=scratch_reads,
    )


def element(op, a, b, d):
    """One lane of VECTOR."""
    selected = add(multiply(0, FORMAT.minus_zero), b)
    return {
        VectorOp.MULTIPLY: lambda: multiply(a, b),
        VectorOp.ADD: lambda: add(multiply(a, FORMAT.one), b),
        VectorOp.SUBTRACT: lambda: add(multiply(a, FORMAT.one), b ^ SIGN),
        VectorOp.SIGMOID: lambda: activate(a, 0),
        VectorOp.TANH: lambda: activate(a, 1),
        VectorOp.SELECT: lambda: d if is_zero(a) else selected,
        VectorOp.SELECT_ZERO: lambda: selected if is_zero(a) else d,
    }[op]()


def vector_model(state, i):
    """Execute a VECTOR instruction on ``state``, the vectors of each memory."""
    for outer in range(i["outer"]):
        for inner in range(i["inner"]):
            at = {n: i[n] + outer * i[f"{n}_outer"] + inner * i[f"{n}_inner"] for n in "abd"}

            def operand(name, at=at):
                where = {Source.SCRATCH: "scratch", Source.QUEUE: "queue"}.get(i[f"{name}_source"])
                return state[where][at[name]] if where else [PARAMETERS[at[name]]] * LANES

            lanes = zip(operand("a"), operand("b"), state["scratch"][at["d"]], strict=True)
            state["scratch"][at["d"]] = [element(i["op"], *words) for words in lanes]


def mac_model(state, i, scalars):
    """Execute a MAC instruction."""
    for s in scalars:
        for tile in range(0 if s["null"] else i["tiles"]):
            slot, weights = i["queue"] + s["inner"] + tile, state["weights"][i["weights"] + s["outer"] + tile]
            old = state["queue"][slot]
            if s["first"]:
                old = (
                    state["bias"][i["bias"] + tile] if i["start"] == Start.BIAS else [0 if s["empty"] else SIGN] * LANES
                )
            products = [multiply(0, FORMAT.minus_zero) if s["empty"] else multiply(w, s["value"]) for w in weights]
            state["queue"][slot] = [add(p, o) for p, o in zip(products, old, strict=True)]


def vector(op, **fields):
    names = ("a_source", "b_source", "a", "b", "d", "outer", "inner", "serial")
    strides = [f"{n}_{loop}" for n in "abd" for loop in ("outer", "inner")]
    return dict.fromkeys([*names, *strides], 0) | {"op": op, "outer": 1, "inner": 1} | fields


def mac(tiles, **fields):
    return {"weights": 0, "queue": 0, "bias": 0, "start": Start.NOTHING, "tiles": tiles, "backward": 0} | fields


def scalar(value=1, outer=0, inner=0, **flags):
    names = ("first", "empty", "null", "last")
    return {"value": value, "outer": outer, "inner": inner} | {name: flags.get(name, 0) for name in names}


class Bench:
    """Plays everything around :class:`Compute`."""

    def __init__(self, seed=1, stall=0.0, scratch_reads=2):
        self.dut, self.random, self.stall = compute(scratch_reads), random.Random(seed), stall
        self.cycles, self.issues, self.dones, self.statuses = [], [], [], {}
        depths = {"weights": "weight", "scratch": "scratch", "bias": "bias"}
        self.state = {n: [self.vector() for _ in range(DEPTHS[f"{d}_depth"])] for n, d in depths.items()}
        self.state["queue"] = [[0] * LANES for _ in range(DEPTHS["queue_depth"])]

    def vector(self):
        return [self.random.randrange(WORDS) if self.random.random() < 0.8 else 0 for _ in range(LANES)]

    async def send(self, ctx, port, payload):
        while self.random.random() < self.stall:
            await ctx.tick()
        for name, value in payload.items():
            ctx.set(port.p[name], value)
        ctx.set(port.valid, 1)
        ready = 0
        while not ready:
            _, _, ready = await ctx.tick().sample(port.ready)
        ctx.set(port.valid, 0)

    async def write(self, ctx, kind, address, words, enable=(1 << LANES // BEAT_WORDS) - 1):
        payload = {"memory": kind, "address": address, "enable": enable, "data": words}
        await self.send(ctx, self.dut.load, payload)

    async def read(self, ctx, kind, address):
        await self.send(ctx, self.dut.read, {"memory": kind, "address": address})
        return list(ctx.get(self.dut.read_data))

    async def fill(self, ctx):
        stall, self.stall = self.stall, 0
        for kind, name in ((Memory.WEIGHTS, "weights"), (Memory.SCRATCH, "scratch"), (Memory.BIAS, "bias")):
            for address, words in enumerate(self.state[name]):
                await self.write(ctx, kind, address, words)
        ctx.set(self.dut.parameters, PARAMETERS)
        messages = [scalar(inner=slot, first=1, empty=1) for slot in range(DEPTHS["queue_depth"])]
        messages[-1]["last"] = 1
        await self.execute_mac(ctx, mac(1), messages)
        await self.settle(ctx)
        self.stall = stall

    async def execute_mac(self, ctx, instruction, messages):
        """Send an instruction with its scalars, and give when all of them are taken."""
        mac_model(self.state, instruction, messages)
        for name, value in instruction.items():
            ctx.set(self.dut.mac.p[name], int(value))
        ctx.set(self.dut.mac.valid, 1)
        for message in messages:
            await self.send(ctx, self.dut.scalars, message)
        ctx.set(self.dut.mac.valid, 0)

    async def execute_vector(self, ctx, instruction):
        vector_model(self.state, instruction)
        await self.send(ctx, self.dut.vector, {name: int(value) for name, value in instruction.items()})

    def run(self, *benches):
        async def watch(ctx):
            dut, cycle = self.dut, 0
            while True:
                _, _, kind, issue, mac_done, vector_done = await ctx.tick().sample(
                    dut.cycle, dut.vector_engine.issue, dut.mac_done, dut.vector_done
                )
                cycle += 1
                self.cycles.append(Cycle(kind))
                self.issues += [cycle] if issue else []
                self.dones += [("mac", cycle)] if mac_done else []
                self.dones += [("vector", cycle)] if vector_done else []

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(watch, background=True)
        for bench in benches:
            simulator.add_testbench(bench)
        simulator.run()

    async def settle(self, ctx):
        await ctx.tick().repeat(3)
        while ctx.get(self.dut.mac_busy) or ctx.get(self.dut.vector_busy):
            await ctx.tick()

    async def check(self, ctx):
        for kind, name in ((Memory.SCRATCH, "scratch"), (Memory.QUEUE, "queue")):
            for address, expected in enumerate(self.state[name]):
                actual = await self.read(ctx, kind, address)
                assert actual == expected, f"{name}[{address}]: {actual}, expected {expected}"


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("op", list(VectorOp))
def test_each_operation_has_its_result_and_its_time(op, reads):
    bench = Bench(seed=op, scratch_reads=reads)
    rate = LANES // UNITS if op in (VectorOp.SIGMOID, VectorOp.TANH) else 2 // reads

    async def main(ctx):
        await bench.fill(ctx)
        bench.issues.clear()
        bench.dones.clear()
        await bench.execute_vector(ctx, vector(op, a=0, b=32, d=64, outer=2, inner=8, a_inner=1, a_outer=8, b_inner=2,
                                               b_outer=1, d_outer=20, d_inner=2))  # fmt: skip
        await bench.settle(ctx)
        first = bench.issues[0]
        assert bench.issues == [first + rate * n for n in range(16)]
        assert bench.dones == [("vector", bench.issues[-1] + WRITTEN_AFTER[op])]
        await bench.check(ctx)

    bench.run(main)


def random_vector(generator, op):
    """Read rows 0 to 31 or the queue, write rows 32 to 63: nothing depends on anything."""
    sources = [Source.SCRATCH, Source.SCRATCH, Source.PARAMETER]
    a_source, b_source = generator.choice([*sources, Source.QUEUE]), generator.choice(sources)
    inner, outer = generator.randrange(1, 5), generator.randrange(1, 4)
    fields = {"a_source": a_source, "b_source": b_source, "inner": inner, "outer": outer}
    for name, source in (("a", a_source), ("b", b_source), ("d", None)):
        step = {Source.SCRATCH: 2, Source.QUEUE: 1, Source.PARAMETER: 0, None: 2}[source]
        start = {Source.SCRATCH: 10, Source.QUEUE: 4, Source.PARAMETER: 8, None: 10}[source]
        fields |= {name: generator.randrange(start) + (32 if source is None else 0)}
        fields |= {f"{name}_inner": generator.randrange(step + 1), f"{name}_outer": generator.randrange(2 * step + 1)}
    return vector(op, **fields)


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_results_keep_their_order_whatever_else_goes_on(stall, reads):
    """Rows that are written repeatedly end up with the last value; MAC, reads and writes run beside."""
    bench = Bench(seed=int(10 * stall), stall=stall, scratch_reads=reads)
    other = random.Random(5)
    ended = []

    async def vectors(ctx):
        await bench.fill(ctx)
        for _ in range(40):
            await bench.execute_vector(ctx, random_vector(bench.random, bench.random.choice(list(VectorOp))))
        ended.append("vectors")
        while len(ended) < 3:
            await ctx.tick()
        await bench.settle(ctx)
        await bench.check(ctx)

    async def macs(ctx):
        await ctx.tick().until(bench.dut.mac_done)
        await ctx.tick().repeat(5)
        for _ in range(12):  # slots 10 to 15: VECTOR reads those below
            tiles, count = other.randrange(1, 3), other.randrange(1, 6)
            messages = [scalar(other.randrange(WORDS), other.randrange(8), other.randrange(5)) for _ in range(count)]
            for message in messages:
                message["first"], message["empty"] = other.random() < 0.2, other.random() < 0.1
            messages[-1]["last"] = 1
            start = other.choice(list(Start))
            await bench.execute_mac(
                ctx, mac(tiles, weights=other.randrange(16), queue=10, bias=3, start=start), messages
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
            kind, name = other.choice([(Memory.SCRATCH, "scratch"), (Memory.QUEUE, "queue")])
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
        messages = [scalar(7, n % 4, 2 * (n % 8)) for n in range(60)]
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
        ctx.set(bench.dut.shares, shares)
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
        ctx.set(bench.dut.shares, {"elementwise": 1, "forward": 31, "backward": 31})
        bench.issues.clear()
        await bench.execute_vector(ctx, vector(VectorOp.TANH, a=0, d=80, inner=8, a_inner=1, d_inner=1))
        await bench.settle(ctx)
        assert bench.issues[-1] - bench.issues[0] < 24, bench.issues
        await bench.check(ctx)

    bench.run(main)


def test_activations_leave_the_pes_to_the_scalars():
    """σ of scratch words takes no slot; of partial sums it takes the queue's port, one cycle for each vector."""
    for source, expected in ((Source.SCRATCH, 0), (Source.QUEUE, 8)):
        bench = Bench(seed=2)

        async def macs(ctx, bench=bench, expected=expected):
            await bench.fill(ctx)
            bench.cycles.clear()
            messages = [scalar(7, n % 4, 8 + n % 8) for n in range(60)]
            messages[-1]["last"] = 1
            await bench.execute_mac(ctx, mac(1), messages)
            await bench.settle(ctx)
            assert bench.cycles.count(Cycle.QUEUE_PORT) == expected
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
        ({"op": 7}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD, "inner": 0}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD, "a_source": 3}, Status.BAD_FIELD),
        ({"op": VectorOp.ADD, "b_source": Source.QUEUE}, Status.BAD_FIELD),
        ({"op": VectorOp.TANH, "b_source": Source.QUEUE}, Status.IDLE),
        ({"op": VectorOp.ADD, "a": 128}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "b": 127, "b_inner": 1, "inner": 2}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "d": 128}, Status.BAD_ADDRESS),
        ({"op": VectorOp.ADD, "a": 16, "a_source": Source.QUEUE}, Status.BAD_ADDRESS),
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
        ("load", Memory.QUEUE, 0, Status.BAD_FIELD),
        ("read", Memory.SCRATCH, 128, Status.BAD_ADDRESS),
        ("read", Memory.QUEUE, 16, Status.BAD_ADDRESS),
        ("read", Memory.WEIGHTS, 0, Status.BAD_FIELD),
        ("read", Memory.QUEUE, 15, Status.IDLE),
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
