"""Compute over units that are no arithmetic at all, a plain model of it, and a bench around it."""

import random

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from etalstm_hw import contract
from etalstm_hw.compute.compute import Compute
from etalstm_hw.compute.pe import OmniPE
from etalstm_hw.contract import Cycle, FloatFormat, Memory, Source, Start, VectorOp
from etalstm_hw.contract.activation_tables import PACK, SIGMOID, TANH

FORMAT = FloatFormat(8, 7)
LANES, BEAT_WORDS, UNITS = 4, 2, 2
DEPTHS = {"weight_depth": 32, "bias_depth": 8, "scratch_depth": 128, "queue_depth": 16}
WORDS, SIGN = 1 << FORMAT.width, 1 << (FORMAT.width - 1)
MULTIPLY, ADD, ACTIVATION = 2, 4, 5  # latencies
MEMORIES = [(2, 1), (1, 1), (1, 2)]  # copies and banks of the scratch memory
PARAMETERS = [FORMAT.one, 0, 0x1234, 0x8001, 5, 6, 7, 0xFFFF, *range(8, contract.PARAMETERS)]
WRITTEN_AFTER = {  # cycles from issue to last write
    VectorOp.MULTIPLY: MULTIPLY + 2,
    VectorOp.ADD: MULTIPLY + ADD + 2,
    VectorOp.SUBTRACT: MULTIPLY + ADD + 2,
    VectorOp.SIGMOID: ACTIVATION + 1 + LANES // UNITS,
    VectorOp.TANH: ACTIVATION + 1 + LANES // UNITS,
    VectorOp.SELECT: MULTIPLY + ADD + 2,
    VectorOp.SELECT_ZERO: MULTIPLY + ADD + 2,
    VectorOp.PACK: ACTIVATION + 1 + LANES // UNITS,
    VectorOp.ADD_POSITIVE: MULTIPLY + ADD + 2,
    VectorOp.ADD_SCALED: MULTIPLY + ADD + 2,
    VectorOp.ADD_SQUARE: MULTIPLY + ADD + 2,
}


class Unit(wiring.Component):
    """``z = x·a + y·b`` of some cycles ago, modulo the word."""

    def __init__(self, x, y, latency, **more):
        self.x, self.y, self.LATENCY = x, y, latency
        super().__init__({"a": In(FORMAT.width), "b": In(FORMAT.width), "z": Out(FORMAT.width)} | more)

    def now(self):
        return self.x * self.a + self.y * self.b

    def elaborate(self, platform):
        m = Module()
        z = self.now()
        for n in range(self.LATENCY):
            late = Signal(FORMAT.width, name=f"late_{n}")
            m.d.sync += late.eq(z)
            z = late
        m.d.comb += self.z.eq(z)
        return m


class ActivationUnit(Unit):
    """``z = 13·a + 17·function``, and for PACK ``+ 19·b``: b means nothing to the others."""

    def __init__(self):
        super().__init__(13, 19, ACTIVATION, function=In(2))

    def now(self):
        return self.x * self.a + 17 * self.function + Mux(self.function == PACK, self.y * self.b, 0)


def multiply(a, b):
    return (3 * a + 5 * b) % WORDS


def add(a, b):
    return (7 * a + 11 * b) % WORDS


def activate(a, function, b=0):
    return (13 * a + 17 * function + 19 * b) % WORDS


def is_zero(a):
    return a >> FORMAT.mantissa & (1 << FORMAT.exponent) - 1 == 0


def compute(scratch_reads, scratch_banks):
    return Compute(
        FORMAT,
        LANES,
        BEAT_WORDS,
        pe=lambda format: OmniPE(format, Unit(3, 5, MULTIPLY), Unit(7, 11, ADD)),
        activation=lambda _: ActivationUnit(),
        activation_units=UNITS,
        depths=DEPTHS,
        scratch_reads=scratch_reads,
        scratch_banks=scratch_banks,
    )


def element(op, a, b, d, factor):
    """One lane of VECTOR; ADD_SCALED multiplies by `factor`."""
    selected = add(multiply(0, FORMAT.one | SIGN), b)
    return {
        VectorOp.MULTIPLY: lambda: multiply(a, b),
        VectorOp.ADD: lambda: add(multiply(a, FORMAT.one), b),
        VectorOp.SUBTRACT: lambda: add(multiply(a, FORMAT.one), b ^ SIGN),
        VectorOp.SIGMOID: lambda: activate(a, SIGMOID),
        VectorOp.TANH: lambda: activate(a, TANH),
        VectorOp.SELECT: lambda: d if is_zero(a) else selected,
        VectorOp.SELECT_ZERO: lambda: selected if is_zero(a) else d,
        VectorOp.PACK: lambda: activate(a, PACK, b),
        VectorOp.ADD_POSITIVE: lambda: d if is_zero(a) or a & SIGN else add(multiply(a, FORMAT.one), b),
        VectorOp.ADD_SCALED: lambda: add(multiply(a, factor), b),
        VectorOp.ADD_SQUARE: lambda: add(multiply(a, a), b),
    }[op]()


def vector_model(state, i):
    """Execute a VECTOR instruction on ``state``, the vectors of each memory."""
    for outer in range(i["outer"]):
        for inner in range(i["inner"]):
            at = {n: i[n] + outer * i[f"{n}_outer"] + inner * i[f"{n}_inner"] for n in "abd"}

            def operand(name, at=at):
                where = {Source.SCRATCH: "scratch", Source.SUMS: "sums"}.get(i[f"{name}_source"])
                return state[where][at[name]] if where else [PARAMETERS[at[name]]] * LANES

            lanes = zip(operand("a"), operand("b"), state["scratch"][at["d"]], strict=True)
            state["scratch"][at["d"]] = [element(i["op"], *words, PARAMETERS[i["bits"]]) for words in lanes]


def weights_of(memory, first, s, tile):
    """Give the weights of a scalar's tile; narrow ones are half words that become upper halves."""
    if not s["narrow"]:
        return memory[first + s["outer"] + tile]
    half = FORMAT.width // 2
    return [word >> half * (tile % 2) << half & WORDS - 1 for word in memory[first + s["outer"] + tile // 2]]


def mac_model(state, i, scalars):
    """Execute a MAC instruction."""
    for s in scalars:
        for tile in range(0 if s["null"] else i["tiles"]):
            slot, weights = i["sums"] + s["inner"] + tile, weights_of(state["weights"], i["weights"], s, tile)
            old = state["sums"][slot]
            if s["begins"]:
                old = (
                    state["bias"][i["bias"] + tile] if i["start"] == Start.BIAS else [0 if s["empty"] else SIGN] * LANES
                )
            products = [multiply(0, FORMAT.one | SIGN) if s["empty"] else multiply(w, s["value"]) for w in weights]
            state["sums"][slot] = [add(p, o) for p, o in zip(products, old, strict=True)]


def vector(op, **fields):
    names = ("a_source", "b_source", "a", "b", "d", "outer", "inner", "serial", "bits")
    strides = [f"{n}_{loop}" for n in "abd" for loop in ("outer", "inner")]
    return dict.fromkeys([*names, *strides], 0) | {"op": op, "outer": 1, "inner": 1} | fields


def mac(tiles, **fields):
    return {"weights": 0, "sums": 0, "bias": 0, "start": Start.NOTHING, "tiles": tiles, "backward": 0} | fields


def scalar(value=1, outer=0, inner=0, tiles=1, **flags):
    names = ("begins", "empty", "null", "last", "narrow")
    numbers = {"value": value, "outer": outer, "inner": inner, "tiles": tiles}
    return numbers | {name: flags.get(name, 0) for name in names}


class Bench:
    """Plays everything around :class:`Compute`."""

    def __init__(self, seed=1, stall=0.0, reads=2, banks=1):
        self.dut, self.random, self.stall = compute(reads, banks), random.Random(seed), stall
        self.cycles, self.issues, self.dones, self.statuses = [], [], [], {}
        depths = {"weights": "weight", "scratch": "scratch", "bias": "bias"}
        self.state = {n: [self.vector() for _ in range(DEPTHS[f"{d}_depth"])] for n, d in depths.items()}
        self.state["sums"] = [[0] * LANES for _ in range(DEPTHS["queue_depth"])]

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
        messages = [scalar(inner=slot, begins=1, empty=1) for slot in range(DEPTHS["queue_depth"])]
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
        for kind, name in ((Memory.SCRATCH, "scratch"), (Memory.SUMS, "sums")):
            for address, expected in enumerate(self.state[name]):
                actual = await self.read(ctx, kind, address)
                assert actual == expected, f"{name}[{address}]: {actual}, expected {expected}"
