"""The compressor against the golden codec."""

import numpy as np
import pytest

from etalstm.formats import codec
from etalstm_hw.codec.buffered import BufferedCompressor
from etalstm_hw.codec.compress import Compressor
from etalstm_hw.contract import BINARY32, STREAM_BLOCK, FloatFormat
from tests.hw.codec.test_decompress import LENGTHS, SEED, SPECIAL, THRESHOLD, beats, bits, blocks, elements, run

WORDS = [(4, 4), (8, 8), (8, 4), (8, 2), (4, 2)]
"""Words of a beat, and those that are taken in a cycle."""
NUMBER = 5  # of the parameter that is the threshold


def compressed(values, beat_words, bf16=0, threshold=THRESHOLD):
    """What the compressor must give: beats, the last one with the number of kept elements."""
    expected = beats(codec.encode(values, threshold, bool(bf16), beat_words), beat_words)
    expected[-1]["kept"] = int(codec.kept_by_block(values, threshold).sum())
    return expected


def compress(streams, beat_words, wanted, bf16=0, stall=0.0, threshold=THRESHOLD, words=None):
    """Beats that come out of the compressor, and their cycles."""
    dut = BufferedCompressor(BINARY32, beat_words, words or beat_words)

    def setup(ctx):
        ctx.set(dut.bf16, bf16)
        ctx.set(dut.parameters[NUMBER], bits(threshold))
        ctx.set(dut.threshold, NUMBER)

    data = [beat for values in streams for beat in beats(values.view(np.uint32), beat_words)]
    return run(dut, {"i": data}, stall, wanted, setup=setup, cycles=int(40 * (len(data) + wanted) / (1 - stall)))


def check(got, expected):
    for n, (actual, want) in enumerate(zip(got, expected, strict=False)):
        same = {name: actual[name] for name in want}
        assert same == want, f"seed {SEED}, beat {n}: {same}, expected {want}"
    assert len(got) == len(expected), f"{len(got)} beats, expected {len(expected)}"


@pytest.mark.parametrize("stall", LENGTHS)
@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize(("beat_words", "words"), WORDS)
def test_gives_the_golden_beats(beat_words, words, bf16, stall):
    rng = np.random.default_rng(SEED)
    streams = [
        elements(length * beat_words, density, rng) for length in LENGTHS[stall] for density in (0.0, 1.0, rng.random())
    ]
    expected = [beat for values in streams for beat in compressed(values, beat_words, bf16)]
    check(compress(streams, beat_words, len(expected), bf16, stall, words=words)[0], expected)


@pytest.mark.parametrize(("kept", "bf16"), [(0, 0), (3, 0), (24, 0), (32, 0), (32, 1)])
@pytest.mark.parametrize(("beat_words", "words"), WORDS)
def test_takes_its_words_in_a_cycle_and_one_for_each_mask(beat_words, words, kept, bf16):
    count = 40
    values = blocks(kept, count)
    expected = compressed(values, beat_words, bf16)
    got, when = compress([values], beat_words, len(expected), bf16, words=words)
    check(got, expected)
    cycles, rows = count * (STREAM_BLOCK // words + 1), STREAM_BLOCK // words + 1
    assert when[-1] < cycles + 6 + rows, f"the last beat came after {when[-1]} cycles, {cycles} for all elements"


def test_the_last_beat_follows_the_last_elements_by_five_cycles():
    assert compress([np.zeros(STREAM_BLOCK, np.float32)], 8, 1)[1] == [STREAM_BLOCK // 8 - 1 + 5]


@pytest.mark.parametrize("threshold", [0.0, 2e-38, 0.5, 3e38])
def test_thresholds_compare_as_floats(threshold):
    """Every class of float on both sides of a threshold; NaNs are never dropped."""
    words = [0, 1, 0x007FFFFF, 0x00800000, *SPECIAL, bits(0.5), bits(0.5) - 1, bits(0.5) + 1, bits(2e-38), 0, 0, 0]
    values = np.array([*words, *(word ^ 1 << 31 for word in words)], np.uint32).view(np.float32)
    expected = compressed(values, 8, threshold=threshold)
    check(compress([values], 8, len(expected), threshold=threshold)[0], expected)


def test_says_what_it_cannot_be_made_for():
    with pytest.raises(ValueError, match="beat_words must be 2, 4, 8 or 16, got 3"):
        Compressor(BINARY32, 3)
    with pytest.raises(ValueError, match=r"words must divide beat_words \(8\), got 3"):
        BufferedCompressor(BINARY32, 8, 3)
    with pytest.raises(ValueError, match="words of 32 bits with long fractions, got FloatFormat"):
        Compressor(FloatFormat(exponent=5, mantissa=10), 8).elaborate(None)
