"""Decompressor: whatever stream comes, as many elements as announced come out, or an error."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import before, bench, offered, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_WIDTH = 4  # bits of a word, and elements of a block
_WORDS = 2  # of a beat
_STILL = 3  # cycles without movement


def _any_stream(load, padding):
    """Count the beats of elements, and look for the end of the stream; the stream may be anything.

    Words of 4 bits and blocks of 4 elements: a mask fills a word. So streams have up to 14 elements, and as many words
    as the solver likes. What a good stream decompresses to is proved with the codec.
    """
    unit = load("etalstm_hw.codec.decompress").Decompressor(
        load("etalstm_hw.contract").FloatFormat(0, 3), _WORDS, padding
    )
    m = bench(unit)
    i, o, stream_size = unit.i, unit.o, unit.stream_size
    taken, begins = stream_in(m, i, name="i"), stream_in(m, stream_size, name="stream_size")
    given, new = stream_out(m, o, name="o"), offered(m, o.valid, o.ready, name="o")
    left, active, ended, failed = Signal(_WIDTH), Signal(), Signal(), before(m, unit.error, name="failed")
    still = Signal(range(_STILL + 2))
    waits = active & i.valid & ~unit.error
    m.d.sync += still.eq(Mux(waits & ~taken & ~o.valid, still + 1, 0))
    m.d.comb += [
        Assume(~stream_size.valid | ((stream_size.p.elements != 0) & ~stream_size.p.elements[0])),
        Assert(~new | active),
        Assert(~new | (o.p.last == (left == 1))),
        Assert(~(new & o.p.last) | ended),
        Assert(~taken | (active & ~ended)),
        Assert(stream_size.ready == (~active | (new & o.p.last))),
        Assert(~failed | unit.error),
        Assert(~failed | ~(new | taken)),
        Assert(~(failed & active) | ~stream_size.ready),
        Assert(still <= _STILL),
        Cover(given & o.p.last & (o.p.data == 0x4C) & begins),
        Cover(unit.error & o.valid),
        Cover(unit.error & ended & (left == 1)),
    ]
    with m.If(new):
        m.d.sync += left.eq(left - 1)
        with m.If(o.p.last):
            m.d.sync += [active.eq(0), ended.eq(0)]
    with m.If(taken):
        m.d.sync += ended.eq(i.p.last)
    with m.If(begins):
        m.d.sync += [active.eq(1), left.eq(stream_size.p.elements >> 1)]
    return m


def decompressor(load):
    """Let streams end with the beat that has their last word."""
    return _any_stream(load, 0)


def padded(load):
    """Let a beat follow the one that has a stream's last word, as where beats are wider than the decompressor."""
    return _any_stream(load, 1)


_SMALL = (
    Change("etalstm_hw.contract.streams", "STREAM_BLOCK = 32", f"STREAM_BLOCK = {_WIDTH}"),
    Change("etalstm_hw.contract.floats", "if not 3 <= self.exponent", "if not 0 <= self.exponent"),
)


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.codec.decompress", old, new, survives)


PROOFS = [
    Proof(
        name="Decompressor",
        build=decompressor,
        claim="whatever stream comes, all announced elements, the last ones after its end; or an error, which stops it",
        method=pdr(),
        quick=True,
        reach=14,
        small=_SMALL,
        mutants=(
            _mutant("last.eq(announced == 1)", "last.eq(announced[:2] == 1)"),
            _mutant("last.eq(beats == 2)", "last.eq(beats[:2] == 2)"),
            _mutant("stream_size.p.elements >> (words.bit_length() - 1)", "stream_size.p.elements"),
            _mutant("active & ~ended & ~self.error & (", "active & ~self.error & ("),
            _mutant("active & ~ended & ~self.error & (", "active & ~ended & ("),
            _mutant("self.stream_size.ready.eq(~active)", "self.stream_size.ready.eq(~active | closes)"),
            _mutant("beat_there & whole & ~self.error", "beat_there & whole"),
            _mutant("(~self.o.valid | self.o.ready))\n        self._put_out", "1)\n        self._put_out"),
            _mutant("return inside & (~last | (final & fits))", "return inside"),
            _mutant("short = ended & ~Mux(masked, beat_there, mask_there)", "short = 0"),
            _mutant("self.o.p.last.eq(last)", "self.o.p.last.eq(1)"),
            _mutant(
                "m.d.sync += [active.eq(0), mask.eq(0), mask_beats.eq(0)]", "m.d.sync += [mask.eq(0), mask_beats.eq(0)]"
            ),
        ),
    ),
    Proof(
        name="PaddedDecompressor",
        build=padded,
        claim="the same of streams that are filled up with beats of zeros",
        method=pdr(),
        reach=14,
        quick=True,
        small=_SMALL,
        mutants=(
            _mutant("active & ~ended & ~self.error & (", "active & ~self.error & ("),
            _mutant(
                "self.i.ready.eq(active & ~ended & ~self.error & (final | (rest != 2)))",
                "self.i.ready.eq(active & ~ended & ~self.error & (rest != 2))",
            ),
            _mutant("return inside & (~last | (final & fits))", "return inside"),
            _mutant("dropped == self._padding", "0", "the beats of zeros are not counted in the specification"),
            _mutant("final & ended, good)", "final, good)"),
        ),
    ),
]


def test_proof(task, prove):
    prove(task)
