"""The decompressors against the golden codec."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from etalstm.formats import codec
from etalstm_hw.codec.buffered import BufferedDecompressor
from etalstm_hw.codec.decompress import Decompressor
from etalstm_hw.contract import BINARY32, STREAM_BLOCK, FloatFormat

SEED = 17
THRESHOLD = 0.1
SPECIAL = (0x7FC00000, 0xFF800001, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0x7F7FFFFF, 0x3F808000, 0x3F818000)
SIZES = [(4, 4), (8, 8), (4, 2), (8, 2)]  # words of a beat, and those of a cycle
LENGTHS = {0.0: [*range(1, 10), 16, 17, 33], 0.9: [1, 2, 3, 9]}  # beats, by stall


def bits(value):
    """The word of a float32."""
    return int(np.float32(value).view(np.uint32))


def elements(length, density, rng):
    """Float32 values, some special, of which the share `density` is kept at THRESHOLD."""
    values = rng.uniform(THRESHOLD, 2, length) * rng.choice([-1, 1], length)
    special = np.array(SPECIAL, np.uint32).view(np.float32)[rng.integers(len(SPECIAL), size=length)]
    values = np.where(rng.random(length) < 0.05, special, values.astype(np.float32))
    small = rng.choice([0.0, -0.0, THRESHOLD * 0.999, -1e-3], length)
    return np.where(rng.random(length) < density, values, small.astype(np.float32))


def run(dut, sources, stall, wanted, *, setup=None, cycles=None, stop=None):
    """Feed streams of payloads; give the payloads that come out of ``o``, and the cycle of each.

    ``sources`` maps a member to its payloads. Ends after `wanted` payloads, `cycles` cycles, or when `stop` is set.
    """
    out, when = [], []

    def feeder(name, payloads):
        async def feed(ctx):
            rng, member = random.Random(f"{SEED} {name}"), getattr(dut, name)
            for payload in payloads:
                while rng.random() < stall:
                    await ctx.tick()
                ctx.set(member.payload, payload)
                ctx.set(member.valid, 1)
                while not (await ctx.tick().sample(member.ready))[-1]:
                    pass
                ctx.set(member.valid, 0)

        return feed

    async def sink(ctx):
        rng, shape = random.Random(SEED), dut.o.payload.shape()
        if setup:
            setup(ctx)
        for cycle in range(cycles or int(40 * wanted / (1 - stall)) + 200):
            ctx.set(dut.o.ready, rng.random() >= stall)
            _, _, taken, payload, ended = await ctx.tick().sample(
                dut.o.valid & dut.o.ready, dut.o.payload, 0 if stop is None else stop
            )
            if taken:
                out.append({name: payload[name] for name in shape.members})
                when.append(cycle)
            if len(out) == wanted or ended:
                return
        assert stop is None, f"no error after {cycle + 1} cycles"

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for name, payloads in sources.items():
        simulator.add_testbench(feeder(name, payloads), background=True)
    simulator.add_testbench(sink)
    simulator.run()
    return out, when


def stream_size(values, bf16=0):
    kept = int(codec.kept_by_block(values, THRESHOLD).sum())
    return {"elements": len(values), "kept": kept, "bf16": int(bf16)}


def beats(words, beat_words):
    """Beats of words, the last one marked."""
    rows = np.asarray(words, np.uint32).reshape(-1, beat_words)
    return [{"data": int.from_bytes(row.tobytes(), "little"), "last": n == len(rows) - 1} for n, row in enumerate(rows)]


def blocks(kept, count=40):
    """Elements of which the last `kept` of every block are kept."""
    return np.tile(np.repeat([0, 1], [STREAM_BLOCK - kept, kept]), count).astype(np.float32)


@pytest.mark.parametrize("stall", LENGTHS)
@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize(("beat_words", "words"), SIZES)
def test_gives_the_golden_elements(beat_words, words, bf16, stall):
    rng, expected, data, stream_sizes = np.random.default_rng(SEED), [], [], []
    for length in LENGTHS[stall]:
        for density in (0.0, 1.0, rng.random()):
            values = elements(length * beat_words, density, rng)
            encoded = codec.encode(values, THRESHOLD, bf16, beat_words=beat_words)
            data += beats(encoded, beat_words)
            expected += beats(codec.decode(encoded, len(values), bf16, beat_words).view(np.uint32), beat_words)
            stream_sizes.append(stream_size(values, bf16))
    sources = {"i": data, "stream_size": stream_sizes}
    got, _ = run(BufferedDecompressor(BINARY32, beat_words, words), sources, stall, len(expected) * beat_words // words)
    for n, (actual, want) in enumerate(zip(got, expected, strict=False)):
        assert actual == want, f"seed {SEED}, beat {n}: {actual}, expected {want}"
    assert len(got) == len(expected), f"{len(got)} beats, expected {len(expected)}"


@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize("kept", [0, 3, 31, 32])
@pytest.mark.parametrize(("beat_words", "words"), SIZES)
def test_gives_its_words_every_cycle(beat_words, words, kept, bf16):
    """The last ones wait a cycle for the stream's end to be checked; a full block has a word more than elements."""
    count = 40
    values = blocks(kept, count)
    encoded = codec.encode(values, THRESHOLD, bf16, beat_words=beat_words)
    sources = {"i": beats(encoded, beat_words), "stream_size": [stream_size(values, bf16)]}
    dut = BufferedDecompressor(BINARY32, beat_words, words)
    given = len(values) // beat_words
    _, when = run(dut, sources, 0, given, cycles=20 * len(values))
    pieces = beat_words // words  # the packer waits for a whole beat, and the last one for the fill
    assert when[0] == 1 + 3 + (pieces if pieces > 1 else 0)  # the first beat is taken a cycle after the size
    late = count // words + 1 if kept == STREAM_BLOCK and not bf16 else 0
    assert when[-1] - when[0] <= len(values) // words + late + (pieces if pieces > 1 else 0)


DAMAGES = {
    "a mask bit beyond the end": lambda words, sizes, size: words.__setitem__(0, words[0] | 1 << 31),
    "a mask bit more": lambda words, sizes, size: words.__setitem__(0, words[0] | 1 << 1),
    "a mask bit less": lambda words, sizes, size: words.__setitem__(0, words[0] & ~1),
    "a beat missing": lambda words, sizes, size: words.__delitem__(slice(-size, None)),
    "a beat too many": lambda words, sizes, size: words.extend([0] * size),
    "three beats too many": lambda words, sizes, size: words.extend([1] * 3 * size),
    "a fill that is not 0": lambda words, sizes, size: words.__setitem__(-1, 1),
    "fewer elements": lambda words, sizes, size: sizes.update(elements=16),
    "more elements": lambda words, sizes, size: sizes.update(elements=1024),
    "another count": lambda words, sizes, size: sizes.update(kept=sizes["kept"] + 1),
}


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize(("beat_words", "words"), SIZES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_refuses_what_nothing_writes(damage, beat_words, words, bf16, stall):
    """An error, and the last elements are not given."""
    values = np.arange(1, 25, dtype=np.float32)
    values[[1, 4, 7, 10, 13, 16, 23]] = 0  # 17 are kept: two beats or more, with a fill, of a half word too
    encoded, sizes = codec.encode(values, 0, bf16, beat_words=beat_words).tolist(), stream_size(values, bf16)
    assert encoded[-1] == 0
    DAMAGES[damage](encoded, sizes, beat_words)
    dut = BufferedDecompressor(BINARY32, beat_words, words)
    sources = {"i": beats(encoded, beat_words), "stream_size": [sizes]}
    given, _ = run(dut, sources, stall, 1000, cycles=500, stop=dut.error)
    assert len(given) < sizes["elements"] // beat_words, f"{damage}: all {len(given)} beats were given"


@pytest.mark.parametrize("elements", [4, 36])
@pytest.mark.parametrize("words", [2, 4])
def test_refuses_a_half_word_that_nothing_fills(words, elements):
    """Of the last block, and of one before."""
    encoded = [0b1, 0x00013F80, 0, 0]
    dut, sizes = BufferedDecompressor(BINARY32, 4, words), {"elements": elements, "kept": 1, "bf16": 1}
    given, _ = run(dut, {"i": beats(encoded, 4), "stream_size": [sizes]}, 0, 100, cycles=200, stop=dut.error)
    assert len(given) < elements // 4


def test_gives_words_as_they_are():
    """NaNs, infinities and signs pass unchanged."""
    words = np.array([0x7FC00001, 0xFF800000, 0x80000001, bits(-1.5)], np.uint32)
    dut = Decompressor(BINARY32, 4)
    sources = {"i": beats([0b1111, *words, 0, 0, 0], 4), "stream_size": [{"elements": 4, "kept": 4, "bf16": 0}]}
    assert run(dut, sources, 0, 1)[0] == beats(words, 4)


def test_without_halves_words_stay_whole():
    values = elements(64, 0.5, np.random.default_rng(SEED))
    encoded = codec.encode(values, THRESHOLD, beat_words=8)
    sources = {"i": beats(encoded, 8), "stream_size": [stream_size(values, bf16=1)]}
    expected = beats(codec.decode(encoded, 64, beat_words=8).view(np.uint32), 8)
    assert run(Decompressor(BINARY32, 8, halves=False), sources, 0, 8)[0] == expected


def test_a_mask_must_be_a_word():
    with pytest.raises(ValueError, match="words of 32 bits with long fractions, got FloatFormat"):
        Decompressor(FloatFormat(exponent=5, mantissa=10), 4)
