"""Drops small elements of a stream and says in a mask which ones are left."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from etalstm.hw.codec.words import Word
from etalstm.hw.contract import STREAM_BLOCK, FloatFormat


def mask_is_a_word(format: FloatFormat):
    """Raise ``ValueError`` unless a block's mask fills a word, and half a word can hold sign and exponent."""
    if format.width != STREAM_BLOCK or format.mantissa <= format.width // 2:
        raise ValueError(f"a compressed stream needs words of {STREAM_BLOCK} bits with long fractions, got {format}")


def round_to_half(format: FloatFormat, word):
    """Round a word to its upper half: to nearest, ties to even; NaNs stay NaNs, large values become infinite.

    Returns
    -------
    Value, width / 2 bits
    """
    half = format.width // 2
    kept, up = word[half:], word[half - 1] & (word[: half - 1].any() | word[half])
    nan = word[format.mantissa : -1].all() & word[: format.mantissa].any()
    return Mux(nan, kept | 1 << (format.mantissa - 1 - half), kept + up)[:half]


class CompressedWord(data.StructLayout):
    """A word of a compressed stream.

    Members
    -------
    word : a mask, or one or two kept elements
    last : the last of the stream
    kept : with the last, how many elements of the stream are kept
    """

    def __init__(self, word_bits: int):
        super().__init__({"word": word_bits, "last": 1, "kept": word_bits})


class Compressor(wiring.Component):
    """Turns a stream of elements into a compressed stream: for each block its mask, then what is kept.

    ::

        i ── compare, round ── two pages of a block each ── o
                               (masks in registers)

    A block's mask comes out 3 cycles after its last element went in. One element a cycle as long as at most 31 of a
    block's 32 are kept (with bf16: always); when nothing is dropped 32 elements take 33 cycles, for there are 33 words.
    The next stream may follow at once. A stalled output stalls the input when both pages are full.

    An element x is dropped if it is ±0 or ``|x| < threshold``, compared as integers; NaNs are kept.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.

    Members
    -------
    i : :py:`In(stream.Signature(Word(32)))`
        Elements.
    threshold : :py:`In(32)`
        A float that is not negative; looked at with each element.
    bf16 : :py:`In(1)`
        Round what is kept to half a word and pack it by two; constant from a stream's first element to its last.
    o : :py:`Out(stream.Signature(CompressedWord(32)))`
    """

    def __init__(self, format: FloatFormat):
        mask_is_a_word(format)
        self._format = format
        super().__init__(
            {
                "i": In(stream.Signature(Word(format.width))),
                "threshold": In(format.width),
                "bf16": In(1),
                "o": Out(stream.Signature(CompressedWord(format.width))),
            }
        )

    def elaborate(self, platform):
        """Elements wait in a register, blocks in pages that are filled and emptied in turn."""
        m = Module()
        width = self._format.width
        page = data.StructLayout({"mask": STREAM_BLOCK, "kept": 6, "words": 6, "last": 1})
        pages = Array(Signal(page, name=f"page{n}", reset_less=True) for n in range(2))
        full = Array(Signal(name=f"full{n}") for n in range(2))
        m.submodules.words = words = Memory(shape=width, depth=2 * STREAM_BLOCK, init=[])
        self._fill(m, words.write_port(granularity=width // 2), pages, full)
        self._empty(m, words.read_port(domain="comb"), pages, full)
        return m

    def _fill(self, m, port, pages, full):
        """Decide about an element, then write it where the block's kept words end."""
        word, half = self.i.p.word, self._format.width // 2
        element = Signal.like(word, reset_less=True)
        valid = Signal()
        keep, last, bf16 = (Signal(name=f"element_{name}", reset_less=True) for name in ("keep", "last", "bf16"))
        number, place = Signal(1), Signal(range(STREAM_BLOCK))
        mask, count = Signal(STREAM_BLOCK), Signal(6)
        next_mask, next_count = Signal(STREAM_BLOCK), Signal(6)
        put, low = Signal(), Signal()

        magnitude = word[:-1]
        rounded = round_to_half(self._format, word)
        with m.If(put):
            m.d.sync += valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                valid.eq(1),
                element.eq(Mux(self.bf16, Cat(rounded, rounded), word)),
                keep.eq(magnitude.any() & ((magnitude >= self.threshold[:-1]) | self.threshold[-1])),
                last.eq(self.i.p.last),
                bf16.eq(self.bf16),
            ]

        m.d.comb += [
            put.eq(valid & ~full[number]),
            self.i.ready.eq(~valid | put),
            next_mask.eq(mask | keep << place),
            next_count.eq(count + keep),
            low.eq(bf16 & ~count[0]),  # writes zeros above itself
            port.addr.eq(Cat(Mux(bf16, count[1:5], count[:5]), number)),
            port.data.eq(Mux(low, element[:half], element)),
            port.en.eq(Cat(put & keep & (~bf16 | low), put & keep)),
        ]
        with m.If(put):
            m.d.sync += [place.eq(place + 1), mask.eq(next_mask), count.eq(next_count)]
            with m.If(last | (place == STREAM_BLOCK - 1)):
                m.d.sync += [place.eq(0), mask.eq(0), count.eq(0), number.eq(~number), full[number].eq(1)]
                m.d.sync += [
                    pages[number].mask.eq(next_mask),
                    pages[number].kept.eq(next_count),
                    pages[number].words.eq(Mux(bf16, (next_count + 1) >> 1, next_count)),
                    pages[number].last.eq(last),
                ]

    def _empty(self, m, port, pages, full):
        """Give a page's mask, then its words."""
        number, place = Signal(1), Signal(6)  # place 0: the mask
        total = Signal(self._format.width)
        ends = Signal()
        page = pages[number]
        m.d.comb += [
            port.addr.eq(Cat((place - 1)[:5], number)),
            ends.eq(place == page.words),
            self.o.valid.eq(full[number]),
            self.o.p.word.eq(Mux(place == 0, page.mask, port.data)),
            self.o.p.last.eq(ends & page.last),
            self.o.p.kept.eq(total + Mux(ends, page.kept, 0)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += place.eq(place + 1)
            with m.If(ends):
                m.d.sync += [place.eq(0), number.eq(~number), full[number].eq(0)]
                m.d.sync += total.eq(Mux(page.last, 0, self.o.p.kept))
