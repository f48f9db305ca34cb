"""Products of whole arrays, from beats to sums: sender, engine and weights against NumPy's integers."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import Out, connect
from amaranth.sim import Simulator

from etalstm.network.arithmetic import most
from etalstm_hw.integer.lane import lane_weights
from etalstm_hw.integer.products import ProductEngine
from etalstm_hw.integer.sender import SequenceSender
from etalstm_hw.integer.sequences import Sizes

WORDS, LANES, PES, SIZES = 4, 2, 4, Sizes(4, 64, 8)
WEIGHT_DEPTH, DEPTH = 256, 32


class Chain(wiring.Component):
    """A sender, an engine, and a memory of weights."""

    def __init__(self, weights):
        self.sender = SequenceSender(SIZES)
        self.engine = ProductEngine(LANES, PES, depth=DEPTH, rows=SIZES.rows, weight_depth=WEIGHT_DEPTH)
        shape = data.ArrayLayout(lane_weights(PES), LANES)
        self.weights = memory.Memory(shape=shape, depth=WEIGHT_DEPTH, init=weights.tolist())
        super().__init__({"idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender, m.submodules.engine, m.submodules.weights = self.sender, self.engine, self.weights
        connect(m, self.sender.o, self.engine.digits)
        connect(m, self.engine.weights, self.weights.read_port())
        m.d.comb += self.idle.eq(~self.sender.busy & ~self.engine.busy)
        return m


def run(chain, arrays, products):
    """Send arrays, and products of them; give all sums afterwards: (DEPTH, halves, PES, LANES)."""
    sums = np.zeros((DEPTH, 2, PES, LANES), dtype=np.int64)

    async def put(ctx, port, payload):
        ctx.set(port.p, payload)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    async def send(ctx):
        for elements, wide, repeats in arrays:
            tiles, sequences, beats, _ = elements.shape
            extent = {"tiles": tiles, "sequences": sequences, "beats": beats, "wide": wide, "repeats": repeats}
            await put(ctx, chain.sender.extent, extent)
            for beat in elements.reshape(-1, WORDS):
                await put(ctx, chain.sender.beats, [int(word) & 0xFFFF for word in beat])

    async def multiply(ctx):
        for product in products:
            await put(ctx, chain.engine.i, product)
        await ctx.tick().until(chain.idle)
        read = chain.engine.read
        for address in range(2 * PES * DEPTH):
            ctx.set(read.addr, address)
            ctx.set(read.en, 1)
            await ctx.tick()
            sums.reshape(-1, LANES)[address] = [ctx.get(read.data[n]) for n in range(LANES)]

    simulator = Simulator(chain)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(multiply)
    simulator.run()
    return sums


@pytest.mark.parametrize("density", [1.0, 0.1])
def test_has_the_sums_of_every_tile_and_adds_to_old_ones(density):
    rng = np.random.default_rng(5)
    weights = rng.integers(-127, 128, (WEIGHT_DEPTH, LANES, 2 * PES))
    shapes = [((2, 3, 2), False, 2), ((3, 3, 1), True, 2), ((1, 1, 1), True, 1), ((1, 1, 1), True, 1)]
    arrays, products, expected = [], [], np.zeros((DEPTH, 2, PES, LANES), dtype=np.int64)
    for number, ((tiles, sequences, beats), wide, repeats) in enumerate(shapes):
        largest = most(15 if wide else 8)
        elements = rng.integers(-largest, largest + 1, (tiles, sequences, beats, WORDS))
        elements *= rng.random(elements.shape) < density
        rows, first, at = elements[:, 0].size, 7 * number, (0, 0, 20, 20)[number]
        arrays.append((elements, wide, repeats))
        products.append({"weights": first, "rows": rows, "sums": at, "adds": number in (1, 3)})
        flat = elements.swapaxes(0, 1).reshape(sequences, -1)
        for tile in range(repeats):
            of_tile = weights[first + tile * rows : first + (tile + 1) * rows]
            sums = np.einsum("sk,kln->snl", flat, of_tile).reshape(sequences, 2, PES, LANES)
            expected[at + tile * sequences : at + (tile + 1) * sequences] += sums
    np.testing.assert_array_equal(run(Chain(weights), arrays, products), expected)
