"""A compressor and a decompressor of some words of a beat at a time: LUTs grow faster than words."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from etalstm_hw.codec.compress import Compressor, compressor_ports
from etalstm_hw.codec.decompress import Decompressor, decompressor_ports
from etalstm_hw.codec.words import Packer, Unpacker
from etalstm_hw.contract import FloatFormat
from etalstm_hw.elastic import Elastic


class SlowCompressor(wiring.Component):
    """Does what :class:`Compressor` does, ``words`` elements a cycle.

    ::

        i ── Unpacker ── Compressor ── Packer ── o

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words, words : int
        Words of a beat, and those taken in a cycle: fewer, and at least 2.

    Members
    -------
    i, threshold, bf16, o
        As of :class:`Compressor`.
    """

    def __init__(self, format: FloatFormat, beat_words: int, words: int):
        self._pieces = _pieces(format, beat_words, words)
        self._compressor = Compressor(format, words)
        super().__init__(compressor_ports(format, beat_words))

    def elaborate(self, platform):
        """The number of kept elements waits beside the packer for its last beat."""
        m = Module()
        m.submodules.compressor = compressor = self._compressor
        compressed = compressor.o
        packer = _in_pieces(m, self.i, compressor.i, compressed, self._pieces)
        kept = Signal.like(self.o.p.kept, reset_less=True)
        m.d.comb += [
            compressor.threshold.eq(self.threshold),
            compressor.bf16.eq(self.bf16),
            self.o.p.data.eq(packer.o.p.data),
            self.o.p.last.eq(packer.o.p.last),
            self.o.p.kept.eq(kept),
            self.o.valid.eq(packer.o.valid),
            packer.o.ready.eq(self.o.ready),
        ]
        with m.If(compressed.valid & compressed.ready):
            m.d.sync += kept.eq(compressed.p.kept)
        return m


class SlowDecompressor(wiring.Component):
    """Does what :class:`Decompressor` does, ``words`` elements a cycle.

    ::

        i ── Unpacker ── Elastic ── Decompressor ── Packer ── o

    Whether a beat is taken depends on registers alone.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words, words : int
        Words of a beat, and those given in a cycle: fewer, and at least 2.

    Members
    -------
    stream_size, i, o, error
        As of :class:`Decompressor`.
    """

    def __init__(self, format: FloatFormat, beat_words: int, words: int):
        self._pieces = _pieces(format, beat_words, words)
        self._decompressor = Decompressor(format, words, padding=beat_words // words - 1)
        super().__init__(decompressor_ports(format, beat_words))

    def elaborate(self, platform):
        """Elements come in whole beats, so every beat is full when the packer gives it."""
        m = Module()
        m.submodules.decompressor = decompressor = self._decompressor
        m.submodules.piece = piece = Elastic(decompressor.i.p.shape())
        connect(m, piece.o, decompressor.i)
        packer = _in_pieces(m, self.i, piece.i, decompressor.o, self._pieces)
        connect(m, flipped(self.stream_size), decompressor.stream_size)
        connect(m, packer.o, flipped(self.o))
        m.d.comb += self.error.eq(decompressor.error)
        return m


def compressor(format: FloatFormat, beat_words: int, words: int) -> Compressor | SlowCompressor:
    """Make a compressor of ``words`` elements a cycle, or of a beat if that is less."""
    return SlowCompressor(format, beat_words, words) if words < beat_words else Compressor(format, beat_words)


def decompressor(format: FloatFormat, beat_words: int, words: int) -> Decompressor | SlowDecompressor:
    """Make a decompressor of ``words`` elements a cycle, or of a beat if that is less."""
    return SlowDecompressor(format, beat_words, words) if words < beat_words else Decompressor(format, beat_words)


def _in_pieces(m: Module, i, taken, given, pieces: tuple[int, int]) -> Packer:
    """Feed the beats of `i` to a codec in pieces; give what packs its own pieces to beats.

    `taken` and `given` are the streams of pieces that the codec takes and gives.
    """
    m.submodules.unpacker = unpacker = Unpacker(*pieces)
    m.submodules.packer = packer = Packer(*pieces)
    connect(m, flipped(i), unpacker.i)
    m.d.comb += [
        taken.p.data.eq(unpacker.o.p.word),
        taken.p.last.eq(unpacker.o.p.last),
        taken.valid.eq(unpacker.o.valid),
        unpacker.o.ready.eq(taken.ready),
        packer.i.p.word.eq(given.p.data),
        packer.i.p.last.eq(given.p.last),
        packer.i.valid.eq(given.valid),
        given.ready.eq(packer.i.ready),
    ]
    return packer


def _pieces(format: FloatFormat, beat_words: int, words: int) -> tuple[int, int]:
    """Give the bits of a piece of a beat, and the number of pieces."""
    if not words < beat_words or beat_words % words:
        raise ValueError(f"words must divide beat_words ({beat_words}) and be fewer, got {words}")
    return words * format.width, beat_words // words
