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
from tests.hw.integer.arrays import beats_of, extent_of

WORDS = 4
LARGEST = most(15)


def expected(elements, wide, repeats, beats=1):
    """List what is sent of elements (sequences, K): (value, row, lower, ends, last, swept, final).

    Of a block's vector one beat comes after the other, each with the four bytes of its words.
    """
    sent = []
    order = np.arange(elements.shape[1]).reshape(-1, 4, beats, WORDS).swapaxes(1, 2).ravel()
    for number, row in enumerate(elements):
        two = (np.abs(row) >= 1 << DIGIT_SHIFT) & wide
        lower = np.where(two, (row + 64) % 128 - 64, row)
        parts = [(0, (row - lower) >> DIGIT_SHIFT), (1, lower)]
        assert sum(np.count_nonzero(part) for _, part in parts) == count_digits(row).sum()
        for is_lower, part in parts:
            rows = order[part[order] != 0]
            sent += [(part[k], k, is_lower, k == rows[-1], is_lower and k == rows[-1]) for k in rows]
        if not len(rows):
            sent.append((0, None, 1, True, True))
        sent[-1] = (*sent[-1], number == len(elements) - 1)
    sent = [item if len(item) == 6 else (*item, False) for item in sent]
    return [(*item, item[-1] and turn == repeats - 1) for turn in range(repeats) for item in sent]


def run(sender, arrays, stalls):
    """Send arrays, each (elements (sequences, blocks, 4, lanes), wide, repeats); give what comes, and the cycles."""
    out, cycles, rng = [], [0], np.random.default_rng(3)

    async def put(ctx, port, payload):
        while stalls and rng.random() < 0.4:
            await ctx.tick()
        ctx.set(port.p, payload)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)

    def bring(port):
        async def bring_arrays(ctx):
            for elements, wide, repeats in arrays[port :: len(sender.extents)]:
                await put(ctx, sender.extents[port], extent_of(elements, wide, repeats))
                for beat in beats_of(elements, wide, WORDS):
                    await put(ctx, sender.beats[port], beat)
            await ctx.tick().until(~sender.busy)

        return bring_arrays

    async def receive(ctx):
        while True:
            ctx.set(sender.o.ready, not stalls or rng.random() < 0.6)
            *_, valid, ready, busy, p = await ctx.tick().sample(sender.o.valid, sender.o.ready, sender.busy, sender.o.p)
            cycles[0] += busy
            if valid and ready:
                out.append((p.value, p.element, p.lower, p.ends, p.last, p.swept, p.final))

    simulator = Simulator(sender)
    simulator.add_clock(1e-6)
    for port in range(len(sender.extents)):
        simulator.add_testbench(bring(port))
    simulator.add_testbench(receive, background=True)
    simulator.run()
    return out, cycles[0]


def array(rng, blocks, sequences, beats, density, wide):
    elements = rng.integers(-LARGEST, LARGEST + 1, (sequences, blocks, 4, beats * WORDS))
    elements >>= rng.integers(0, 15, elements.shape)
    if not wide:
        elements = elements.clip(-127, 127)
    return elements * (rng.random(elements.shape) < density)


@pytest.mark.parametrize(("beats", "ports", "stalls"), [(1, 2, False), (1, 4, True), (2, 2, True), (4, 4, False)])
def test_sends_every_digit_that_is_not_zero_in_order(beats, ports, stalls):
    rng = np.random.default_rng(8)
    kinds = [
        ((1, 1), 1.0, True, 1), ((3, 4), 0.5, True, 2), ((5, 2), 0.02, True, 1), ((2, 3), 0.0, False, 2),
        ((4, 4), 1.0, False, 1), ((4, 2), 0.1, True, 1), ((1, 5), 0.3, False, 3),
    ]  # fmt: skip
    arrays = [(array(rng, *shape, beats, density, wide), wide, repeats) for shape, density, wide, repeats in kinds]
    out, _ = run(SequenceSender(Sizes(WORDS, beats, 128, 8, ports)), arrays, stalls)
    due = list(chain(*(expected(each.reshape(len(each), -1), wide, repeats, beats) for each, wide, repeats in arrays)))
    assert len(out) == len(due)
    for number, (found, wanted) in enumerate(zip(out, due, strict=True)):
        if wanted[1] is None:  # nothing is sent: the row means nothing
            found, wanted = (found[0], *found[2:]), (wanted[0], *wanted[2:])
        assert found == wanted, f"digit {number}"


def test_digits_at_their_borders():
    borders = [1, 63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 8191, 8192, LARGEST - 63, LARGEST - 1, LARGEST]
    elements = np.array([[borders, np.negative(borders)]]).reshape(2, -1, 4, WORDS)
    out, _ = run(SequenceSender(Sizes(WORDS, 1, 64, 8)), [(elements, True, 1)], stalls=False)
    assert out == expected(elements.reshape(2, -1), True, 1)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((3, 1, 64, 8), "beat_words must be a power of two of at least 2, got 3"),
        ((4, 1, 1, 8), "lines must be a power of two of at least 2, got 1"),
        ((4, 3, 64, 8), "vector_beats must be a power of two of at least 1, got 3"),
        ((4, 1, 64, 6), "sequences must be a power of two of at least 1, got 6"),
        ((4, 1, 64, 8, 3), r"ports must be one of \(2, 4\), got 3"),
    ],
)
def test_sizes_that_are_no_powers_of_two_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        Sizes(*sizes)


def test_a_digit_is_sent_every_cycle():
    elements, repeats = np.ones((4, 4, 4, WORDS), dtype=int), 5
    out, cycles = run(SequenceSender(Sizes(WORDS, 1, 64, 8)), [(elements, False, repeats)], stalls=False)
    filling, sequences = elements.size // WORDS // 4, repeats * len(elements)
    assert len(out) == repeats * elements.size
    assert cycles < filling + len(out) + 3 * sequences + 10


def test_the_next_array_comes_while_the_one_before_in_its_bank_is_sent():
    large, small = np.ones((4, 16, 4, WORDS), dtype=int), np.ones((1, 1, 4, WORDS), dtype=int)
    first, lines = [(large, False, 5), (small, False, 1)], large.size // WORDS // 4
    cycles = [
        run(SequenceSender(Sizes(WORDS, 1, 64, 8)), arrays, stalls=False)[1]
        for arrays in (first, [*first, (large, False, 1)], [(large, False, 1)])
    ]
    assert cycles[1] - cycles[0] < cycles[2] - lines + 10
