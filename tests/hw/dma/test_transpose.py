"""The transposer gives the columns of what it was given as rows."""

import random

import pytest
from amaranth.sim import Simulator

from etalstm_hw.dma.transpose import Transposer

SEED = 9
WORD_BITS = 8


def columns(square, words, lanes):
    """What must come out: for each lane its words in beats, the last one filled up with zeros."""
    return [
        [square[i][lane] if i < len(square) else 0 for i in range(first, first + words)]
        for lane in range(lanes)
        for first in range(0, len(square), words)
    ]


def run(squares, words, vector_beats, stall):
    """Beats that come out for [(vectors, lanes)], and the cycle of each."""
    dut = Transposer(WORD_BITS, words, vector_beats)
    out, cycles = [], []

    async def source(ctx):
        rng = random.Random(SEED)
        for vectors, lanes in squares:
            parts = -(-lanes // words)
            for i, vector in enumerate(vectors):
                for part in range(parts):
                    while rng.random() < stall:
                        await ctx.tick()
                    last = i == len(vectors) - 1 and part == parts - 1
                    data = vector[part * words : (part + 1) * words]
                    ctx.set(dut.i.payload, {"data": data, "lanes": lanes, "last": last})
                    ctx.set(dut.i.valid, 1)
                    await ctx.tick().until(dut.i.ready)
                    ctx.set(dut.i.valid, 0)

    async def sink(ctx):
        rng = random.Random(SEED + 1)
        wanted = sum(len(columns(square, words, lanes)) for square, lanes in squares)
        for cycle in range(20 * wanted):
            ctx.set(dut.o.ready, rng.random() >= stall)
            _, _, taken, beat = await ctx.tick().sample(dut.o.valid & dut.o.ready, dut.o.payload)
            if taken:
                out.append([beat[n] for n in range(words)])
                cycles.append(cycle)
            if len(out) == wanted:
                break

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(source, background=True)
    simulator.add_testbench(sink)
    simulator.run()
    return out, cycles


def squares_of(rng, words, vector_beats, sizes):
    return [
        ([[rng.randrange(256) for _ in range(words * vector_beats)] for _ in range(rows)], lanes)
        for rows, lanes in sizes
    ]


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("words", "vector_beats"), [(4, 1), (8, 1), (8, 4)])
def test_gives_columns_of_whole_and_partial_squares(words, vector_beats, stall):
    rng, lanes = random.Random(SEED), words * vector_beats
    sizes = [(words, lanes), (1, 1), (words - 1, lanes - 1), (words, 1), (1, lanes), (2, words - 1), (lanes, lanes)]
    sizes += [(min(rows, lanes), lanes) for rows in (words + 1, lanes - 1, 2 * words)] + [(lanes, 1), (lanes, lanes)]
    squares = squares_of(rng, words, vector_beats, sizes)
    out, _ = run(squares, words, vector_beats, stall)
    expected = [beat for square, lanes in squares for beat in columns(square, words, lanes)]
    for n, (got, want) in enumerate(zip(out, expected, strict=True)):
        assert got == want, f"seed {SEED}, beat {n}: {got}, expected {want}"


@pytest.mark.parametrize("rows", [8, 16])
def test_takes_and_gives_a_beat_every_cycle(rows):
    squares = squares_of(random.Random(SEED), 8, 2, [(rows, 16)] * 6)
    cycles = run(squares, 8, 2, 0.0)[1]
    assert cycles[-1] - cycles[0] + 1 == 6 * 16 * rows // 8


def test_refuses_sizes_that_are_no_power_of_two():
    with pytest.raises(ValueError, match="words must be a power of two of at least 2, got 6"):
        Transposer(8, 6, 1)
