"""Which words of a block are not zero, patch by patch: see etalstm_hw.broadcast.masks."""

import numpy as np

from etalstm.model.machine.state import compiled, record
from etalstm_hw.contract import MOST_GATES, Counter

_SEEN, _SKIPPED = int(Counter.SCALARS_SEEN), int(Counter.SCALARS_SKIPPED)

GIVEN = np.dtype(np.uint32)
"""Masks that were counted from data: of each block its patches' in the order in which they are broadcast."""

BANK = record(
    "text", "block", "patches", "nonzero", "wanted", "begins", "finish", "last", "sums", "batch_outer", "gates",
    "chunks", "batch", "lane", "first_sum",
)  # fmt: skip
"""A buffer: what is to be broadcast of it. Masks that are not given follow from ``text`` of the CAST and ``block``."""


@compiled
def _random(state):
    """Give 32 random bits, int64: xorshift.

    Every operand is unsigned, because Numba makes a float of one that is and one that is not.
    """
    state[0] ^= state[0] << np.uint64(13)
    state[0] ^= state[0] >> np.uint64(7)
    state[0] ^= state[0] << np.uint64(17)
    return np.int64(state[0] >> np.uint64(32))


@compiled
def seed(state, text, number):
    """Begin the random bits of a part of an instruction: equal instructions draw equal bits, whenever they run."""
    state[0] = np.uint64(text * 64 + 1) ^ (np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15))
    for _ in range(3):  # neighbours differ in few bits
        _random(state)


@compiled
def draw_bits(state, bits, threshold):
    """Draw some bits, each set with a probability of `threshold` in 2^32."""
    mask = 0
    for bit in range(bits):
        if _random(state) < threshold:
            mask |= 1 << bit
    return mask


@compiled
def draw_some(filled, bits, left, kept, state):
    """Keep bits of a mask: of `left` bits, those of the masks after it included, `kept` random ones are kept.

    Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S.
    """
    mask = 0
    for bit in range(bits):
        if filled >> bit & 1:
            if _random(state) * left < kept << 32:
                mask |= 1 << bit
                kept -= 1
            left -= 1
    return mask


@compiled
def count_bits(mask):
    """Count the bits of a mask that are set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@compiled
def _asked(bank, patch, real, block, cast, sizes):
    """Give the words of a patch that are broadcast, and those of them that hold an element of the network."""
    if not bank.batch_outer:
        lane, chunk = patch // (bank.gates * bank.chunks), patch % bank.chunks
        count = min(sizes.chunk, bank.batch - chunk * sizes.chunk)
        every = (1 << count) - 1
        return every, every if bank.lane + lane < real else 0
    first = bank.lane // sizes.beat_words
    beats = (bank.lane + block.lanes - 1) // sizes.beat_words - first + 1
    beat = first + patch % beats
    gates, asked, filled = (1 << bank.gates) - 1, 0, 0
    for word in range(sizes.beat_words):
        lane = beat * sizes.beat_words + word
        if bank.lane <= lane < bank.lane + block.lanes:
            asked |= gates << MOST_GATES * word
            if lane < real:
                filled |= gates << MOST_GATES * word
    return asked, filled


@compiled
def fill_masks(number, bank, block, position, cast, masks, values, given, random, sizes, counted):
    """Describe a block that is full, and find its masks: given ones, or drawn so that the block has its density."""
    bank.text, bank.block, bank.batch_outer, bank.gates = cast.text, position, cast.batch_outer, cast.gates
    bank.batch, bank.lane, bank.first_sum = cast.batch, cast.lane, cast.first_sum
    bank.begins = cast.begins and position == 0
    bank.last = position == cast.blocks - 1
    bank.finish = cast.finish and bank.last
    bank.chunks = -(-cast.batch // sizes.chunk)
    if cast.batch_outer:
        first, last = cast.lane // sizes.beat_words, (cast.lane + block.lanes - 1) // sizes.beat_words
        bank.patches = cast.batch * (last - first + 1)
        bank.sums = cast.gates * block.lanes
    else:
        bank.patches = block.lanes * cast.gates * bank.chunks
        bank.sums = cast.batch
    bank.nonzero = bank.wanted = 0
    bits = sizes.chunk if not cast.batch_outer else MOST_GATES * sizes.beat_words
    left = kept = 0
    if block.threshold < 1 << 32 and not len(given):
        seed(random, cast.text, position)
        for patch in range(bank.patches):
            left += count_bits(_asked(bank, patch, block.occupied, block, cast, sizes)[1])
        kept = (left * block.threshold + (1 << 31)) >> 32
    for patch in range(bank.patches):
        asked, filled = _asked(bank, patch, block.occupied, block, cast, sizes)
        if len(given):
            value = np.int64(given[patch])
        elif block.threshold >= 1 << 32:
            value = filled
        else:
            value = draw_some(filled, bits, left, kept, random)
            left -= count_bits(filled)
            kept -= count_bits(value)
        values[number, patch] = value
        masks[number, patch] = asked if sizes.send_zeros else value
        chosen, wanted = count_bits(masks[number, patch]), count_bits(asked)
        counted[_SEEN] += wanted
        counted[_SKIPPED] += wanted - chosen
        bank.nonzero += chosen
        bank.wanted += wanted
