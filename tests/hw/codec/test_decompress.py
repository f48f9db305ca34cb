"""The decompressor against the golden codec."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from etalstm import codec
from etalstm.hw.codec.decompress import Decompressor
from etalstm.hw.contract import BINARY32, STREAM_BLOCK, FloatFormat

SEED = 17
PADDING = 3  # words that may follow a stream
THRESHOLD = 0.1
SPECIAL = (0x7FC00000, 0xFF800001, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0x7F7FFFFF, 0x3F808000, 0x3F818000)
LENGTHS = {  # by stall; a stream without elements has no words, no instruction asks for one
    0.0: range(1, 201),
    0.5: [*range(1, 36), *range(63, 67), 95, 96, 97, 200],
    0.9: [*range(1, 9), *range(31, 35), 64, 65, 100],
}


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


def as_words(words):
    return [{"word": int(word), "last": n == len(words) - 1} for n, word in enumerate(words)]


def padded(values, bf16, padding=0):
    return as_words(np.append(codec.encode(values, THRESHOLD, bf16), np.zeros(padding, np.uint32)))


def extent(values, bf16):
    kept = int(codec.kept_by_block(values, THRESHOLD).sum())
    return {"elements": len(values), "kept": kept, "bf16": int(bf16)}


def check(got, expected):
    for n, (actual, want) in enumerate(zip(got, expected, strict=False)):
        assert actual == want, f"seed {SEED}, word {n}: {actual}, expected {want}"
    assert len(got) == len(expected), f"{len(got)} words, expected {len(expected)}"


def streams(stall, bf16):
    """Streams of every length, each with one of the densities; those around whole blocks with all of them."""
    rng = np.random.default_rng(SEED)
    densities = (0.0, 1.0, None)
    for n in LENGTHS[stall]:
        for density in densities if n % STREAM_BLOCK < 2 else [densities[(n + bf16) % 3]]:
            yield elements(n, rng.random() if density is None else density, rng)


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("bf16", [0, 1])
def test_decompressor_gives_the_golden_elements(bf16, stall):
    expected, words, extents = [], [], []
    for n, values in enumerate(streams(stall, bf16)):
        encoded = codec.encode(values, THRESHOLD, bf16)
        expected += as_words(codec.decode(encoded, len(values), bf16).view(np.uint32))
        words += padded(values, bf16, n % (PADDING + 1))
        extents.append(extent(values, bf16))
    dut = Decompressor(BINARY32, PADDING)
    got, _ = run(dut, {"i": words, "extent": extents}, stall, len(expected))
    check(got, expected)


def blocks(kept, count=40):
    """Elements of which the last `kept` of every block are kept."""
    return np.tile(np.repeat([0, 1], [STREAM_BLOCK - kept, kept]), count).astype(np.float32)


@pytest.mark.parametrize(("kept", "bf16", "cycles"), [(32, 0, 33), (31, 0, 33), (0, 0, 32), (32, 1, 32), (7, 1, 33)])
def test_decompressor_gives_an_element_a_cycle(kept, bf16, cycles):
    """All but the mask after a block whose last element needs the block's last word costs nothing."""
    values = blocks(kept)
    dut = Decompressor(BINARY32, PADDING)
    _, when = run(dut, {"i": padded(values, bf16), "extent": [extent(values, bf16)]}, 0, len(values))
    assert when[-1] - when[0] == 39 * cycles + 31


def test_the_first_element_follows_the_mask_by_two_cycles():
    dut = Decompressor(BINARY32, PADDING)
    values = np.ones(STREAM_BLOCK, np.float32)
    _, when = run(dut, {"i": padded(values, 0), "extent": [extent(values, 0)]}, 0, STREAM_BLOCK)
    assert when[0] == 1 + 2  # the mask is taken 1 cycle after the extent


DAMAGES = {
    "a mask bit beyond the end": lambda words, sizes: words[0].update(word=words[0]["word"] | 1 << 31),
    "a mask bit more": lambda words, sizes: words[0].update(word=words[0]["word"] | 1 << 1),
    "a mask bit less": lambda words, sizes: words[0].update(word=words[0]["word"] & ~1),
    "one word missing": lambda words, sizes: (words.pop(), words[-1].update(last=True)),
    "only the mask": lambda words, sizes: (words.__delitem__(slice(1, None)), words[-1].update(last=True)),
    "a beat too many": lambda words, sizes: (
        words[-1].update(last=False),
        words.extend(as_words([0] * (PADDING + 1))),
    ),
    "padding that is not 0": lambda words, sizes: (words[-1].update(last=False), words.extend(as_words([1]))),
    "fewer elements": lambda words, sizes: sizes.update(elements=20),
    "more elements": lambda words, sizes: sizes.update(elements=64),
    "another count": lambda words, sizes: sizes.update(kept=sizes["kept"] + 1),
}


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize("damage", DAMAGES)
def test_decompressor_refuses_what_nothing_writes(damage, bf16, stall):
    """An error, and the last element is not given."""
    values = np.array([1, 0, 2, 3, 0] * 5, np.float32)  # 15 kept: an odd number
    words, sizes = padded(values, bf16), extent(values, bf16)
    DAMAGES[damage](words, sizes)
    dut = Decompressor(BINARY32, PADDING)
    got, _ = run(dut, {"i": words, "extent": [sizes]}, stall, 1000, cycles=2000, stop=dut.error)
    assert len(got) < sizes["elements"], f"{damage}: all {len(got)} elements were given"


def test_decompressor_refuses_a_half_word_that_nothing_fills():
    words = as_words([0b1, 0x00013F80])
    dut = Decompressor(BINARY32, PADDING)
    sizes = {"elements": 25, "kept": 1, "bf16": 1}
    assert len(run(dut, {"i": words, "extent": [sizes]}, 0, 100, cycles=200, stop=dut.error)[0]) < 25


def test_a_mask_must_be_a_word():
    with pytest.raises(ValueError, match="words of 32 bits with long fractions, got FloatFormat"):
        Decompressor(FloatFormat(exponent=5, mantissa=10), PADDING)
