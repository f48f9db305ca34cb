"""Unpacker and Packer: the words of beats, in order, none lost."""

from amaranth.hdl import Assert, Cover, Mux, Signal

from tests.formal.harness import bench, stream_in, stream_out
from tests.formal.prove import Mutant, Proof, pdr

_WORD_BITS, _BEAT_WORDS = 2, 4


def unpacker(load):
    """Count the words given of the beat at the input; words of 2 bits, four to a beat: words are copied."""
    unit = load("etalstm_hw.codec.words").Unpacker(_WORD_BITS, _BEAT_WORDS)
    m = bench(unit)
    i, o, number = unit.i, unit.o, Signal(range(_BEAT_WORDS + 1))
    taken = stream_in(m, i, name="i")
    given = stream_out(m, o, name="o")
    ends = number == _BEAT_WORDS - 1
    m.d.comb += [
        Assert(o.valid == i.valid),
        Assert(~o.valid | (o.p.word == i.p.data.word_select(number[:2], _WORD_BITS))),
        Assert(~o.valid | (o.p.last == (i.p.last & ends))),
        Assert(taken == (given & ends)),
        Cover(taken & o.p.last & (o.p.word == 3)),
    ]
    with m.If(given):
        m.d.sync += number.eq(Mux(ends, 0, number + 1))
    return m


def packer(load):
    """Collect the words anew; words of 2 bits, four to a beat: words are copied."""
    unit = load("etalstm_hw.codec.words").Packer(_WORD_BITS, _BEAT_WORDS)
    m = bench(unit)
    i, o = unit.i, unit.o
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    beat, last, full, number = Signal(_WORD_BITS * _BEAT_WORDS), Signal(), Signal(), Signal(range(_BEAT_WORDS))
    m.d.comb += [
        Assert(o.valid == full),
        Assert(~o.valid | ((o.p.data == beat) & (o.p.last == last))),
        Assert(i.ready == (~full | o.ready)),
        Cover(given & taken & o.p.last & (o.p.data == 0xE)),
        Cover(given & ~o.p.last & (o.p.data == 0xE4)),
    ]
    shifted = i.p.word << (number << 1)
    with m.If(given):
        m.d.sync += full.eq(0)
    with m.If(taken):
        ends = i.p.last | (number == _BEAT_WORDS - 1)
        m.d.sync += [beat.eq(Mux(number == 0, 0, beat) | shifted), last.eq(i.p.last)]
        m.d.sync += [full.eq(ends), number.eq(Mux(ends, 0, number + 1))]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.codec.words", old, new, survives)


PROOFS = [
    Proof(
        name="Unpacker",
        build=unpacker,
        claim="the words of each beat in order, last with the last one; the beat is taken with it",
        method=pdr(),
        reach=8,
        quick=True,
        mutants=(
            _mutant("ends.eq(number == self._beat_words - 1)", "ends.eq(number == self._beat_words - 2)"),
            _mutant("self.o.p.last.eq(self.i.p.last & ends)", "self.o.p.last.eq(self.i.p.last)"),
            _mutant("self.i.ready.eq(self.o.ready & ends)", "self.i.ready.eq(ends)"),
            _mutant("self.o.valid & self.o.ready", "self.o.valid"),
            _mutant("self.o.p.word.eq(words[number])", "self.o.p.word.eq(words[~number])"),
            _mutant("self.o.valid.eq(self.i.valid)", "self.o.valid.eq(1)"),
        ),
    ),
    Proof(
        name="Packer",
        build=packer,
        claim="each beat has its words in order and zeros behind the last one; full beats stall",
        method=pdr(),
        reach=12,
        quick=True,
        mutants=(
            _mutant("with m.If(number == 0):", "with m.If(0):"),
            _mutant("self.i.ready.eq(~full | self.o.ready)", "self.i.ready.eq(1)"),
            _mutant("self.i.ready.eq(~full | self.o.ready)", "self.i.ready.eq(~full)"),
            _mutant("with m.If(self.o.ready):", "with m.If(self.o.ready & ~self.i.valid):"),
            _mutant("last.eq(self.i.p.last)]", "last.eq(1)]"),
            _mutant("self.i.p.last | (number == self._beat_words - 1)", "number == self._beat_words - 1"),
            _mutant("self.i.p.last | (number == self._beat_words - 1)", "self.i.p.last"),
            _mutant("full.eq(1), number.eq(0)", "full.eq(1)"),
        ),
    ),
]


def test_proof(task, prove):
    prove(task)
