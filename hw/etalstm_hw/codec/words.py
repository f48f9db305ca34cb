"""Between memory beats and streams of single words."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


class Word(data.StructLayout):
    """A word of a stream; ``last`` marks the last one."""

    def __init__(self, word_bits: int):
        super().__init__({"word": word_bits, "last": 1})


class Beat(data.StructLayout):
    """Several words of a stream, the first one lowest; ``last`` marks the last beat."""

    def __init__(self, beat_bits: int):
        super().__init__({"data": beat_bits, "last": 1})


class Unpacker(wiring.Component):
    """Cuts beats into words: no latency, one word a cycle. A stalled output stalls the input.

    Parameters
    ----------
    word_bits, beat_words : int
        ``beat_words`` is a power of two of at least 2.

    Members
    -------
    i : :py:`In(stream.Signature(Beat(beat_bits)))`
    o : :py:`Out(stream.Signature(Word(word_bits)))`
        ``last`` with the last word of a beat that has it.
    """

    def __init__(self, word_bits: int, beat_words: int):
        self._word_bits, self._beat_words = word_bits, beat_words
        super().__init__(
            {
                "i": In(stream.Signature(Beat(word_bits * beat_words))),
                "o": Out(stream.Signature(Word(word_bits))),
            }
        )

    def elaborate(self, platform):
        """The beat stays at the input until its last word is taken."""
        m = Module()
        number = Signal(range(self._beat_words))
        ends = Signal()
        words = Array(self.i.p.data.word_select(n, self._word_bits) for n in range(self._beat_words))
        m.d.comb += [
            ends.eq(number == self._beat_words - 1),
            self.o.valid.eq(self.i.valid),
            self.o.p.word.eq(words[number]),  # simulates faster than a shift of the whole beat
            self.o.p.last.eq(self.i.p.last & ends),
            self.i.ready.eq(self.o.ready & ends),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += number.eq(number + 1)
        return m


class Packer(wiring.Component):
    """Joins words to beats, the last one of a stream filled up with zeros.

    Latency 1 cycle from a beat's last word; one word a cycle. A stalled output stalls the input when a beat is full.

    Parameters
    ----------
    word_bits, beat_words : int
        ``beat_words`` is a power of two of at least 2.

    Members
    -------
    i : :py:`In(stream.Signature(Word(word_bits)))`
    o : :py:`Out(stream.Signature(Beat(beat_bits)))`
    """

    def __init__(self, word_bits: int, beat_words: int):
        self._word_bits, self._beat_words = word_bits, beat_words
        super().__init__(
            {
                "i": In(stream.Signature(Word(word_bits))),
                "o": Out(stream.Signature(Beat(word_bits * beat_words))),
            }
        )

    def elaborate(self, platform):
        """A beat's first word clears what the others have left."""
        m = Module()
        beat = Signal(self._word_bits * self._beat_words, reset_less=True)
        number = Signal(range(self._beat_words))
        last = Signal(reset_less=True)
        full = Signal()
        m.d.comb += [
            self.o.valid.eq(full),
            self.o.p.data.eq(beat),
            self.o.p.last.eq(last),
            self.i.ready.eq(~full | self.o.ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += full.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [number.eq(number + 1), last.eq(self.i.p.last)]
            with m.If(number == 0):
                m.d.sync += beat.eq(self.i.p.word)
            with m.Else():
                m.d.sync += beat.word_select(number, self._word_bits).eq(self.i.p.word)
            with m.If(self.i.p.last | (number == self._beat_words - 1)):
                m.d.sync += [full.eq(1), number.eq(0)]
        return m
