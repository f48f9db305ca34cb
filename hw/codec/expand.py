"""Puts the elements of a compressed stream back where they were, a beat of them at a time."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.codec.decompress import Extent
from etalstm.hw.codec.select import mask_is_a_word
from etalstm.hw.codec.words import Beat
from etalstm.hw.contract import STREAM_BLOCK, FloatFormat


class Expander(wiring.Component):
    """Turns the beats of a compressed stream into beats of its elements, zeros where nothing was kept.

    ::

        i ── window: two beats, used up to `place` ─┬─ mask ── its lowest bits say which words the next beat keeps
                                                    └─ a multiplexer for each word of a beat ── o

    A beat of elements a cycle, as long as the stream keeps up: where everything was kept, 32 elements are 33 words. The
    first comes out 3 cycles after the stream's first beat went in; between two streams 3 cycles are lost. A stalled
    output stalls the input. Kept words are whole ones, not bf16. For the one broadcaster of a machine: a channel's
    :class:`~etalstm.hw.codec.decompress.Decompressor` is a tenth of its size.

    A stream ends with its beat marked ``last``, and the last elements come out only if it has ended as it should. A
    mask bit beyond the last element, a stream that is too short or too long, a fill that is not 0 and a number of kept
    elements that is not the one announced set ``error``: from then on no beat is taken or made, until reset.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words : int
        Words of a beat: 2, 4, 8, 16 or 32.

    Members
    -------
    extent : :py:`In(stream.Signature(Extent(32)))`
        Taken when the stream before has ended. ``elements`` is a multiple of ``beat_words``, ``bf16`` is 0.
    i, o : stream of :py:`Beat(32 * beat_words)`
    error : :py:`Out(1)`
    """

    def __init__(self, format: FloatFormat, beat_words: int):
        mask_is_a_word(format)
        self._width, self._words, self._shift = format.width, beat_words, beat_words.bit_length() - 1
        self._rows = STREAM_BLOCK // beat_words  # of a mask; a row is a beat of elements
        beat = stream.Signature(Beat(format.width * beat_words))
        extent = stream.Signature(Extent(format.width))
        super().__init__({"extent": In(extent), "i": In(beat), "o": Out(beat), "error": Out(1)})

    def elaborate(self, platform):
        """The row at hand is made of the window; with a mask's last row the next mask is taken out of it too."""
        m = Module()
        words, half = self._words, self._shift
        window, have, place = Signal(data.ArrayLayout(self._width, 2 * words)), Signal(range(3)), Signal(range(words))
        mask, mask_rows = Signal(STREAM_BLOCK), Signal(range(self._rows + 1))  # what is left of a mask
        rows, kept = (Signal(self._width, name=name) for name in ("rows", "kept"))  # what is left of the stream
        active, ended = Signal(), Signal()
        needed, level, after, used = (Signal(range(2 * words + 1)) for _ in range(4))
        masked, row_there, mask_there, last = (Signal() for _ in range(4))
        takes, fetches, closes = Signal(), Signal(), Signal()
        m.d.comb += [
            masked.eq(mask_rows != 0),
            last.eq(rows == 1),
            needed.eq(sum(mask[:words])),
            level.eq(have << half),
            after.eq(place + needed),
            row_there.eq(masked & (after <= level)),
            mask_there.eq(after < level),
            fetches.eq(mask_there & ~self.error & Mux(masked, takes & (mask_rows == 1) & ~last, rows != 0)),
            used.eq(Mux(takes, after, place) + fetches),
            closes.eq(takes & last),
            self.extent.ready.eq(~active),
        ]
        with m.If(takes):
            m.d.sync += [rows.eq(rows - 1), kept.eq(kept - needed)]
            m.d.sync += [mask.eq(mask >> words), mask_rows.eq(mask_rows - 1)]
        with m.If(fetches):
            m.d.sync += [mask.eq(Array(window)[after[: half + 1]]), mask_rows.eq(self._rows)]
        with m.If(closes):
            m.d.sync += [active.eq(0), mask.eq(0), mask_rows.eq(0)]
        with m.If(self.extent.valid & self.extent.ready):
            m.d.sync += [active.eq(1), rows.eq(self.extent.p.elements >> half), kept.eq(self.extent.p.kept)]

        self._fill(m, window, have, place, used, ended, active, closes)
        good = self._exact(window, after, level) & (kept == needed)
        short = ended & ~Mux(masked, row_there, mask_there)
        long = row_there & last & ~ended & (have == 2)  # more than the beat that the last word is in
        whole = self._judge(m, mask, rows, short | long, row_there & last & ended, good)
        m.d.comb += takes.eq(row_there & whole & ~self.error & (~self.o.valid | self.o.ready))
        self._give(m, window, mask, place, takes, last)
        return m

    def _fill(self, m, window, have, place, used, ended, active, closes):
        """Drop the beats that are used up, take the next one in behind the others."""
        half, beat = self._shift, len(self.i.p.data)
        rest = Signal(range(3))
        lower, upper = window.as_value()[:beat], window.as_value()[beat:]
        m.d.comb += [
            rest.eq(have - (used >> half)),
            self.i.ready.eq(active & ~ended & ~self.error & (rest != 2)),
        ]
        m.d.sync += [have.eq(Mux(closes, 0, rest)), place.eq(Mux(closes, 0, used[:half]))]
        with m.If(used >> half):
            m.d.sync += lower.eq(upper)
        with m.If(closes):
            m.d.sync += ended.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [have.eq(rest + 1), ended.eq(self.i.p.last)]
            with m.If(rest == 0):
                m.d.sync += lower.eq(self.i.p.data)
            with m.Else():
                m.d.sync += upper.eq(self.i.p.data)

    def _exact(self, window, after, level):
        """Give whether nothing but a fill of zeros, less than a beat, follows word `after` of the window."""
        fill = Cat(word.any() & (after <= n) & (n < level) for n, word in enumerate(window))
        return ~fill.any() & (level - after < self._words)

    def _judge(self, m, mask, rows, misfit, final, good):
        """Find faults; give whether the row at hand is allowed: the last one a cycle after it was found good."""
        beyond = Cat(mask.word_select(n, self._words).any() & (rows <= n) for n in range(self._rows)).any()
        fits = Signal()
        m.d.sync += fits.eq(final & good)
        with m.If(beyond | misfit | (final & ~good)):
            m.d.sync += self.error.eq(1)
        return ~beyond & ((rows != 1) | (final & fits))

    def _give(self, m, window, mask, place, takes, last):
        """Put the row at hand into the output register."""
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(takes):
            m.d.sync += [self.o.valid.eq(1), self.o.p.last.eq(last)]
            for n in range(self._words):
                source = Signal(range(2 * self._words), name=f"source{n}")
                m.d.comb += source.eq(place + sum(mask[:n], start=0))
                word = self.o.p.data.word_select(n, self._width)
                m.d.sync += word.eq(Mux(mask[n], Array(window)[source], 0))
