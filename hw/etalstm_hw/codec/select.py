"""Moves the elements of a beat that are to be kept together."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.codec.words import Beat
from etalstm_hw.contract import STREAM_BLOCK, FloatFormat
from etalstm_hw.fp.format import round_to_half


def mask_is_a_word(format: FloatFormat):
    """Raise ``ValueError`` unless a block's mask fills a word, and half a word can hold sign and exponent."""
    if format.width != STREAM_BLOCK or format.mantissa <= format.width // 2:
        raise ValueError(f"a compressed stream needs words of {STREAM_BLOCK} bits with long fractions, got {format}")


class KeptBeat(data.StructLayout):
    """What is kept of a beat of elements.

    Members
    -------
    words : the kept elements, in order; with bf16 as half words; anything behind them
    count : how many
    keep : for each element of the beat, whether it is
    bf16, last : as with the beat
    """

    def __init__(self, word_bits: int, beat_words: int):
        words = data.ArrayLayout(word_bits, beat_words)
        super().__init__({"words": words, "count": range(beat_words + 1), "keep": beat_words, "bf16": 1, "last": 1})


class Selector(wiring.Component):
    """Decides which elements are kept, and moves them to the front: a beat a cycle, latency 2 cycles.

    An element x is dropped if it is ±0 or ``|x| < threshold``, compared as integers; NaNs are kept.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words : int
        Words of a beat.

    Members
    -------
    i : :py:`In(stream.Signature(Beat(32 * beat_words)))`
    threshold : :py:`In(32)`
        A float that is not negative; looked at with each beat.
    bf16 : :py:`In(1)`
        Round what is kept to half a word; looked at with each beat.
    o : :py:`Out(stream.Signature(KeptBeat(32, beat_words)))`
    """

    def __init__(self, format: FloatFormat, beat_words: int):
        mask_is_a_word(format)
        self._format, self._words = format, beat_words
        super().__init__(
            {
                "i": In(stream.Signature(Beat(format.width * beat_words))),
                "threshold": In(format.width),
                "bf16": In(1),
                "o": Out(stream.Signature(KeptBeat(format.width, beat_words))),
            }
        )

    def elaborate(self, platform):
        """One stage compares and rounds, the next one moves."""
        m = Module()
        width, words, out = self._format.width, self._words, self.o.p
        elements = Signal(data.ArrayLayout(width, words), reset_less=True)
        keep, bf16, last = Signal(words), Signal(), Signal()
        valid, leaves, enters = Signal(), ~self.o.valid | self.o.ready, Signal()
        m.d.comb += [enters.eq(~valid | leaves), self.i.ready.eq(enters)]
        with m.If(enters):
            m.d.sync += [valid.eq(self.i.valid), bf16.eq(self.bf16), last.eq(self.i.p.last)]
            for n in range(words):
                word = self.i.p.data.word_select(n, width)
                magnitude = word[:-1]
                m.d.sync += [
                    elements[n].eq(Mux(self.bf16, round_to_half(self._format, word), word)),
                    keep[n].eq(magnitude.any() & ((magnitude >= self.threshold[:-1]) | self.threshold[-1])),
                ]
        with m.If(leaves):
            m.d.sync += [self.o.valid.eq(valid), out.bf16.eq(bf16), out.last.eq(last)]
            m.d.sync += [out.keep.eq(keep), out.count.eq(sum(keep))]
            for n, word in enumerate(self._together(m, elements, keep)):
                m.d.sync += out.words[n].eq(word)
        return m

    def _together(self, m, elements, keep):
        """Move each kept element down by as many words as elements before it were dropped, by powers of two.

        No two of them meet: one that follows another is moved as far, or farther by no more than what lies between.
        """
        count, line = len(keep), list(elements)
        there = list(keep)
        ways = [sum(~keep[:n], start=Const(0, 1)) for n in range(count)]
        for digit in range((count - 1).bit_length()):
            step, moves = 1 << digit, []
            for n in range(count):
                move = Signal(name=f"move{digit}_{n}")
                m.d.comb += move.eq(there[n] & (ways[n] >> digit)[0])
                moves.append(move)
            comes = [moves[n + step] if n + step < count else Const(0) for n in range(count)]
            source = [min(n + step, count - 1) for n in range(count)]
            there = [comes[n] | (there[n] & ~moves[n]) for n in range(count)]
            ways = [Mux(comes[n], ways[source[n]], ways[n]) for n in range(count)]
            line = [Mux(comes[n], line[source[n]], line[n]) for n in range(count)]
        return line
