"""Drops small elements of a stream and says in a mask which ones are left, a beat of them at a time."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.codec.select import Selector
from etalstm_hw.codec.words import Beat
from etalstm_hw.contract import STREAM_BLOCK, FloatFormat


class CompressedBeat(data.StructLayout):
    """A beat of a compressed stream.

    Members
    -------
    data : its words, the first one lowest; a stream's last beat is filled up with 0
    last : the last of the stream
    kept : with the last, how many elements of the stream are kept
    """

    def __init__(self, word_bits: int, beat_words: int):
        super().__init__({"data": word_bits * beat_words, "last": 1, "kept": word_bits})


def compressor_ports(format: FloatFormat, beat_words: int) -> dict:
    """Give the ports of every compressor; :class:`Compressor` says what they are."""
    return {
        "i": In(stream.Signature(Beat(format.width * beat_words))),
        "threshold": In(format.width),
        "bf16": In(1),
        "o": Out(stream.Signature(CompressedBeat(format.width, beat_words))),
    }


class Compressor(wiring.Component):
    """Turns beats of elements into the beats of a compressed stream.

    ::

        i ── Selector ──┬─ kept words ─┬─ banks, one for each word of a beat ── complete lines ─ o
                        └─ mask ───────┘

    Kept words are written one behind the other. A word is left free for each block's mask, which is known last. A line,
    a word of each bank, leaves when all its masks are there.

    A beat of elements a cycle, and a cycle for each mask. A stream's last beat comes out 5 cycles after its last
    elements went in, if no lines wait before it. The next stream is written when that beat has left. A stalled output
    stalls the input when the lines are full.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words : int
        Words of a beat: 2, 4, 8 or 16.

    Members
    -------
    i : :py:`In(stream.Signature(Beat(32 * beat_words)))`
        Elements.
    threshold : :py:`In(32)`
        What is smaller is dropped, see :class:`Selector`.
    bf16 : :py:`In(1)`
        Round what is kept to half a word and pack it by two; constant from a stream's first beat to its last.
    o : :py:`Out(stream.Signature(CompressedBeat(32, beat_words)))`
    """

    def __init__(self, format: FloatFormat, beat_words: int):
        if beat_words not in (2, 4, 8, 16):
            raise ValueError(f"beat_words must be 2, 4, 8 or 16, got {beat_words}")
        self._format, self._words, self._shift = format, beat_words, beat_words.bit_length() - 1
        # More lines than a block with its mask takes, so that the line of a mask that is not known waits for it.
        self._line_bits = max(4, (STREAM_BLOCK // beat_words + 1).bit_length())
        super().__init__(compressor_ports(format, beat_words))

    def elaborate(self, platform):
        """Addresses count words, with a bit more than the lines need: it tells full from empty."""
        m = Module()
        m.submodules.selector = selector = Selector(self._format, self._words)
        connect(m, flipped(self.i), selector.i)
        m.d.comb += [selector.threshold.eq(self.threshold), selector.bf16.eq(self.bf16)]
        address_bits, lines = self._shift + self._line_bits + 1, 1 << self._line_bits
        address, mask_address = (Signal(address_bits, name=name) for name in ("address", "mask_address"))
        kept, first = selector.o.p, Signal(init=1)  # first: no word is left free for the block's mask
        read, total = Signal(self._line_bits + 1), Signal(self._format.width)
        masking, closing, ending = Signal(), Signal(), Signal()  # closing: the mask is the stream's last
        takes, ends = Signal(), Signal()
        words, count = self._pair(m, kept, takes, ends)
        mask = self._mask(m, kept, takes, ends, masking)
        used = (address[self._shift :] - read)[: self._line_bits + 1]
        start = Mux(masking, mask_address, address + first)[: len(address)]
        m.d.comb += [
            takes.eq(selector.o.valid & ~masking & ~ending & (used < lines - 1)),
            selector.o.ready.eq(takes),
        ]
        with m.If(takes):
            m.d.sync += [address.eq(start + count), mask_address.eq(Mux(first, address, mask_address)), first.eq(0)]
            m.d.sync += [total.eq(total + kept.count), masking.eq(ends), closing.eq(kept.last)]
        with m.If(masking):
            m.d.sync += [masking.eq(0), first.eq(1), ending.eq(closing)]
        words[0] = Mux(masking, mask, words[0])
        first_line = self._write(m, words, Mux(masking, 1, Mux(takes, count, 0)), start, read)
        self._put_out(m, first_line, address, Mux(first, address, mask_address), read, ending, total)
        return m

    def _pair(self, m, kept, takes, ends):
        """Give the words that a beat adds, and how many; with bf16 a half word may be left over for the next one."""
        half_bits = self._format.width // 2
        half, has = Signal(half_bits), Signal()
        halves = [word[:half_bits] for word in kept.words]
        sequence = [
            Mux(has, before, now) for before, now in zip([half, *halves], [*halves, Const(0, half_bits)], strict=True)
        ]
        sequence += [Const(0, half_bits)] * (len(sequence) % 2)
        halves_there = kept.count + has
        # The one half word behind the last that is ever written fills a block's last word.
        pairs = [Cat(sequence[n], Mux(n + 1 < halves_there, sequence[n + 1], 0)) for n in range(0, len(sequence), 2)]
        pairs += [Const(0, 2 * half_bits)] * (self._words - len(pairs))
        words = [Mux(kept.bf16, pair, word) for pair, word in zip(pairs, kept.words, strict=True)]
        with m.If(takes):
            m.d.sync += has.eq(kept.bf16 & halves_there[0] & ~ends)
            with m.If(kept.count != 0):
                m.d.sync += half.eq(Array(halves)[(kept.count - 1)[: self._shift]])
        count = Signal(range(self._words + 1))
        m.d.comb += count.eq(Mux(kept.bf16, (halves_there + ends) >> 1, kept.count))
        return words, count

    def _mask(self, m, kept, takes, ends, masking):
        """Collect a block's mask."""
        mask, beat = Signal(STREAM_BLOCK), Signal(range(STREAM_BLOCK // self._words))
        m.d.comb += ends.eq(kept.last | (beat == STREAM_BLOCK // self._words - 1))
        with m.If(takes):
            m.d.sync += [mask.eq(mask | kept.keep << (beat << self._shift)), beat.eq(Mux(ends, 0, beat + 1))]
        with m.If(masking):
            m.d.sync += mask.eq(0)
        return mask

    def _write(self, m, words, count, start, read):
        """Write so many words from `start` on; give the line that is read."""
        shift, line = self._shift, []
        for n in range(self._words):
            m.submodules[f"bank{n}"] = bank = Memory(shape=self._format.width, depth=1 << self._line_bits, init=[])
            write, look = bank.write_port(), bank.read_port(domain="comb")
            number = Signal(shift, name=f"number{n}")
            wraps = n < start[:shift] if n < self._words - 1 else Const(0)
            m.d.comb += [
                number.eq(n - start[:shift]),
                write.addr.eq(start[shift:] + wraps),
                write.data.eq(Array(words)[number]),
                write.en.eq(number < count),
                look.addr.eq(read),
            ]
            line.append(look.data)
        return line

    def _put_out(self, m, line, address, known, read, ending, total):
        """Put out the lines before that of address `known`, and at a stream's end all lines."""
        shift, out = self._shift, self.o.p
        end, partial = address[shift:], address[:shift] != 0
        there, last = Signal(), Signal()
        m.d.comb += [
            there.eq((read != known[shift:]) | (ending & partial)),
            last.eq(ending & (read == (end - ~partial)[: len(read)])),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(there & (~self.o.valid | self.o.ready)):
            m.d.sync += [self.o.valid.eq(1), out.last.eq(last), out.kept.eq(total), read.eq(read + 1)]
            for n, word in enumerate(line):
                filled = last & partial & (n >= address[:shift] if n < self._words - 1 else Const(1))
                m.d.sync += out.data.word_select(n, self._format.width).eq(Mux(filled, 0, word))
            with m.If(last):
                m.d.sync += [address.eq((end + partial) << shift), ending.eq(0), total.eq(0)]
