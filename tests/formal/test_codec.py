"""Compressor and Decompressor: what is decompressed is what was compressed."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Cover, Module, Mux, Signal

from tests.formal.harness import Scoreboard, bits, payload, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, bounded

_WIDTH = 4  # bits of a word, and elements of a block
_BEATS = 5  # of a stream
_SMALL = (
    Change("etalstm_hw.contract.streams", "STREAM_BLOCK = 32", f"STREAM_BLOCK = {_WIDTH}"),
    Change("etalstm_hw.contract.floats", "if not 3 <= self.exponent", "if not 0 <= self.exponent"),
    Change("etalstm_hw.codec.compress", "max(4, (STREAM_BLOCK", "max(2, (STREAM_BLOCK"),
)


def _drive(m, *inputs):
    """Let inputs take any value in every cycle."""
    m.d.comb += [bits(value).eq(AnySeq(len(bits(value)))) for value in inputs]


def _join(m, compressor, decompressor):
    """Let the beats through in the cycles that the solver chooses."""
    between, entry, flows = compressor.o, decompressor.i, Signal(name="flows")
    stream_out(m, between, name="between")
    _drive(m, flows)
    m.d.comb += [
        entry.p.data.eq(between.p.data),
        entry.p.last.eq(between.p.last),
        entry.valid.eq(between.valid & flows),
        between.ready.eq(entry.ready & flows),
    ]


def _announce(m, compressor, stream_size, beats, words, bf16):
    """Tell the decompressor what the compressor will have said at the end of the stream."""
    kept = Signal(_WIDTH)
    m.d.comb += [
        kept.eq(AnyConst(_WIDTH)),
        Assume(~(compressor.o.valid & compressor.o.p.last) | (compressor.o.p.kept == kept)),
        stream_size.p.elements.eq(beats * words),
        stream_size.p.kept.eq(kept),
        stream_size.p.bf16.eq(bf16),
    ]


def _expected(m, load, format_, data, words, bf16):
    """Give the words of a beat as they must come out: without zeros' signs, rounded with bf16."""
    half, chosen = _WIDTH // 2, []
    for n in range(words):
        word = data.word_select(n, _WIDTH)
        rounded = Cat(Const(0, half), load("etalstm_hw.fp.format").round_to_half(format_, word))
        chosen.append(Mux(word[:-1] == 0, 0, Mux(bf16, rounded, word))[:_WIDTH])
    return Cat(chosen)


def _round_trip(load, beat_words, words):
    """Compress streams of up to 5 beats, decompress them, and follow one element.

    Words of 4 bits and blocks of 4 elements: a mask fills a word. The compressor's rows wrap after two blocks. The
    Selector is proved with thresholds, so here the threshold is 0. Words are copied, so their lower halves are 0 at the
    input. All streams of a run have the same length and format. Stalls come at the input, between both, and at the
    output.
    """
    format_, buffered = load("etalstm_hw.contract").FloatFormat(0, 3), load("etalstm_hw.codec.buffered")
    m = Module()
    m.submodules.compressor = compressor = buffered.BufferedCompressor(format_, beat_words, words)
    m.submodules.decompressor = decompressor = buffered.BufferedDecompressor(format_, beat_words, words)
    i, o, stream_size = compressor.i, decompressor.o, decompressor.stream_size
    _drive(m, i.valid, i.p, o.ready, stream_size.valid)
    _join(m, compressor, decompressor)
    bf16, beats, at = Signal(), Signal(range(_BEATS + 1)), Signal(range(_BEATS))
    lane = Signal(range(beat_words))
    _announce(m, compressor, stream_size, beats, beat_words, bf16)
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    data = _expected(m, load, format_, i.p.data, beat_words, bf16)
    m.d.comb += [
        *(signal.eq(AnyConst(len(signal))) for signal in (bf16, beats, lane)),
        compressor.bf16.eq(bf16),
        Assume((beats != 0) & (beats <= _BEATS)),
        Assume(~i.valid | (i.p.last == (at + 1 == beats))),
        *(Assume(i.p.data.word_select(n, _WIDTH)[: _WIDTH // 2] == 0) for n in range(beat_words)),
        Assert(~decompressor.error),
        Cover(given & o.p.last & (beats == 3) & bf16 & o.p.data[-1] & o.p.data[_WIDTH - 1]),
        Cover(given & o.p.last & (beats == 3) & ~bf16 & o.p.data[-1] & ~o.p.data[:_WIDTH].any()),
    ]
    with m.If(taken):
        m.d.sync += at.eq(Mux(i.p.last, 0, at + 1))
    Scoreboard(
        m,
        enters=taken,
        expected=payload(data.word_select(lane, _WIDTH), i.p.last),
        leaves=given,
        actual=payload(o.p.data.word_select(lane, _WIDTH), o.p.last),
        capacity=16,
    )
    return m


def wide(load):
    """Follow one element of beats of two words."""
    return _round_trip(load, 2, 2)


def _compress(old, new, survives=""):
    return Mutant("etalstm_hw.codec.compress", old, new, survives)


def _decompress(old, new, survives=""):
    return Mutant("etalstm_hw.codec.decompress", old, new, survives)


PROOFS = [
    Proof(
        name="Codec",
        build=wide,
        claim="what is decompressed is what was compressed, of streams of up to 5 beats; no error is found in them",
        method=bounded(14),
        reach=14,
        small=_SMALL,
        mutants=(
            _compress("used < lines - 1", "used < lines"),
            _compress("address + first)", "address)"),
            _compress("Mux(first, address, mask_address)), first.eq(0)]", "address), first.eq(0)]"),
            _compress("total.eq(total + kept.count)", "total.eq(total + count)"),
            _compress(
                "with m.If(masking):\n            m.d.sync += mask.eq(0)",
                "with m.If(0):\n            m.d.sync += mask.eq(0)",
            ),
            _compress("halves_there[0] & ~ends)", "halves_there[0])"),
            _compress("(halves_there + ends) >> 1", "halves_there >> 1"),
            _compress("start[shift:] + wraps", "start[shift:]"),
            _compress("filled = last & partial", "filled = partial"),
            _compress("ending.eq(0), total.eq(0)", "ending.eq(0)"),
            _compress("address.eq((end + partial) << shift)", "address.eq(end << shift)"),
            _decompress("odd.eq(bf16 & behind[0] & (", "odd.eq(bf16 & ("),
            _decompress("kept.eq(kept - needed)", "kept.eq(kept)"),
            _decompress("mask_beats.eq(mask_beats - 1)", "mask_beats.eq(mask_beats)"),
            _decompress("with m.If(used >> beat_shift):", "with m.If(0):"),
            _decompress("narrow_sum(m, start, before, name", "narrow_sum(m, C(0, 1), before, name"),
            _decompress("elements.append(Mux(mask[n], element, 0))", "elements.append(element)"),
            _decompress("(final | (rest != 2))", "1"),
            _decompress(
                "with m.If(closes):\n            m.d.sync += [ended.eq(0), dropped",
                "with m.If(0):\n            m.d.sync += [ended.eq(0), dropped",
            ),
        ),
    ),
]


def test_proof(task, prove):
    prove(task)
