"""Products of whole arrays, from beats to sums: sender, engine and weights against NumPy's integers."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.sim import Simulator

from etalstm.network.arithmetic import most
from etalstm_hw.contract import Status
from etalstm_hw.integer.lane import lane_weights
from etalstm_hw.integer.products import ProductEngine
from etalstm_hw.integer.sender import SequenceSender
from etalstm_hw.integer.sequences import Sizes
from tests.hw.integer.arrays import beats_of, extent_of

WORDS, LANES, SIZES = 4, 2, Sizes(4, 2, 64, 8)
WEIGHT_DEPTH, DEPTH = 256, 32


class Chain(wiring.Component):
    """A sender, an engine, and a memory of weights; with ``hold`` no digit passes."""

    def __init__(self, weights, pes):
        self.sender = SequenceSender(SIZES)
        sizes = {"depth": DEPTH, "elements": SIZES.elements, "weight_depth": WEIGHT_DEPTH}
        self.engine = ProductEngine(LANES, pes, **sizes)
        shape = data.ArrayLayout(lane_weights(pes), LANES)
        self.weights = memory.Memory(shape=shape, depth=WEIGHT_DEPTH, init=weights.tolist())
        super().__init__({"hold": In(1), "idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender, m.submodules.engine, m.submodules.weights = self.sender, self.engine, self.weights
        connect(m, self.engine.weights, self.weights.read_port())
        m.d.comb += [
            self.engine.digits.p.eq(self.sender.o.p),
            self.engine.digits.valid.eq(self.sender.o.valid & ~self.hold),
            self.sender.o.ready.eq(self.engine.digits.ready & ~self.hold),
            self.idle.eq(~self.sender.busy & ~self.engine.busy),
        ]
        return m


class Run:
    """Sends arrays and products of them.

    Members
    -------
    sums : what can be read when all is done: (DEPTH, halves, PEs, LANES)
    done : products that were reported
    """

    def __init__(self, chain, pes, arrays, products, stalls):
        self._chain, self._arrays, self._products = chain, arrays, products
        self._rng, self._stalls = np.random.default_rng(9), stalls
        self.sums, self.done = np.zeros((DEPTH, 2, pes, LANES), dtype=np.int64), 0
        simulator = Simulator(chain)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._send)
        simulator.add_testbench(self._multiply)
        simulator.add_testbench(self._watch, background=True)
        simulator.run()

    async def _put(self, ctx, port, payload):
        ctx.set(port.p, payload)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    async def _send(self, ctx):
        for number, (elements, wide, repeats) in enumerate(self._arrays):
            await self._put(ctx, self._chain.sender.extents[number % SIZES.ports], extent_of(elements, wide, repeats))
            for beat in beats_of(elements, wide, WORDS):
                await self._put(ctx, self._chain.sender.beats[number % SIZES.ports], beat)

    async def _multiply(self, ctx):
        """Give all products; read the sums of the first one again and again while the last ones are worked on."""
        *products, last = self._products
        for product in products:
            await self._put(ctx, self._chain.engine.i, product)
        await ctx.tick().until(~self._chain.engine.busy)
        assert self.done == len(products)
        await self._read_all(ctx)
        ctx.set(self._chain.engine.i.p, last)
        ctx.set(self._chain.engine.i.valid, 1)
        others = np.flatnonzero(np.arange(DEPTH) < last["sums"] * DEPTH // self.sums[..., 0].size)
        vectors = self.sums.reshape(-1, LANES)
        turn, ready = 0, False
        while not ready:
            address = int(self._rng.choice(others)) * (len(vectors) // DEPTH) + turn % (len(vectors) // DEPTH)
            free = ctx.get(self._chain.engine.read_free)
            found, ready = await self._read(ctx, address, free)
            assert not free or found == list(vectors[address])
            turn += 1
        ctx.set(self._chain.engine.i.valid, 0)
        if not ctx.get(self._chain.idle):
            await ctx.tick().until(self._chain.idle)
        assert self.done == len(self._products)
        await self._read_all(ctx)

    async def _read(self, ctx, address, enable):
        """Give a vector of sums, and whether a product was taken with the clock's edge."""
        read = self._chain.engine.read
        ctx.set(read.addr, address)
        ctx.set(read.en, enable)
        *_, ready = await ctx.tick().sample(self._chain.engine.i.ready)
        return [ctx.get(read.data[n]) for n in range(LANES)], ready

    async def _read_all(self, ctx):
        vectors = self.sums.reshape(-1, LANES)
        for address in range(len(vectors)):
            vectors[address], _ = await self._read(ctx, address, 1)

    async def _watch(self, ctx):
        while True:
            ctx.set(self._chain.hold, int(self._stalls and self._rng.random() < 0.4))
            *_, done = await ctx.tick().sample(self._chain.engine.done)
            self.done += done


@pytest.mark.parametrize(("pes", "density", "stalls"), [(4, 1.0, False), (4, 0.1, True), (8, 0.5, True)])
def test_has_the_sums_of_every_tile_and_adds_to_old_ones(pes, density, stalls):
    rng = np.random.default_rng(5)
    weights = rng.integers(-127, 128, (WEIGHT_DEPTH, LANES, 2 * pes))
    # Shape, elements of two digits, tiles of outputs, number of the first sum, added to old ones.
    cases = [
        ((3, 1), False, 2, 0, False), ((3, 2), True, 2, 0, True), ((1, 1), True, 1, 20, False),
        ((8, 2), True, 1, 20, True),
    ]  # fmt: skip
    arrays, products, expected = [], [], np.zeros((DEPTH, 2, pes, LANES), dtype=np.int64)
    for number, ((sequences, blocks), wide, repeats, at, adds) in enumerate(cases):
        largest = most(15 if wide else 8)
        elements = rng.integers(-largest, largest + 1, (sequences, blocks, 4, 2 * WORDS))
        elements *= rng.random(elements.shape) < density
        rows, first = elements[0].size, 7 * number
        arrays.append((elements, wide, repeats))
        products.append({"weights": first * pes // 2, "rows": rows, "sums": at * 2 * pes, "adds": adds})
        flat = elements.reshape(sequences, -1)
        for tile in range(repeats):
            of_tile = weights[first + tile * rows : first + (tile + 1) * rows]
            sums = np.einsum("sk,kln->snl", flat, of_tile).reshape(sequences, 2, pes, LANES)
            expected[at + tile * sequences : at + (tile + 1) * sequences] += sums
    run = Run(Chain(weights, pes), pes, arrays, products, stalls)
    np.testing.assert_array_equal(run.sums, expected)


def test_a_depth_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="depth must be a power of two, got 24"):
        ProductEngine(LANES, 4, depth=24, elements=64, weight_depth=64)


def refusal(product, digits, *, elements=SIZES.elements, weight_depth=WEIGHT_DEPTH):
    """Give the engine a product of 4 PEs, and digits by their elements; give its status after them."""
    engine = ProductEngine(LANES, 4, depth=DEPTH, elements=elements, weight_depth=weight_depth)

    async def bench(ctx):
        ctx.set(engine.i.p, product)
        ctx.set(engine.i.valid, 1)
        for number, element in enumerate(digits):
            flags = dict.fromkeys(("lower", "ends", "last", "swept", "final"), number == len(digits) - 1)
            ctx.set(engine.digits.p, {"value": 1, "element": element} | flags)
            ctx.set(engine.digits.valid, 1)
            await ctx.tick()
        ctx.set(engine.digits.valid, 0)
        ctx.set(engine.i.valid, not digits)
        await ctx.tick().repeat(3)
        found.append(Status(ctx.get(engine.status)))

    found = []
    simulator = Simulator(engine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found[0]


@pytest.mark.parametrize(
    ("product", "digits", "status"),
    [
        ({"weights": 4, "sums": 16}, [0, 5], Status.IDLE),
        ({"weights": 5, "sums": 16}, [], Status.BAD_FIELD),  # before a digit has come
        ({"weights": 4, "sums": 20}, [], Status.BAD_FIELD),
        ({"weights": 2 * WEIGHT_DEPTH - 12}, [0, 5], Status.IDLE),
        ({"weights": 2 * WEIGHT_DEPTH - 12}, [0, 6], Status.BAD_ADDRESS),
        ({"weights": 2 * WEIGHT_DEPTH}, [0], Status.BAD_ADDRESS),
        ({"sums": 8 * (DEPTH - 1)}, [0], Status.IDLE),
        ({"sums": 8 * DEPTH}, [0], Status.BAD_ADDRESS),
    ],
)
def test_refuses_what_lies_beyond_its_memories_or_begins_within_a_row(product, digits, status):
    assert refusal(product, digits) == status


def test_a_row_beyond_the_memory_does_not_become_one_within_it():
    sizes = {"elements": 1 << 16, "weight_depth": 1 << 12}
    assert refusal({"weights": (1 << 13) - 2}, [(1 << 15) - (1 << 12) + 1], **sizes) == Status.BAD_ADDRESS
    assert refusal({}, [1 << 15], **sizes) == Status.BAD_ADDRESS
