"""Puts the elements of a compressed stream back where they were."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.codec.masks import Masks
from etalstm.hw.codec.select import mask_is_a_word
from etalstm.hw.codec.words import Word
from etalstm.hw.contract import STREAM_BLOCK, FloatFormat


class Extent(data.StructLayout):
    """What must be known of a stream before its first word.

    Members
    -------
    elements : how many there are, at least 1
    kept : how many of them are kept
    bf16 : kept elements are half words, packed by two
    """

    def __init__(self, word_bits: int):
        super().__init__({"elements": word_bits, "kept": word_bits, "bf16": 1})


class Decompressor(wiring.Component):
    """Turns a compressed stream into its elements, zeros where nothing was kept.

    The first element comes out 2 cycles after the first mask went in. One element a cycle, unless a block's last
    element takes the block's last word: then the next mask comes a cycle late, so that when nothing is dropped 32
    elements take 33 cycles (with bf16: 32). Between two streams 2 cycles are lost. A stalled output stalls the input.

    A stream ends with its word marked ``last``; up to ``padding`` words may follow what it needs. The last element
    comes out only when the stream has ended as it should. A mask bit beyond the last element, a stream that is too
    short or too long, a fill that is not 0 and a number of kept elements that is not the one announced set ``error``:
    from then on no word is taken and no element given, until reset.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    padding : int
        Words of a beat, less one.

    Members
    -------
    extent : :py:`In(stream.Signature(Extent(32)))`
        Taken when the stream before has ended.
    i : :py:`In(stream.Signature(Word(32)))`
    o : :py:`Out(stream.Signature(Word(32)))`
    error : :py:`Out(1)`
    """

    def __init__(self, format: FloatFormat, padding: int):
        mask_is_a_word(format)
        self._width, self._padding = format.width, padding
        super().__init__(
            {
                "extent": In(stream.Signature(Extent(format.width))),
                "i": In(stream.Signature(Word(format.width))),
                "o": Out(stream.Signature(Word(format.width))),
                "error": Out(1),
            }
        )

    def elaborate(self, platform):
        """What the next word is follows from the masks; elements wait in a register until they are taken."""
        m = Module()
        m.submodules.masks = masks = Masks()
        counts = {name: Signal(self._width, name=name, reset_less=True) for name in ("left", "uncovered", "kept")}
        bf16, half_valid = Signal(reset_less=True), Signal()
        active, over, step, last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.extent.ready.eq(~active),
            last.eq(counts["left"] == 1),
            masks.step.eq(step),
            masks.last.eq(last),
        ]
        with m.If(self.extent.valid & self.extent.ready):
            for name, source in (("left", "elements"), ("uncovered", "elements"), ("kept", "kept")):
                m.d.sync += counts[name].eq(self.extent.p[source])
            m.d.sync += [bf16.eq(self.extent.p.bf16), active.eq(1)]
        with m.If(step):
            m.d.sync += [counts["left"].eq(counts["left"] - 1), counts["kept"].eq(counts["kept"] - masks.kept)]
        with m.If(self.i.valid & self.i.ready & self.i.p.last):
            m.d.sync += over.eq(1)
        with m.If(self.o.valid & self.o.ready & self.o.p.last):
            m.d.sync += [active.eq(0), over.eq(0)]

        listening = active & ~over & ~self.error
        wrong = self._listen(m, masks, counts["uncovered"], half_valid, listening, over, step)
        filled = self._give(m, masks, bf16, half_valid, listening, over, step, last)
        with m.If(wrong | filled | (step & last & (counts["kept"] != masks.kept))):
            m.d.sync += self.error.eq(1)
        return m

    def _listen(self, m, masks, uncovered, half_valid, listening, over, step):
        """Take masks as early as possible, kept words when they are needed, and what follows the last; find faults."""
        padded = Signal(range(self._padding + 1))
        spent, fetch, drop = Signal(), Signal(), Signal()
        free = listening & spent & masks.i.ready
        m.d.comb += [
            # The block at hand takes no further word: no bit is left, or one whose half word is here.
            spent.eq(~masks.any | (half_valid & ~masks.several)),
            fetch.eq(free & (uncovered != 0) & self.i.valid),
            drop.eq(free & (uncovered == 0) & self.i.valid),
            self.i.ready.eq(free | (step & masks.kept & ~half_valid)),
            masks.i.valid.eq(fetch),
            masks.i.p.eq(self.i.p.word),
        ]
        final = uncovered < STREAM_BLOCK
        with m.If(fetch):
            m.d.sync += uncovered.eq(Mux(final, 0, uncovered - STREAM_BLOCK))
        with m.If(drop):
            m.d.sync += padded.eq(Mux(self.i.p.last, 0, padded + 1))
        beyond = fetch & final & (self.i.p.word >> uncovered[: (STREAM_BLOCK - 1).bit_length()]).any()
        missing = over & (~spent | (uncovered != 0) | masks.next_any)
        return beyond | missing | (drop & ((padded == self._padding) | self.i.p.word.any()))

    def _give(self, m, masks, bf16, half_valid, listening, over, step, last):
        """Put an element together and hold it, the last one until the stream is whole; say if a fill is not 0."""
        word, half_bits = self.i.p.word, self._width // 2
        half = Signal(half_bits, reset_less=True)
        held = Signal()
        element = Signal(self._width)
        m.d.comb += [
            self.o.valid.eq(held & (~self.o.p.last | over) & ~self.error),
            step.eq(
                masks.valid
                & (~masks.kept | half_valid | (listening & self.i.valid))
                & (~held | (self.o.valid & self.o.ready))
            ),
            element.eq(Mux(bf16, Mux(half_valid, half, word[:half_bits]) << half_bits, word)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += held.eq(0)
        with m.If(step):
            m.d.sync += [held.eq(1), self.o.p.word.eq(Mux(masks.kept, element, 0)), self.o.p.last.eq(last)]
        with m.If(masks.ends):
            m.d.sync += half_valid.eq(0)
        with m.Elif(step & masks.kept & bf16):
            m.d.sync += [half_valid.eq(~half_valid), half.eq(word[half_bits:])]
        unpaired = Mux(half_valid, ~masks.kept & half.any(), masks.kept & word[half_bits:].any())
        return masks.ends & bf16 & unpaired
