"""Puts the elements of a compressed stream back where they were, a beat of them at a time."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.codec.select import mask_is_a_word
from etalstm_hw.codec.words import Beat
from etalstm_hw.contract import STREAM_BLOCK, FloatFormat
from etalstm_hw.narrow import narrow_at_most, narrow_sum, ones


class StreamSize(data.StructLayout):
    """What must be known of a stream before its first word.

    Members
    -------
    elements : how many there are, at least 1
    kept : how many of them are kept
    bf16 : kept elements are half words, packed by two
    """

    def __init__(self, word_bits: int):
        super().__init__({"elements": word_bits, "kept": word_bits, "bf16": 1})


def decompressor_ports(format: FloatFormat, beat_words: int) -> dict:
    """Give the ports of every decompressor; :class:`Decompressor` says what they are."""
    beat = stream.Signature(Beat(format.width * beat_words))
    size = stream.Signature(StreamSize(format.width))
    return {"stream_size": In(size), "i": In(beat), "o": Out(beat), "error": Out(1)}


class Decompressor(wiring.Component):
    """Turns the beats of a compressed stream into beats of its elements, zeros where nothing was kept.

    ::

        i ── window: two beats, used up to `first` ─┬─ mask ── its lowest bits say which words the next beat keeps
                                                    └─ a multiplexer for each word of a beat ── o

    A beat of elements a cycle, as long as the stream keeps up: where everything was kept, 32 elements are 33 words. The
    first comes out 3 cycles after the stream's first beat went in; between two streams 3 cycles are lost. A stalled
    output stalls the input.

    A stream ends with its beat marked ``last``; up to ``padding`` beats may follow the one with its last word. The last
    elements come out only if it has ended as it should. A mask bit beyond the last element, a stream that is too short
    or too long, a fill that is not 0 and a number of kept elements that is not the one announced set ``error``: from
    then on no beat is taken or made, until reset.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words : int
        Words of a beat: 2, 4, 8, 16 or 32.
    padding : int
        Beats, less one, to whose multiple streams are filled up.
    halves : bool
        Streams may be bf16; without, ``bf16`` of their sizes is not looked at.

    Members
    -------
    stream_size : :py:`In(stream.Signature(StreamSize(32)))`
        Taken when the stream before has ended. ``elements`` is a multiple of ``beat_words``.
    i, o : stream of :py:`Beat(32 * beat_words)`
    error : :py:`Out(1)`
    """

    def __init__(self, format: FloatFormat, beat_words: int, padding: int = 0, halves: bool = True):
        mask_is_a_word(format)
        self._width, self._words, self._padding = format.width, beat_words, padding
        self._mask_beats = STREAM_BLOCK // beat_words  # beats of elements of a mask
        self._units = 2 if halves else 1  # of a word; positions in the window count units
        super().__init__(decompressor_ports(format, beat_words))

    def elaborate(self, platform):
        """Three stages: the window is filled; the next beat of elements is measured and judged; that beat is put out.

        The words of the next beat of elements lie in the window from `first` on. The last beat of a mask is taken with
        the next mask. Positions and sizes count units: ``>> word_shift`` makes words of them.

        Whether a beat is taken is known late. What follows from it is computed for both cases and then selected.
        """
        m = Module()
        words, units = self._words, self._units
        word_shift, beat_shift = units.bit_length() - 1, (units * words).bit_length() - 1
        # The window: its words, how many beats there are, the first unit that is not used up.
        window, have, first = Signal(data.ArrayLayout(self._width, 2 * words)), Signal(range(3)), Signal(beat_shift)
        # What is left: of a mask its bits and beats, of the stream beats and kept elements.
        mask, mask_beats = Signal(STREAM_BLOCK), Signal(range(self._mask_beats + 1))
        beats, kept = (Signal(self._width, name=name) for name in ("beats", "kept"))
        active, ended, bf16 = Signal(), Signal(), Signal() if units > 1 else C(0)
        last, near = Signal(), Signal()  # one beat is left; fewer are left than a mask is about
        # The next beat: its kept elements, the unit behind them, the unit and the word behind all that it takes.
        needed, behind, after, used = (Signal(range(2 * units * words + 1)) for _ in range(4))
        level, end = Signal(range(2 * words + 1)), Signal(range(2 * words + 1))
        masked, beat_there, mask_there, odd = (Signal() for _ in range(4))
        words_needed = Signal(range(2 * words + 2))
        # This cycle: a beat is put out, a mask is taken, the stream is over.
        takes, fetches, closes, rest = Signal(), Signal(), Signal(), Signal(range(3))  # `rest` beats stay

        # Measure
        m.d.comb += [
            masked.eq(mask_beats != 0),
            needed.eq(ones(m, mask[:words], name="kept_ones")),
            level.eq(have << (words.bit_length() - 1)),
            behind.eq(narrow_sum(m, first, Mux(bf16, needed, needed << word_shift), name="all_units")),
            odd.eq(bf16 & behind[0] & ((mask_beats == 1) | last)),  # a block's last word is filled up
            after.eq(narrow_sum(m, behind, odd, name="filled_units")),
            end.eq(after >> word_shift),
            words_needed.eq(narrow_sum(m, after, C(units - 1, 1), name="begun_words") >> word_shift),
            beat_there.eq(masked & narrow_at_most(m, words_needed, level, name="beat")),
            mask_there.eq(~narrow_at_most(m, level, end, name="mask")),
        ]

        # Take
        with_beat, alone = mask_there & (mask_beats == 1) & ~last, mask_there & ~masked & active & ~self.error
        used_by = [
            narrow_sum(m, place, fetched << word_shift, name=f"used_{name}")
            for name, place, fetched in (("there", first, alone), ("behind", after, with_beat))
        ]
        rests = [Mux(by[beat_shift:] == 0, have, (have == 2) & (by[beat_shift:] == 1)) for by in used_by]
        m.d.comb += [
            fetches.eq(Mux(takes, with_beat, alone)),
            used.eq(Mux(takes, *reversed(used_by))),
            rest.eq(Mux(takes, *reversed(rests))),
            closes.eq(takes & last),
            self.stream_size.ready.eq(~active),
        ]
        announced = self.stream_size.p.elements >> (words.bit_length() - 1)
        with m.If(~active):  # they mean nothing without a mask
            m.d.sync += [last.eq(announced == 1), near.eq(~announced[self._mask_beats.bit_length() - 1 :].any())]
        with m.If(takes):
            m.d.sync += [beats.eq(beats - 1), last.eq(beats == 2), near.eq(near | (beats == self._mask_beats))]
            m.d.sync += [kept.eq(kept - needed), mask.eq(mask >> words), mask_beats.eq(mask_beats - 1)]
        with m.If(fetches):
            m.d.sync += [mask.eq(Array(window)[end[: words.bit_length()]]), mask_beats.eq(self._mask_beats)]
        with m.If(closes):
            m.d.sync += [active.eq(0), mask.eq(0), mask_beats.eq(0)]
        with m.If(self.stream_size.valid & self.stream_size.ready):
            size = self.stream_size.p
            m.d.sync += [active.eq(1), beats.eq(announced), kept.eq(size.kept)]
            if units > 1:
                m.d.sync += bf16.eq(size.bf16)

        # Fill
        final = beat_there & last
        dropped, long = self._fill(m, window, have, rest, first, used, beat_shift, ended, active, final, closes)

        # Judge
        pieces = Array(window.as_value().word_select(n, self._width // units) for n in range(2 * units * words))
        # The half that fills a word up is not 0.
        unpaired = odd & Array(piece.any() for piece in pieces)[behind[: beat_shift + 1]]
        short = ended & ~Mux(masked, beat_there, mask_there)
        good = self._exact(m, window, end, level, dropped) & (kept == needed) & ~unpaired
        whole = self._judge(m, mask, beats, last, near, short | long | (takes & unpaired), final & ended, good)

        # Put out
        m.d.comb += takes.eq(beat_there & whole & ~self.error & (~self.o.valid | self.o.ready))
        self._put_out(m, window, pieces, bf16, mask, first, takes, last)
        return m

    def _fill(self, m, window, have, rest, first, used, beat_shift, ended, active, final, closes):
        """Drop the beats of the window that are used up, and take the next beat in behind the others.

        From `final` on, when the last beat of elements is there, the beats that come only fill the stream up. They are
        dropped. Give how many they were, and whether this one is one too many or not 0.
        """
        bits = len(self.i.p.data)
        dropped = Signal(range(self._padding + 2))
        lower, upper = window.as_value()[:bits], window.as_value()[bits:]
        taken = self.i.valid & self.i.ready
        m.d.comb += self.i.ready.eq(active & ~ended & ~self.error & (final | (rest != 2)))
        m.d.sync += [have.eq(Mux(closes, 0, rest)), first.eq(Mux(closes, 0, used[:beat_shift]))]
        with m.If(used >> beat_shift):
            m.d.sync += lower.eq(upper)
        with m.If(closes):
            m.d.sync += [ended.eq(0), dropped.eq(0)]
        with m.If(taken):
            m.d.sync += ended.eq(self.i.p.last)
            with m.If(final):
                m.d.sync += dropped.eq(dropped + 1)
            with m.Else():
                m.d.sync += have.eq(rest + 1)
                with m.If(rest == 0):
                    m.d.sync += lower.eq(self.i.p.data)
                with m.Else():
                    m.d.sync += upper.eq(self.i.p.data)
        return dropped, taken & final & ((dropped == self._padding) | self.i.p.data.any())

    def _exact(self, m, window, end, level, dropped):
        """Give whether from word `end` of the window on there are only zeros, no more than fill the last beats up."""
        fill = Cat(
            word.any() & narrow_at_most(m, end, C(n, len(end)), name=f"end{n}") & (level > n)
            for n, word in enumerate(window)
        )
        words_shift, most = self._words.bit_length() - 1, (self._padding + 1) * self._words - 1
        there = narrow_sum(m, level, dropped << words_shift, name="words_there")
        allowed = narrow_sum(m, end, C(most), name="words_allowed")
        return ~fill.any() & narrow_at_most(m, there, allowed, name="fill")

    def _judge(self, m, mask, beats, last, near, misfit, final, good):
        """Set ``error`` at a fault, and give whether the next beat may be put out.

        The last beat of the stream may be put out once the stream has ended (`final`) and was `good` a cycle ago.
        """
        few = beats[: self._mask_beats.bit_length() - 1]
        beyond = Cat(
            mask.word_select(n, self._words).any() & narrow_at_most(m, few, C(n, len(few)), name=f"few{n}")
            for n in range(self._mask_beats)
        )
        fits, inside = Signal(), Signal()
        m.d.comb += inside.eq(~(near & beyond.any()))
        m.d.sync += fits.eq(final & good)
        with m.If(~inside | misfit | (final & ~good)):
            m.d.sync += self.error.eq(1)
        return inside & (~last | (final & fits))

    def _put_out(self, m, window, pieces, bf16, mask, first, takes, last):
        """Put the next beat into the output register."""
        elements = []
        for n in range(self._words):
            before = ones(m, mask[:n], name=f"before{n}")
            start = first >> (self._units.bit_length() - 1)
            element = Array(window)[narrow_sum(m, start, before, name=f"source{n}")]
            if self._units > 1:
                piece = narrow_sum(m, first, before, name=f"piece{n}")
                element = Mux(bf16, pieces[piece] << self._width // 2, element)
            elements.append(Mux(mask[n], element, 0))
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(takes):
            m.d.sync += [self.o.valid.eq(1), self.o.p.last.eq(last)]
            for n, element in enumerate(elements):
                m.d.sync += self.o.p.data.word_select(n, self._width).eq(element)
