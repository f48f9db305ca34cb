"""What is sent of arrays of integers: every digit that is not zero, once, in order."""

from itertools import chain

import numpy as np
import pytest
from amaranth.sim import Simulator

from etalstm.network.arithmetic import digits as count_digits
from etalstm.network.arithmetic import most
from etalstm_hw.integer.sender import SequenceSender
from etalstm_hw.integer.sequences import Sizes
from etalstm_hw.integer.widths import DIGIT_SHIFT

WORDS = 4
LARGEST = most(15)


def expected(elements, wide, repeats):
    """List what is sent of elements (sequences, K): (value, row, lower, ends, last, swept, final)."""
    sent = []
    for number, row in enumerate(elements):
        two = (np.abs(row) >= 1 << DIGIT_SHIFT) & wide
        lower = np.where(two, (row + 64) % 128 - 64, row)
        parts = [(0, (row - lower) >> DIGIT_SHIFT), (1, lower)]
        assert sum(np.count_nonzero(part) for _, part in parts) == count_digits(row).sum()
        for is_lower, part in parts:
            (rows,) = np.nonzero(part)
            sent += [(part[k], k, is_lower, k == rows[-1], is_lower and k == rows[-1]) for k in rows]
        if not len(rows):
            sent.append((0, None, 1, True, True))
        sent[-1] = (*sent[-1], number == len(elements) - 1)
    sent = [item if len(item) == 6 else (*item, False) for item in sent]
    return [(*item, item[-1] and turn == repeats - 1) for turn in range(repeats) for item in sent]


def run(sender, arrays, stalls):
    """Send arrays, each (elements (tiles, sequences, beats, WORDS), wide, repeats); give what comes, and the cycles."""
    out, cycles, rng = [], [0], np.random.default_rng(3)

    async def put(ctx, port, payload):
        while stalls and rng.random() < 0.4:
            await ctx.tick()
        ctx.set(port.p, payload)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    async def send(ctx):
        for elements, wide, repeats in arrays:
            tiles, sequences, beats, _ = elements.shape
            extent = {"tiles": tiles, "sequences": sequences, "beats": beats, "wide": wide, "repeats": repeats}
            await put(ctx, sender.extent, extent)
            for beat in elements.reshape(-1, WORDS):
                await put(ctx, sender.beats, [int(word) & 0xFFFF for word in beat])
        await ctx.tick().until(~sender.busy)

    async def receive(ctx):
        while True:
            ctx.set(sender.o.ready, not stalls or rng.random() < 0.6)
            *_, valid, ready, busy, p = await ctx.tick().sample(sender.o.valid, sender.o.ready, sender.busy, sender.o.p)
            cycles[0] += busy
            if valid and ready:
                out.append((p.value, p.element, p.lower, p.ends, p.last, p.swept, p.final))

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(receive, background=True)
    simulator.run()
    return out, cycles[0]


def array(rng, tiles, sequences, beats, density, wide):
    elements = rng.integers(-LARGEST, LARGEST + 1, (tiles, sequences, beats, WORDS))
    elements >>= rng.integers(0, 15, elements.shape)
    if not wide:
        elements = elements.clip(-127, 127)
    return elements * (rng.random(elements.shape) < density)


@pytest.mark.parametrize("stalls", [False, True])
def test_sends_every_digit_that_is_not_zero_in_order(stalls):
    rng = np.random.default_rng(8)
    kinds = [
        ((1, 1, 1), 1.0, True, 1), ((3, 4, 2), 0.5, True, 2), ((5, 2, 1), 0.05, True, 1), ((2, 3, 4), 0.0, False, 2),
        ((4, 8, 1), 1.0, False, 1), ((16, 2, 2), 0.1, True, 1), ((1, 5, 3), 0.3, False, 3),
    ]  # fmt: skip
    arrays = [(array(rng, *shape, density, wide), wide, repeats) for shape, density, wide, repeats in kinds]
    out, _ = run(SequenceSender(Sizes(WORDS, 64, 8)), arrays, stalls)
    due = [
        expected(elements.swapaxes(0, 1).reshape(elements.shape[1], -1), wide, repeats)
        for elements, wide, repeats in arrays
    ]
    due = list(chain(*due))
    assert len(out) == len(due)
    for number, (found, wanted) in enumerate(zip(out, due, strict=True)):
        if wanted[1] is None:  # nothing is sent: the row means nothing
            found, wanted = (found[0], *found[2:]), (wanted[0], *wanted[2:])
        assert found == wanted, f"digit {number}"


def test_digits_at_their_borders():
    borders = [1, 63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 8191, 8192, LARGEST - 63, LARGEST - 1, LARGEST]
    elements = np.array([[borders, np.negative(borders)]]).reshape(1, 2, -1, WORDS)
    out, _ = run(SequenceSender(Sizes(WORDS, 64, 8)), [(elements, True, 1)], stalls=False)
    assert out == expected(elements.reshape(2, -1), True, 1)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((3, 64, 8), "beat_words must be a power of two of at least 2, got 3"), ((4, 2, 8), "beats"), ((4, 64, 6), "6")],
)
def test_sizes_that_are_no_powers_of_two_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        Sizes(*sizes)


def test_a_digit_is_sent_every_cycle():
    elements, repeats = np.ones((8, 4, 2, WORDS), dtype=int), 5
    out, cycles = run(SequenceSender(Sizes(WORDS, 64, 8)), [(elements, False, repeats)], stalls=False)
    filling, sequences = elements.size // WORDS, repeats * elements.shape[1]
    assert len(out) == repeats * elements.size
    assert cycles < filling + len(out) + 3 * sequences + 10
