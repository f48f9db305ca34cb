"""The expander against the golden codec."""

import numpy as np
import pytest

from etalstm import codec
from etalstm.hw.codec.expand import Expander
from etalstm.hw.contract import BINARY32, STREAM_BLOCK
from tests.hw.codec.test_decompress import SEED, THRESHOLD, bits, blocks, elements, extent, run

SIZES = [4, 8]
LENGTHS = {0.0: range(1, 36), 0.5: [*range(1, 12), 31, 32, 33, 50], 0.9: [1, 2, 7, 8, 9, 16]}  # beats, by stall


def beats(words, beat_words):
    """Beats of words, the last one marked."""
    rows = np.asarray(words, np.uint32).reshape(-1, beat_words)
    return [{"data": int.from_bytes(row.tobytes(), "little"), "last": n == len(rows) - 1} for n, row in enumerate(rows)]


def packed(values, beat_words):
    return beats(codec.encode(values, THRESHOLD, beat_words=beat_words), beat_words)


@pytest.mark.parametrize("stall", LENGTHS)
@pytest.mark.parametrize("beat_words", SIZES)
def test_gives_the_golden_elements(beat_words, stall):
    rng, expected, data, extents = np.random.default_rng(SEED), [], [], []
    for length in LENGTHS[stall]:
        for density in (0.0, 1.0, rng.random()):
            values = elements(length * beat_words, density, rng)
            words = codec.encode(values, THRESHOLD, beat_words=beat_words)
            data += beats(words, beat_words)
            expected += beats(codec.decode(words, len(values), beat_words=beat_words).view(np.uint32), beat_words)
            extents.append(extent(values, 0))
    got, _ = run(Expander(BINARY32, beat_words), {"i": data, "extent": extents}, stall, len(expected))
    for n, (actual, want) in enumerate(zip(got, expected, strict=False)):
        assert actual == want, f"seed {SEED}, beat {n}: {actual}, expected {want}"
    assert len(got) == len(expected), f"{len(got)} beats, expected {len(expected)}"


@pytest.mark.parametrize("kept", [0, 3, 31, 32])
@pytest.mark.parametrize("beat_words", SIZES)
def test_gives_a_beat_a_cycle(beat_words, kept):
    """The last one waits a cycle for the stream's end to be checked; a full block has a word more than elements."""
    count = 40
    values = blocks(kept, count)
    sources = {"i": packed(values, beat_words), "extent": [extent(values, 0)]}
    _, when = run(Expander(BINARY32, beat_words), sources, 0, len(values) // beat_words)
    assert when[0] == 1 + 3  # the first beat is taken a cycle after the extent
    late = count // beat_words if kept == STREAM_BLOCK else 0
    assert when[-1] - when[0] <= len(values) // beat_words + late


DAMAGES = {
    "a mask bit beyond the end": lambda words, sizes, size: words.__setitem__(0, words[0] | 1 << 31),
    "a mask bit more": lambda words, sizes, size: words.__setitem__(0, words[0] | 1 << 1),
    "a mask bit less": lambda words, sizes, size: words.__setitem__(0, words[0] & ~1),
    "a beat missing": lambda words, sizes, size: words.__delitem__(slice(-size, None)),
    "a beat too many": lambda words, sizes, size: words.extend([0] * size),
    "three beats too many": lambda words, sizes, size: words.extend([1] * 3 * size),
    "a fill that is not 0": lambda words, sizes, size: words.__setitem__(-1, 1),
    "fewer elements": lambda words, sizes, size: sizes.update(elements=16),
    "more elements": lambda words, sizes, size: sizes.update(elements=128),
    "another count": lambda words, sizes, size: sizes.update(kept=sizes["kept"] + 1),
}


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("beat_words", SIZES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_refuses_what_nothing_writes(damage, beat_words, stall):
    """An error, and the last elements are not given."""
    values = np.array([1, 0, 2, 3, 0, 4, 5, 0] * 3, np.float32)
    values[-2] = 0
    words, sizes = codec.encode(values, beat_words=beat_words).tolist(), extent(values, 0)
    assert words[-1] == 0
    DAMAGES[damage](words, sizes, beat_words)
    dut = Expander(BINARY32, beat_words)
    sources = {"i": beats(words, beat_words), "extent": [sizes]}
    given, _ = run(dut, sources, stall, 1000, cycles=500, stop=dut.error)
    assert len(given) < sizes["elements"] // beat_words, f"{damage}: all {len(given)} beats were given"


def test_gives_words_as_they_are():
    """NaNs, infinities and signs pass unchanged."""
    words = np.array([0x7FC00001, 0xFF800000, 0x80000001, bits(-1.5)], np.uint32)
    dut = Expander(BINARY32, 4)
    sources = {"i": beats([0b1111, *words, 0, 0, 0], 4), "extent": [{"elements": 4, "kept": 4, "bf16": 0}]}
    assert run(dut, sources, 0, 1)[0] == beats(words, 4)
